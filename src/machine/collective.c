// collective.c: see tperf/collective.h, which states every formula. What costs what is in algorithms.c.
#include "tperf/collective.h"

#include <stddef.h>

#include "machine/algorithms.h"

const char *const tperf_collective_names[TPERF_COLLECTIVE_COUNT + 1] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
    "scatter",    "gather",     "all_to_all",     "send",      NULL,
};

tperf_status tperf_group_validate(tperf_group group, const tperf_system *system,
                                  tperf_error *error) {
    long long size = group.size, fast = group.fast, domain = system->network.fast.domain;
    if (size < 1) return tperf_error_set(error, TPERF_INVALID, "a group of %lld GPUs", size);
    if (fast < 1 || fast > size)
        return tperf_error_set(error, TPERF_INVALID,
                               "fast = %lld: of a group of %lld GPUs, 1 to %lld can share a domain",
                               fast, size, size);
    if (fast > domain)
        return tperf_error_set(error, TPERF_INVALID,
                               "fast = %lld is more than the %lld GPUs of a fast domain", fast,
                               domain);
    if (size % fast != 0)
        return tperf_error_set(error, TPERF_INVALID,
                               "fast = %lld does not divide the group of %lld GPUs", fast, size);
    return TPERF_OK;
}

bool tperf_collective_rate(const tperf_system *system, const tperf_rules *rules,
                           tperf_collective kind, tperf_group group, tperf_rate *rate) {
    tperf_exchange e = tperf_exchange_of(system, rules, kind, 1, group);
    if (e.is & TPERF_CURVE) return false;
    const tperf_algorithm *only = tperf_algorithm_next(tperf_algorithms, &e);
    if (!only || !only->rate || tperf_algorithm_next(only + 1, &e)) return false;
    *rate = only->rate(&e);
    return true;
}

static double seconds_of(const tperf_algorithm *a, const tperf_exchange *e) {
    if (a->seconds) return a->seconds(e);
    tperf_rate rate = a->rate(e);
    return rate.latency_s + e->bytes * rate.per_byte_s;
}

// The fastest of the algorithms that apply, and its seconds.
static const tperf_algorithm *fastest(const tperf_exchange *e, double *seconds) {
    const tperf_algorithm *best = tperf_algorithm_next(tperf_algorithms, e);
    *seconds = seconds_of(best, e);
    for (const tperf_algorithm *a = tperf_algorithm_next(best + 1, e); a;
         a = tperf_algorithm_next(a + 1, e)) {
        double other = seconds_of(a, e);
        if (!(other < *seconds)) continue;
        *seconds = other;
        best = a;
    }
    return best;
}

double tperf_collective_time(const tperf_system *system, const tperf_rules *rules,
                             tperf_collective kind, double bytes, tperf_group group) {
    if (bytes == 0 || group.size <= 1) return 0;
    tperf_exchange e = tperf_exchange_of(system, rules, kind, bytes, group);
    double seconds;
    fastest(&e, &seconds);
    return seconds;
}

tperf_route tperf_collective_route(const tperf_system *system, const tperf_rules *rules,
                                   tperf_collective kind, double bytes, tperf_group group) {
    if (bytes == 0 || group.size <= 1) return (tperf_route){"none", 0, 0};
    tperf_exchange e = tperf_exchange_of(system, rules, kind, bytes, group);
    double seconds;
    const tperf_algorithm *a = fastest(&e, &seconds);
    tperf_route route = a->route(&e);
    route.algorithm = a->name;
    return route;
}
