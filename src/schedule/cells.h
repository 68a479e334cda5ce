// cells.h: what the steps from an order to its timeline share, inside src/schedule.
#ifndef TPERF_SCHEDULE_CELLS_H
#define TPERF_SCHEDULE_CELLS_H

#include "tperf/schedule.h"

// Fills timeline->first and timeline->cells (allocated by the caller) and checks every invariant of
// the order.
tp_status tp_cells_fill(tp_timeline *timeline, const tp_order *order,
                        const tp_schedule_rules *rules, tp_error *error);

// Fills timeline->start and stop from complete cells.
tp_status tp_simulate(tp_timeline *timeline, const tp_order *order, const tp_schedule_costs *costs,
                      const tp_schedule_rules *rules, tp_error *error);

static inline const tp_cell *tp_cell_at(const tp_timeline *timeline, const tp_order *order,
                                        int32_t stage, int32_t microbatch) {
    return &timeline->cells[(int64_t)stage * order->microbatches + microbatch];
}

// The op of that number, known to be on that device.
static inline const tp_order_op *tp_op_at(const tp_timeline *timeline, const tp_order *order,
                                          int32_t device, int32_t op) {
    return &order->queues[device].ops[op - timeline->first[device]];
}

#endif
