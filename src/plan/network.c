// network.c: see tperf/network.h. Numbers Qn: tperf/rules.h.
#include "tperf/network.h"

#include <math.h>
#include <string.h>

static int find_axis(const tp_network *network, const char *name) {
    for (int i = 0; i < network->n_axes; i++)
        if (strcmp(network->axes[i], name) == 0) return i;
    return -1;
}

static tp_status join_pass(const tp_network *network, const tp_op *op, tp_pass *pass,
                           tp_error *error) {
    int kept = 0;
    for (int i = 0; i < pass->n_comms; i++) {
        tp_comm comm = pass->comms[i];
        comm.axis_index = find_axis(network, comm.axis);
        if (comm.axis_index < 0)
            return tp_error_set(error, TP_INVALID,
                                "op '%s' communicates over the axis '%s', which the strategy lacks",
                                op->name, comm.axis);
        int64_t size = network->sizes[comm.axis_index];
        if (comm.share) comm.bytes *= (double)size;
        comm.share = false;
        if (size > 1) pass->comms[kept++] = comm;
    }
    pass->n_comms = kept;
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

static double larger(double a, double b) {
    return a > b ? a : b;
}

// Seconds of collectives; *beside: of those that run beside the pass's own work.
static double comm_time(const tp_pass *pass, const tp_network *network, const tp_system *system,
                        const tp_rules *rules, const tp_placement *placement, double parts,
                        double *beside) {
    double time = 0;
    *beside = 0;
    for (int i = 0; i < pass->n_comms; i++) {
        const tp_comm *comm = &pass->comms[i];
        tp_group group = {network->sizes[comm->axis_index], placement->fast[comm->axis_index]};
        double own = tp_collective_time(system, rules, comm->kind, comm->bytes / parts, group);
        *(comm->beside ? beside : &time) += own;
    }
    return time;
}

// Compute and exposed memory of a pass whose efficiency is a constant.
static tp_pass_cost constant_time(const tp_op *op, const tp_pass *pass, double bytes,
                                  const tp_system *system, const tp_rules *rules) {
    double work = 0, efficiency = system->accelerator.compute_efficiency;
    if (pass->tensor_flops > 0)
        work += pass->tensor_flops / (efficiency * system->accelerator.tensor[op->matrix_dtype]);
    if (pass->vector_flops > 0)
        work += pass->vector_flops / (efficiency * system->accelerator.vector[op->dtype]);
    double memory =
        bytes / (system->accelerator.hbm.bandwidth * system->accelerator.hbm.efficiency);
    tp_pass_cost cost = {.compute = system->accelerator.launch_s + work};
    cost.exposed_memory =
        larger(memory - (rules->launch_outside_roofline ? work : cost.compute), 0);
    if (system->serves && pass->routed > 0)
        cost.compute +=
            system->accelerator.routing.setup_s + pass->routed * system->accelerator.routing.pair_s;
    return cost;
}

// The same from the shapes of its kernels; false when the system has no curve for one of them.
static bool kernels_time(const tp_op *op, const tp_pass *pass, const tp_system *system,
                         tp_pass_cost *cost) {
    *cost = (tp_pass_cost){0};
    for (int i = 0; i < pass->n_kernels; i++) {
        tp_kernel_time time;
        bool backward = pass == &op->backward;
        if (!tp_system_kernel_time(system, op->matrix_dtype, &pass->kernels[i], backward, &time))
            return false;
        cost->compute += time.compute;
        cost->exposed_memory += time.exposed_memory;
    }
    return pass->n_kernels > 0;
}

// Compute and exposed memory of a pass.
static tp_pass_cost work_of_pass(const tp_op *op, const tp_pass *pass, const tp_system *system,
                                 const tp_rules *rules, double panels) {
    tp_pass_cost cost;
    if (!kernels_time(op, pass, system, &cost))
        cost = constant_time(op, pass, pass->bytes + panels * pass->bytes_per_panel, system, rules);
    return cost;
}

// Adds the collectives, and the sum.
static void communicate(tp_pass_cost *cost, const tp_op *op, const tp_pass *pass,
                        const tp_network *network, const tp_system *system, const tp_rules *rules,
                        const tp_placement *placement) {
    double roofline = cost->compute + cost->exposed_memory;
    cost->time = roofline;
    if (pass->n_comms == 0) return;
    double beside, panels = op->panels ? (double)placement->panels : 1;
    cost->comm = comm_time(pass, network, system, rules, placement, panels, &beside);
    cost->comm += larger(beside - roofline, 0);
    if (op->panels) { // cost->comm is one panel's; the next travels while this one is multiplied
        double late = rules->panels_overlap_exactly
                          ? (panels - 1) * larger(cost->comm - roofline / panels, 0)
                          : larger(panels * cost->comm - roofline, 0);
        cost->comm += late;
    }
    cost->time = roofline + cost->comm;
}

tp_pass_cost tp_pass_time(const tp_op *op, const tp_pass *pass, const tp_network *network,
                          const tp_system *system, const tp_rules *rules,
                          const tp_placement *placement) {
    double panels = op->panels ? (double)placement->panels : 1;
    tp_pass_cost cost = work_of_pass(op, pass, system, rules, panels);
    communicate(&cost, op, pass, network, system, rules, placement);
    return cost;
}

static void add_pass(tp_pass_cost *sum, const tp_pass_cost *part) {
    sum->compute += part->compute;
    sum->exposed_memory += part->exposed_memory;
    sum->comm += part->comm;
    sum->time += part->time;
}

double tp_pass_equivalent_flops(const tp_op *op, const tp_pass *pass, const tp_system *system) {
    if (pass->tensor_flops == 0 || pass->vector_flops == 0)
        return pass->tensor_flops + pass->vector_flops;
    return pass->tensor_flops + pass->vector_flops * system->accelerator.tensor[op->matrix_dtype] /
                                    system->accelerator.vector[op->dtype];
}

static double op_flops(const tp_op *op, const tp_system *system, const tp_rules *rules) {
    const tp_pass *f = &op->forward, *b = &op->backward;
    if (!rules->flops_without_equivalents)
        return tp_pass_equivalent_flops(op, f, system) + tp_pass_equivalent_flops(op, b, system);
    double forward = f->tensor_flops + f->vector_flops;
    bool again = op->recomputed && rules->recompute_counts_everywhere;
    return forward * (again ? 2 : 1) + b->tensor_flops + b->vector_flops;
}

static tp_op_work work_of_op(const tp_op *op, const tp_system *system, const tp_rules *rules,
                             int64_t panels) {
    double parts = op->panels ? (double)panels : 1;
    return (tp_op_work){
        work_of_pass(op, &op->forward, system, rules, parts),
        work_of_pass(op, &op->backward, system, rules, parts),
        op_flops(op, system, rules),
    };
}

static tp_op_cost cost_of_op(const tp_op *op, const tp_op_work *work, const tp_network *network,
                             const tp_system *system, const tp_rules *rules,
                             const tp_placement *placement) {
    tp_op_cost cost = {work->forward, work->backward, 0};
    communicate(&cost.forward, op, &op->forward, network, system, rules, placement);
    communicate(&cost.backward, op, &op->backward, network, system, rules, placement);
    // The product dW = X^T dY is as large as dX = dY W^T, and nothing waits for it.
    if (op->weight_bytes > 0 && op->backward.tensor_flops > 0)
        cost.weight_grad = (cost.backward.compute + cost.backward.exposed_memory) / 2;
    if (op->recomputed) {
        if (rules->recompute_counts_everywhere)
            add_pass(&cost.backward, &cost.forward);
        else
            cost.backward.time += cost.forward.time;
    }
    return cost;
}

tp_op_cost tp_op_time(const tp_op *op, const tp_network *network, const tp_system *system,
                      const tp_rules *rules, const tp_placement *placement) {
    tp_op_work work = work_of_op(op, system, rules, placement->panels);
    return cost_of_op(op, &work, network, system, rules, placement);
}

void tp_network_bytes(const tp_network *network, tp_layer_cost *costs) {
    for (int section = 0; section < network->n_kinds + 2; section++) {
        tp_layer_cost sum = {0};
        bool whole = true; // all of it is recomputed
        for (size_t i = tp_section_begin(network, section); i < network->section_end[section];
             i++) {
            const tp_op *op = &network->ops[i];
            if (op->expert)
                sum.expert_bytes += op->weight_bytes;
            else
                sum.weight_bytes += op->weight_bytes;
            if (op->tied) sum.tied_bytes += op->weight_bytes;
            sum.saved_bytes += op->saved_bytes;
            sum.again_bytes += op->again_bytes;
            whole = whole && op->recomputed;
            double panels = op->panels ? op->forward.bytes_per_panel : 0;
            double work =
                op->forward.bytes + panels - op->weight_bytes - op->saved_bytes - op->again_bytes;
            sum.work_bytes = fmax(sum.work_bytes, work);
        }
        sum.input_bytes = whole ? sum.saved_bytes : 0;
        costs[section] = sum;
    }
}

void tp_network_work(const tp_network *network, const tp_system *system, const tp_rules *rules,
                     int64_t panels, tp_op_work *works) {
    for (size_t i = 0; i < network->n_ops; i++)
        works[i] = work_of_op(&network->ops[i], system, rules, panels);
}

void tp_network_time(const tp_network *network, const tp_system *system, const tp_rules *rules,
                     const tp_placement *placement, const tp_op_work *works, tp_layer_cost *costs) {
    tp_network_bytes(network, costs);
    for (int section = 0; section < network->n_kinds + 2; section++) {
        tp_layer_cost *sum = &costs[section];
        for (size_t i = tp_section_begin(network, section); i < network->section_end[section];
             i++) {
            const tp_op *op = &network->ops[i];
            tp_op_work work = works ? works[i] : work_of_op(op, system, rules, placement->panels);
            tp_op_cost cost = cost_of_op(op, &work, network, system, rules, placement);
            add_pass(&sum->forward, &cost.forward);
            add_pass(&sum->backward, &cost.backward);
            sum->weight_grad += cost.weight_grad;
            sum->flops += work.flops;
        }
    }
}

tp_status tp_network_check_system(const tp_network *network, const tp_system *system,
                                  tp_error *error) {
    for (size_t i = 0; i < network->n_ops; i++) {
        const tp_op *op = &network->ops[i];
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
