// cells.c: finds the ops of every micro-batch on every stage and checks that they make sense.
#include "schedule/cells.h"

// "forward of micro-batch 3 at stage 2 …" with 1-based numbers.
static tp_status op_error(tp_error *error, const tp_order_op *op, const char *what,
                          int32_t device) {
    return tp_error_set(error, TP_INVALID, "%s of micro-batch %d at stage %d %s %d",
                        tp_pass_name((tp_pass_kind)op->pass), op->microbatch + 1, op->stage + 1,
                        what, device + 1);
}

static int32_t *slot(tp_cell *cell, uint8_t pass) {
    switch (pass) {
    case TP_FORWARD:
        return &cell->forward;
    case TP_BACKWARD_WEIGHT:
        return &cell->weight;
    default:
        return &cell->backward;
    }
}

// Enters one op, in queue order: what it needs from its own device must be there already.
static tp_status enter(tp_cell *cell, const tp_order_op *op, int32_t device, int32_t number,
                       const tp_schedule_rules *rules, tp_error *error) {
    int32_t *mine = slot(cell, op->pass);
    if (*mine >= 0) return op_error(error, op, "is there a second time, on device", device);
    if (cell->device >= 0 && cell->device != device)
        return tp_error_set(error, TP_INVALID,
                            "%s of micro-batch %d at stage %d is on device %d, but other passes of "
                            "it are on device %d, where its activations are",
                            tp_pass_name((tp_pass_kind)op->pass), op->microbatch + 1, op->stage + 1,
                            device + 1, cell->device + 1);
    bool ordered = !rules->backward_before_forward;
    if (ordered && op->pass != TP_FORWARD && cell->forward < 0)
        return op_error(error, op, "has no forward before it on device", device);
    if (op->pass == TP_BACKWARD_WEIGHT && cell->backward < 0)
        return op_error(error, op, "has no input backward before it on device", device);
    if (ordered && op->pairing == TP_PAIR_BACKWARD && cell->forward == number - 1)
        return op_error(error, op, "is overlapped with its own forward on device", device);
    cell->device = device;
    *mine = number;
    return TP_OK;
}

// A micro-batch on a stage is complete: a forward, and one backward that is whole or has its W.
static tp_status check_cell(const tp_timeline *timeline, const tp_order *order, int32_t stage,
                            int32_t microbatch, tp_error *error) {
    const tp_cell *cell = tp_cell_at(timeline, order, stage, microbatch);
    tp_order_op op = {.stage = stage, .microbatch = microbatch, .pass = TP_FORWARD};
    if (cell->forward < 0)
        return tp_error_set(error, TP_INVALID,
                            "there is no forward of micro-batch %d at stage %d on any device",
                            microbatch + 1, stage + 1);
    if (cell->backward < 0)
        return op_error(error, &op, "has no backward after it on device", cell->device);
    op = *tp_op_at(timeline, order, cell->device, cell->backward);
    if (op.pass == TP_BACKWARD_INPUT && cell->weight < 0)
        return op_error(error, &op, "has no weight backward after it on device", cell->device);
    if (op.pass == TP_BACKWARD && cell->weight >= 0) {
        op.pass = TP_BACKWARD_WEIGHT;
        return op_error(error, &op, "follows a whole backward, which includes it, on device",
                        cell->device);
    }
    return TP_OK;
}

tp_status tp_cells_fill(tp_timeline *timeline, const tp_order *order,
                        const tp_schedule_rules *rules, tp_error *error) {
    int64_t cells = (int64_t)order->stages * order->microbatches;
    for (int64_t c = 0; c < cells; c++)
        timeline->cells[c] = (tp_cell){-1, -1, -1, -1};

    int32_t number = 0;
    for (int32_t d = 0; d < order->devices; d++) {
        timeline->first[d] = number;
        const tp_queue *queue = &order->queues[d];
        for (int32_t i = 0; i < queue->count; i++, number++) {
            const tp_order_op *op = &queue->ops[i];
            tp_cell *cell =
                &timeline->cells[(int64_t)op->stage * order->microbatches + op->microbatch];
            TP_TRY(enter(cell, op, d, number, rules, error));
        }
    }
    timeline->first[order->devices] = number;

    for (int32_t s = 0; s < order->stages; s++)
        for (int32_t m = 0; m < order->microbatches; m++)
            TP_TRY(check_cell(timeline, order, s, m, error));
    return TP_OK;
}
