// ticks.h: arithmetic on ticks, which are 64 bits: moments that the clock does not reach, and sums over many GPUs.
#ifndef TPERF_SERVE_TICKS_H
#define TPERF_SERVE_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "tperf/serve.h"

// Whether the clock ends before `ticks` (at least 0) have passed since `moment`.
static inline bool tperf_ticks_end(int64_t moment, int64_t ticks) {
    return moment > 0 && ticks > INT64_MAX - moment;
}

// Two durations, or the longest one if they are longer together.
static inline int64_t tperf_ticks_both(int64_t a, int64_t b) {
    return tperf_ticks_end(a, b) ? INT64_MAX : a + b;
}

static inline void tperf_tick_sum_join(tperf_tick_sum *sum, tperf_tick_sum more) {
    sum->low += more.low;
    sum->high += more.high + (sum->low < more.low);
}

static inline void tperf_tick_sum_add(tperf_tick_sum *sum, int64_t ticks) {
    tperf_tick_sum_join(sum, (tperf_tick_sum){(uint64_t)ticks, 0});
}

#endif
