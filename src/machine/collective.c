// collective.c: see tperf/collective.h, which states every formula. What costs what is in algorithms.c.
#include "tperf/collective.h"

#include <stddef.h>
#include <string.h>

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

// A line in the bytes; a collective that several GPUs of a domain take part in starts once.
static tperf_rate rate_of(const tperf_algorithm *a, const tperf_exchange *e) {
    tperf_rate rate = a->rate(e);
    bool starts = e->kind != TPERF_SEND && e->reach != TPERF_LONE;
    if (starts) rate.latency_s += e->system->network.fast.start_s;
    return rate;
}

bool tperf_collective_rate(const tperf_system *system, const tperf_rules *rules,
                           tperf_collective kind, tperf_group group, tperf_rate *rate) {
    tperf_exchange e = tperf_exchange_of(system, rules, kind, 1, group);
    if (e.is & TPERF_CURVE) return false;
    const tperf_algorithm *only = tperf_algorithm_next(tperf_algorithms, &e);
    if (!only || !only->rate || tperf_algorithm_next(only + 1, &e)) return false;
    *rate = rate_of(only, &e);
    return true;
}

static double seconds_of(const tperf_algorithm *a, const tperf_exchange *e) {
    if (a->seconds) return a->seconds(e);
    tperf_rate rate = rate_of(a, e);
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
    if (bytes == 0 || group.size <= 1) return (tperf_route){.algorithm = "none"};
    tperf_exchange e = tperf_exchange_of(system, rules, kind, bytes, group);
    double seconds;
    const tperf_algorithm *a = fastest(&e, &seconds);
    tperf_route route = a->route(&e);
    route.algorithm = a->name;
    tperf_route_climb(system, tperf_pattern_of(kind, e.is & TPERF_CURVE), group, &route);
    return route;
}

// The row of a table that applies and has a name; NULL if none does.
static const tperf_algorithm *named(const tperf_algorithm *table, const char *name,
                                    const tperf_exchange *e) {
    const tperf_algorithm *a = tperf_algorithm_next(table, e);
    while (a && strcmp(a->name, name) != 0)
        a = tperf_algorithm_next(a + 1, e);
    return a;
}

bool tperf_collective_by(const tperf_asked_collective *asked, const char *name, double *seconds,
                         tperf_route *route) {
    tperf_exchange e =
        tperf_exchange_of(asked->system, asked->rules, asked->kind, asked->bytes, asked->group);
    if (strcmp(name, "switch") != 0 && strcmp(name, "tree") != 0) tperf_exchange_rings(&e);
    const tperf_algorithm *a = named(tperf_algorithms, name, &e);
    bool along_trees = a && (e.is & TPERF_CURVE);
    if (!a) a = named(tperf_other_algorithms, name, &e);
    if (!a) return false;
    *seconds = 0;
    *route = (tperf_route){.algorithm = "none"};
    if (asked->bytes == 0 || asked->group.size <= 1) return true;
    *seconds = seconds_of(a, &e);
    *route = a->route(&e);
    route->algorithm = a->name;
    tperf_route_climb(asked->system, tperf_pattern_of(asked->kind, along_trees), asked->group,
                      route);
    return true;
}

static int add_use(tperf_tier_use *use, int64_t tier, const char *name, double bytes) {
    *use = (tperf_tier_use){tier, name, bytes, 0};
    return bytes > 0;
}

static const char *name_or(const char *name, const char *otherwise) {
    return name[0] ? name : otherwise;
}

int tperf_tiers_passed(const tperf_system *system, double fast_bytes, double nic_bytes,
                       const double *up_bytes, tperf_tier_use uses[TPERF_TIERS_MAX]) {
    const tperf_tier *tiers = system->network.tiers;
    int64_t n_tiers = system->network.n_tiers, i = 0;
    int n =
        add_use(&uses[0], TPERF_FAST_PORT, name_or(system->network.fast.name, "fast"), fast_bytes);
    for (; i < n_tiers && !tiers[i].outside; i++)
        n += add_use(&uses[n], i, tiers[i].name, up_bytes[i]);
    n += add_use(&uses[n], TPERF_NIC_PORT, name_or(system->network.slow.name, "slow"), nic_bytes);
    for (; i < n_tiers; i++)
        n += add_use(&uses[n], i, tiers[i].name, up_bytes[i]);
    return n;
}

// Seconds of one GPU's bytes through its fast port.
static double port_seconds(const tperf_system *system, double bytes, const char *algorithm,
                           tperf_collective kind, double gpus) {
    const tperf_link_curve *link = tperf_link_curve_of(system, kind);
    double bandwidth = system->network.fast.bandwidth;
    if (!(link->large > 0)) return bytes / (bandwidth * system->network.fast.efficiency);
    if (strcmp(algorithm, "switch") == 0) return bytes / (bandwidth * link->in_network);
    return tperf_link_stream(link, false, bandwidth, gpus, bytes, 0, NULL);
}

int tperf_route_tiers(const tperf_system *system, tperf_route route, tperf_collective kind,
                      tperf_group group, tperf_tier_use uses[TPERF_TIERS_MAX]) {
    double nics = system->network.slow.nics_per_gpu * system->network.slow.bandwidth;
    double near = port_seconds(system, route.fast_bytes, route.algorithm, kind, (double)group.fast);
    double far = route.nic_bytes / (nics * system->network.slow.efficiency);
    int n = tperf_tiers_passed(system, route.fast_bytes, route.nic_bytes, route.up_bytes, uses);
    for (int i = 0; i < n; i++) {
        if (uses[i].tier < 0) {
            uses[i].seconds = uses[i].tier == TPERF_FAST_PORT ? near : far;
            continue;
        }
        const tperf_tier *tier = &system->network.tiers[uses[i].tier];
        double port = tier->outside ? route.nic_bytes : route.fast_bytes;
        double slowness =
            tperf_uplink_of(system, group, tier, tperf_pattern_of(kind, false)).slowness;
        uses[i].seconds = uses[i].bytes / port * slowness * (tier->outside ? far : near);
    }
    return n;
}
