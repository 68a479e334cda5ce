// lanes.h: candidates timed at once, one in each lane of a vector; the same digits on every machine, since each lane
// rounds alone. Private to src/plan and src/search.
#ifndef TPERF_PLAN_LANES_H
#define TPERF_PLAN_LANES_H

#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/inlined.h"

// Every processor of today has vectors of two doubles. Without GNU C, one candidate at a time.
#ifdef __GNUC__
enum { TPERF_LANES = 2 };
typedef double tperf_lanes __attribute__((vector_size(TPERF_LANES * sizeof(double))));
typedef int64_t tperf_lane_choice __attribute__((vector_size(TPERF_LANES * sizeof(int64_t))));
#define TPERF_LANE(lanes, i) ((lanes)[i])

TPERF_INLINED tperf_lanes tperf_lanes_from(double first, double second) {
    return (tperf_lanes){first, second};
}

// In each lane, a where chosen, else b.
TPERF_INLINED tperf_lanes tperf_lanes_choose(tperf_lane_choice chosen, tperf_lanes a,
                                             tperf_lanes b) {
    return (tperf_lanes)((chosen & (tperf_lane_choice)a) | (~chosen & (tperf_lane_choice)b));
}
#else
enum { TPERF_LANES = 1 };
typedef double tperf_lanes;
typedef int tperf_lane_choice;
#define TPERF_LANE(lanes, i) (lanes)

static inline tperf_lanes tperf_lanes_from(double first, double second) {
    (void)second;
    return first;
}

static inline tperf_lanes tperf_lanes_choose(tperf_lane_choice chosen, tperf_lanes a,
                                             tperf_lanes b) {
    return chosen ? a : b;
}
#endif

TPERF_INLINED tperf_lanes tperf_lanes_of(double all) {
    return tperf_lanes_from(all, all);
}

// SSE2 has instructions that choose so, whatever the operands.
#if defined(__GNUC__) && defined(__SSE2__)
TPERF_INLINED tperf_lanes tperf_lanes_larger(tperf_lanes a, tperf_lanes b) {
    return _mm_max_pd(a, b);
}

TPERF_INLINED tperf_lanes tperf_lanes_smaller(tperf_lanes a, tperf_lanes b) {
    return _mm_min_pd(a, b);
}
#else
TPERF_INLINED tperf_lanes tperf_lanes_larger(tperf_lanes a, tperf_lanes b) {
    return tperf_lanes_choose(a > b, a, b);
}

TPERF_INLINED tperf_lanes tperf_lanes_smaller(tperf_lanes a, tperf_lanes b) {
    return tperf_lanes_choose(a < b, a, b);
}
#endif

#endif
