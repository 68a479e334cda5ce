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

static tp_weights weights_of(const tp_op *op) {
    if (op->frozen) return (tp_weights){.bytes = op->weight_bytes, .frozen = op->weight_bytes};
    bool narrow = op->weight_bytes < FP32_BYTES * op->parameters;
    return (tp_weights){op->weight_bytes, op->parameters, narrow ? op->parameters : 0, 0};
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
            whole = whole && (op->recomputed || op->backward.absent);
            double panels = op->panels ? op->forward.bytes_per_panel : 0;
            double work = op->forward.bytes + panels - op->repeated_bytes - op->weight_bytes -
                          op->saved_bytes - op->again_bytes;
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

void tp_network_time(const tp_network *network, const tp_platform *on,
                     const tp_placement *placement, const tp_op_work *works, tp_layer_cost *costs) {
    tp_network_bytes(network, costs);
    for (int section = 0; section < network->n_kinds + 2; section++) {
        tp_layer_cost *sum = &costs[section];
        for (size_t i = tp_section_begin(network, section); i < network->section_end[section];
             i++) {
            const tp_op *op = &network->ops[i];
            tp_op_work work = works ? works[i] : tp_op_work_of(op, on, placement->panels);
            tp_op_cost cost = tp_op_cost_of(op, &work, on, network->sizes, placement);
            tp_pass_cost_add(&sum->forward, &cost.forward, 1);
            tp_pass_cost_add(&sum->backward, &cost.backward, 1);
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
