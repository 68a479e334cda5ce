// network.c: see tperf/network.h. Numbers Qn: tperf/rules.h.
#include "tperf/network.h"

#include <math.h>
#include <string.h>

enum { FP32_BYTES = 4 };

static tp_status join_pass(const tp_network *network, const tp_op *op, tp_pass *pass,
                           tp_error *error) {
    int kept = 0;
    for (int i = 0; i < pass->n_comms; i++) {
        tp_comm comm = pass->comms[i];
        comm.axis_index = tp_grid_find(&network->grid, comm.axis);
        if (comm.axis_index < TP_AXIS_OWN)
            return tp_error_set(error, TP_INVALID,
                                "op '%s' communicates over the axis '%s', which the strategy lacks",
                                op->name, comm.axis);
        int64_t size = network->sizes[comm.axis_index];
        if (comm.share) comm.bytes *= (double)size;
        comm.share = false;
        if (size > 1) pass->comms[kept++] = comm;
    }
    pass->n_comms = kept;
    bool chunked = false;
    for (int i = 0; i < kept; i++)
        chunked = chunked || pass->comms[i].chunking != TP_UNCHUNKED;
    if (!chunked) pass->chunks = 0;
    return TP_OK;
}

tp_status tp_network_join(tp_network *network, const tp_op *op, tp_error *error) {
    if (network->n_ops >= network->capacity)
        return tp_error_set(error, TP_INVALID, "op '%s' is one more than the %zu of the network",
                            op->name, network->capacity);
    tp_op *joined = &network->ops[network->n_ops];
    *joined = *op;
    TP_TRY(join_pass(network, op, &joined->forward, error));
    TP_TRY(join_pass(network, op, &joined->backward, error));
    network->n_ops++;
    return TP_OK;
}

// FLOPs of X <- a X + (b X X^T + c (X X^T)^2) X for each matrix of a product, m x n with m <= n (arXiv 2502.16982,
// section 2.1): products of 2 m^2 n, 2 m^3 and 2 m^2 n.
static double orthogonal_flops(const tp_op *op) {
    const tp_kernel *kernel = &op->forward.kernels[0];
    if (op->forward.n_kernels == 0 || kernel->kind != TP_KERNEL_GEMM || op->parameters == 0)
        return 0;
    double m = fmin(kernel->n, kernel->k), n = fmax(kernel->n, kernel->k);
    double matrices = floor(op->parameters / (m * n));
    return matrices * (4 * m * m * n + 2 * m * m * m);
}

static tp_weights weights_of(const tp_op *op) {
    if (op->frozen)
        return (tp_weights){
            .bytes = op->weight_bytes, .frozen = op->weight_bytes, .copies = op->copy_bytes};
    bool narrow = op->weight_bytes < FP32_BYTES * op->parameters;
    return (tp_weights){
        .bytes = op->weight_bytes,
        .count = op->parameters,
        .narrow = narrow ? op->parameters : 0,
        .orthogonal = orthogonal_flops(op),
        .gathered = op->gather_bytes > 0 ? op->gather_bytes : op->weight_bytes,
        .copies = op->copy_bytes,
        .step = op->step_bytes,
    };
}

void tp_network_bytes(const tp_network *network, tp_layer_cost *costs) {
    for (int section = 0; section < network->n_kinds + 2; section++) {
        tp_layer_cost sum = {0};
        bool whole = true; // all of it is recomputed
        for (size_t i = tp_section_begin(network, section); i < network->section_end[section];
             i++) {
            const tp_op *op = &network->ops[i];
            tp_weights weights = weights_of(op);
            tp_weights_add(op->expert ? &sum.experts : &sum.weights, &weights, 1);
            if (op->tied) tp_weights_add(&sum.tied, &weights, 1);
            sum.saved_bytes += op->saved_bytes;
            sum.again_bytes += op->again_bytes;
            sum.offload_bytes += op->offload_bytes;
            whole = whole && (op->recomputed || op->backward.absent);
            double panels = op->panels ? op->forward.bytes_per_panel : 0;
            double read = op->product.read_bytes > 0 ? op->product.read_bytes : op->weight_bytes;
            double work = op->forward.bytes + panels - op->repeated_bytes - read - op->saved_bytes -
                          op->again_bytes;
            if (op->passing_bytes > 0) work = op->passing_bytes;
            sum.work_bytes = fmax(sum.work_bytes, work);
        }
        sum.input_bytes = whole ? sum.saved_bytes : 0;
        costs[section] = sum;
    }
}

void tp_network_work(const tp_network *network, const tp_platform *on, int64_t panels,
                     tp_op_work *works) {
    for (size_t i = 0; i < network->n_ops; i++)
        works[i] = tp_op_work_of(&network->ops[i], on, panels);
}

// Seconds of a pass's exchanges with experts, less what they slow kernels beside them by.
static double exchanges_of(const tp_pass *pass, const tp_platform *on, const int64_t *sizes,
                           const tp_placement *placement) {
    double sum = 0;
    for (int i = 0; i < pass->n_comms; i++)
        if (pass->comms[i].exchanges)
            sum += (1 - tp_comm_share(&pass->comms[i], on)) *
                   tp_comm_time(&pass->comms[i], on, sizes, placement, 1);
    return sum;
}

static double kernels_of(const tp_pass_cost *pass) {
    return pass->compute + pass->exposed_memory;
}

// Adds an op to what its layer exchanges with experts. *inside: the ops up to here have sent tokens to experts, and not
// yet got them back.
static void add_exchange(tp_expert_cost *sum, const tp_op *op, const tp_op_cost *cost,
                         const tp_platform *on, const tp_network *network,
                         const tp_placement *placement, bool *inside) {
    double forward = exchanges_of(&op->forward, on, network->sizes, placement);
    double backward = exchanges_of(&op->backward, on, network->sizes, placement);
    bool exchange = forward > 0 || backward > 0;
    double *seconds = *inside ? sum->combine : sum->dispatch;
    double *work = *inside && !exchange ? sum->inside : sum->outside;
    seconds[0] += forward;
    seconds[1] += backward;
    work[0] += kernels_of(&cost->forward);
    work[1] += kernels_of(&cost->backward);
    if (*inside && !exchange) sum->inside_grad += cost->weight_grad;
    if (exchange) *inside = !*inside;
}

// A pass waits for copies to or from the host that take longer than all that it does meanwhile.
static void wait_for_host(tp_pass_cost *pass, double bytes, const tp_system *system) {
    if (!(bytes > 0)) return;
    double late = bytes / (system->host.bandwidth * system->host.efficiency) - pass->time;
    if (!(late > 0)) return;
    pass->offload += late;
    pass->time += late;
}

void tp_network_time(const tp_network *network, const tp_platform *on,
                     const tp_placement *placement, const tp_op_work *works, tp_layer_cost *costs) {
    tp_network_bytes(network, costs);
    for (int section = 0; section < network->n_kinds + 2; section++) {
        tp_layer_cost *sum = &costs[section];
        bool inside = false;
        for (size_t i = tp_section_begin(network, section); i < network->section_end[section];
             i++) {
            const tp_op *op = &network->ops[i];
            tp_op_work work = works ? works[i] : tp_op_work_of(op, on, placement->panels);
            tp_op_cost cost = tp_op_cost_of(op, &work, on, network->sizes, placement);
            tp_pass_cost_add(&sum->forward, &cost.forward, 1);
            tp_pass_cost_add(&sum->backward, &cost.backward, 1);
            sum->weight_grad += cost.weight_grad;
            sum->flops += work.flops;
            add_exchange(&sum->exchange, op, &cost, on, network, placement, &inside);
        }
        wait_for_host(&sum->forward, sum->offload_bytes, on->system);
        wait_for_host(&sum->backward, sum->offload_bytes, on->system);
    }
}

tp_status tp_network_check_system(const tp_network *network, const tp_system *system,
                                  tp_error *error) {
    for (size_t i = 0; i < network->n_ops; i++) {
        const tp_op *op = &network->ops[i];
        if (op->offload_bytes > 0 && !(system->host.bandwidth > 0))
            return tp_error_set(error, TP_INVALID,
                                "op '%s' offloads to the host, whose bandwidth is not given",
                                op->name);
        bool tensor = op->forward.tensor_flops > 0 || op->backward.tensor_flops > 0;
        bool vector = op->forward.vector_flops > 0 || op->backward.vector_flops > 0;
        tensor = tensor && !(system->accelerator.tensor[op->matrix_dtype] > 0);
        vector = vector && !(system->accelerator.vector[op->dtype] > 0);
        if (tensor || vector)
            return tp_error_set(error, TP_INVALID,
                                "op '%s' needs the system's accelerator.%s.%s, which is not given",
                                op->name, tensor ? "tensor" : "vector",
                                tp_dtype_names[tensor ? op->matrix_dtype : op->dtype]);
    }
    return TP_OK;
}
