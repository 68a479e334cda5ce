// cells.h: from an order to its timeline, step by step. Private to src/schedule.
#ifndef TPERF_SCHEDULE_CELLS_H
#define TPERF_SCHEDULE_CELLS_H

#include "tperf/schedule.h"

// Fills timeline->first and timeline->cells (allocated by the caller) and checks every invariant of the order.
tperf_status tperf_cells_fill(tperf_timeline *timeline, const tperf_order *order,
                              const tperf_schedule_rules *rules, tperf_error *error);

// Fills timeline->start and stop from complete cells.
tperf_status tperf_simulate(tperf_timeline *timeline, const tperf_order *order,
                            const tperf_schedule_costs *costs, const tperf_schedule_rules *rules,
                            tperf_error *error);

static inline const tperf_cell *tperf_cell_at(const tperf_timeline *timeline,
                                              const tperf_order *order, int32_t stage,
                                              int32_t microbatch) {
    return &timeline->cells[(int64_t)stage * order->microbatches + microbatch];
}

// The op with this number, which must be on that device.
static inline const tperf_order_op *
tperf_op_at(const tperf_timeline *timeline, const tperf_order *order, int32_t device, int32_t op) {
    return &order->queues[device].ops[op - timeline->first[device]];
}

#endif
