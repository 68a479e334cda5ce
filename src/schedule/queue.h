// queue.h: appends checked passes to an order's queues. Private to src/schedule.
#ifndef TPERF_SCHEDULE_QUEUE_H
#define TPERF_SCHEDULE_QUEUE_H

#include "tperf/schedule.h"

// Makes room for `each` more passes in every queue.
tperf_status tperf_order_reserve(tperf_order *order, int64_t each, tperf_error *error);

static inline void tperf_order_append(tperf_order *order, tperf_queue *queue, tperf_pass_kind pass,
                                      tperf_pairing pairing, int64_t stage, int64_t microbatch) {
    int32_t need = 0;
    if (order->waiting && pairing != TPERF_PAIR_BACKWARD) {
        need = order->waiting[queue - order->queues];
        order->waiting[queue - order->queues] = 0;
    }
    queue->ops[queue->count++] = (tperf_order_op){
        .stage = (int32_t)stage,
        .microbatch = (int32_t)microbatch,
        .need = need,
        .pass = (uint8_t)pass,
        .pairing = (uint8_t)pairing,
    };
    order->count++;
}

// Whether memory is within a limit, apart from rounding: what a limit is computed from adds up to other last digits in
// another order. spec/schedule_spec.lua; lua/tperf/timeline/simulation.lua has the same.
static inline bool tperf_within(double memory, double limit) {
    return memory <= limit * (1 + 1e-9);
}

#endif
