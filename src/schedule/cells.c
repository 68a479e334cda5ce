// cells.c: finds the ops of every micro-batch on every stage and checks them.
#include "schedule/cells.h"

// "forward of micro-batch 3 at stage 2 …" with 1-based numbers.
static tperf_status op_error(tperf_error *error, const tperf_order_op *op, const char *what,
                             int32_t device) {
    return tperf_error_set(error, TPERF_INVALID, "%s of micro-batch %d at stage %d %s %d",
                           tperf_pass_name((tperf_pass_kind)op->pass), op->microbatch + 1,
                           op->stage + 1, what, device + 1);
}

static int32_t *slot(tperf_cell *cell, uint8_t pass) {
    switch (pass) {
    case TPERF_FORWARD:
        return &cell->forward;
    case TPERF_BACKWARD_WEIGHT:
        return &cell->weight;
    default:
        return &cell->backward;
    }
}

// Enters one op, in queue order: its prerequisites on the same device must precede it.
static tperf_status enter(tperf_cell *cell, const tperf_order_op *op, int32_t device,
                          int32_t number, const tperf_schedule_rules *rules, tperf_error *error) {
    int32_t *mine = slot(cell, op->pass);
    if (*mine >= 0) return op_error(error, op, "is there a second time, on device", device);
    if (cell->device >= 0 && cell->device != device)
        return tperf_error_set(
            error, TPERF_INVALID,
            "%s of micro-batch %d at stage %d is on device %d, but other passes of "
            "it are on device %d, where its activations are",
            tperf_pass_name((tperf_pass_kind)op->pass), op->microbatch + 1, op->stage + 1,
            device + 1, cell->device + 1);
    bool ordered = !rules->backward_before_forward;
    if (ordered && op->pass != TPERF_FORWARD && cell->forward < 0)
        return op_error(error, op, "has no forward before it on device", device);
    if (op->pass == TPERF_BACKWARD_WEIGHT && cell->backward < 0)
        return op_error(error, op, "has no input backward before it on device", device);
    if (ordered && op->pairing == TPERF_PAIR_BACKWARD && cell->forward == number - 1)
        return op_error(error, op, "is overlapped with its own forward on device", device);
    cell->device = device;
    *mine = number;
    return TPERF_OK;
}

// Checks that a micro-batch is complete on a stage: a forward, and a backward that is whole or has its weight gradient.
static tperf_status check_cell(const tperf_timeline *timeline, const tperf_order *order,
                               int32_t stage, int32_t microbatch, tperf_error *error) {
    const tperf_cell *cell = tperf_cell_at(timeline, order, stage, microbatch);
    tperf_order_op op = {.stage = stage, .microbatch = microbatch, .pass = TPERF_FORWARD};
    if (cell->forward < 0)
        return tperf_error_set(error, TPERF_INVALID,
                               "there is no forward of micro-batch %d at stage %d on any device",
                               microbatch + 1, stage + 1);
    if (cell->backward < 0)
        return op_error(error, &op, "has no backward after it on device", cell->device);
    op = *tperf_op_at(timeline, order, cell->device, cell->backward);
    if (op.pass == TPERF_BACKWARD_INPUT && cell->weight < 0)
        return op_error(error, &op, "has no weight backward after it on device", cell->device);
    if (op.pass == TPERF_BACKWARD && cell->weight >= 0) {
        op.pass = TPERF_BACKWARD_WEIGHT;
        return op_error(error, &op, "follows a whole backward, which includes it, on device",
                        cell->device);
    }
    return TPERF_OK;
}

tperf_status tperf_cells_fill(tperf_timeline *timeline, const tperf_order *order,
                              const tperf_schedule_rules *rules, tperf_error *error) {
    int64_t cells = (int64_t)order->stages * order->microbatches;
    for (int64_t c = 0; c < cells; c++)
        timeline->cells[c] = (tperf_cell){-1, -1, -1, -1};

    int32_t number = 0;
    for (int32_t d = 0; d < order->devices; d++) {
        timeline->first[d] = number;
        const tperf_queue *queue = &order->queues[d];
        for (int32_t i = 0; i < queue->count; i++, number++) {
            const tperf_order_op *op = &queue->ops[i];
            tperf_cell *cell =
                &timeline->cells[(int64_t)op->stage * order->microbatches + op->microbatch];
            TPERF_TRY(enter(cell, op, d, number, rules, error));
        }
    }
    timeline->first[order->devices] = number;

    for (int32_t s = 0; s < order->stages; s++)
        for (int32_t m = 0; m < order->microbatches; m++)
            TPERF_TRY(check_cell(timeline, order, s, m, error));
    return TPERF_OK;
}
