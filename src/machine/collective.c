// collective.c: see tperf/collective.h, which states every formula.
#include "tperf/collective.h"

#include <math.h>
#include <stddef.h>

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

// The network as the formulas see it.
typedef struct links {
    double fast;          // B_f, bytes/s
    double nic;           // B_s, bytes/s
    double nics;          // nu
    double fast_s, nic_s; // latencies
} links;

// The port bandwidth, in bytes/s, from one GPU to the other q - 1 of its group in the domain. In a mesh only the links
// to them count, out of domain - 1.
static double port_of(const tperf_system *system, int64_t q) {
    double port = system->network.fast.bandwidth;
    int64_t others = system->network.fast.domain - 1;
    return system->network.fast.mesh && q > 1 && others > 0
               ? port * (double)(q - 1) / (double)others
               : port;
}

static links links_of(const tperf_system *system, tperf_group group) {
    return (links){
        .fast = port_of(system, group.fast) * system->network.fast.efficiency,
        .nic = system->network.slow.bandwidth * system->network.slow.efficiency,
        .nics = system->network.slow.nics_per_gpu,
        .fast_s = system->network.fast.latency_s,
        .nic_s = system->network.slow.latency_s,
    };
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static tperf_rate send_rate(const links *l, int64_t fast, double lone_nics) {
    if (fast > 1) return (tperf_rate){l->fast_s, 1 / l->fast};
    return (tperf_rate){l->nic_s, 1 / (l->nic * lone_nics)};
}

// One pass around a ring, with the fraction `part` of the bytes crossing every link.
static tperf_rate ring_rate(const links *l, double part, tperf_group group, double lone_nics) {
    double n = (double)group.size, q = (double)group.fast;
    if (group.fast == 1) return (tperf_rate){l->nic_s * (n - 1), part / (l->nic * lone_nics)};
    if (group.size == group.fast) return (tperf_rate){l->fast_s * (n - 1), part / l->fast};
    double g = n / q;
    return (tperf_rate){l->nic_s * (g - 1) + l->fast_s * (n - g),
                        larger(part / (l->nics * q * l->nic), part / l->fast)};
}

static tperf_rate rooted_rate(const links *l, tperf_group group) {
    double n = (double)group.size, q = (double)group.fast, g = n / q;
    double leaving = (n - q) / n, passing = (n - 1) / n;
    if (group.fast == 1) return (tperf_rate){l->nic_s * (n - 1), passing / (l->nic * l->nics)};
    return (tperf_rate){l->nic_s * (g - 1) + l->fast_s * (n - g),
                        larger(leaving / (l->nics * q * l->nic), passing / l->fast)};
}

static tperf_rate all_to_all_rate(const links *l, tperf_group group) {
    double n = (double)group.size, q = (double)group.fast;
    return (tperf_rate){l->nic_s * (n - q) + l->fast_s * (q - 1),
                        larger((n - q) / n / (l->nic * l->nics), (q - 1) / n / l->fast)};
}

// Whether all of V crosses every link, rather than all except one GPU's share.
static bool moves_whole(tperf_collective kind) {
    return kind == TPERF_BROADCAST || kind == TPERF_REDUCE;
}

// Bytes of V that cross the NICs of one domain under NCCL's algorithms: trees for the all-reduce, rings for the others.
static double leaving(tperf_collective kind, double bytes, double n, double g) {
    if (moves_whole(kind)) return bytes;
    if (kind == TPERF_ALL_REDUCE) return 2 * (g - 1) / g * bytes;
    if (kind == TPERF_ALL_TO_ALL) return (g - 1) / g * bytes * n / g;
    return (n - 1) / n * bytes;
}

// Bytes of V that cross the fast port of one of a domain's q GPUs: on a ring, everything from all other GPUs; in an
// all-to-all, only the neighbours' messages.
static double through_fast_port(tperf_collective kind, double bytes, double n, double q) {
    if (moves_whole(kind)) return bytes;
    if (kind == TPERF_ALL_TO_ALL) return (q - 1) / n * bytes;
    return (kind == TPERF_ALL_REDUCE ? 2 : 1) * (n - 1) / n * bytes;
}

static const tperf_link_curve *link_of(const tperf_system *system, tperf_collective kind) {
    const tperf_link_curve *curves = system->network.fast.curves;
    if (kind == TPERF_ALL_REDUCE) return &curves[TPERF_LINK_ALL_REDUCE];
    if (kind == TPERF_REDUCE_SCATTER || kind == TPERF_REDUCE)
        return &curves[TPERF_LINK_REDUCE_SCATTER];
    if (kind == TPERF_ALL_TO_ALL) return &curves[TPERF_LINK_ALL_TO_ALL];
    return &curves[TPERF_LINK_ALL_GATHER];
}

static bool is_measured(const tperf_system *system, tperf_collective kind, tperf_group group) {
    if (kind == TPERF_SEND) return false;
    bool link = link_of(system, kind)->large > 0;
    if (group.size == group.fast) return link;
    return system->network.slow.curve.efficiency > 0 && (link || group.fast == 1);
}

enum { MEASURED_DOMAIN = 8 };

// The time with fitted curves; see tperf/efficiency.h. A broadcast, scatter or gather costs as much as an all-gather
// that moves as many bytes through every port; a reduce as much as such a reduce-scatter.
static double measured_time(const tperf_system *system, tperf_collective kind, double bytes,
                            tperf_group group) {
    const tperf_link_curve *link = link_of(system, kind);
    bool all_reduce = kind == TPERF_ALL_REDUCE;
    double n = (double)group.size, q = (double)group.fast, g = n / q;
    double port = port_of(system, group.fast);
    if (group.size == group.fast) {
        if (moves_whole(kind)) bytes *= n / (n - 1);
        double time = tperf_link_time(link, all_reduce, port, n, bytes);
        const tperf_direct_curve *direct = &system->network.fast.direct;
        if (!all_reduce || !system->serves || direct->one_shot == 0) return time;
        return fmin(time, tperf_direct_time(direct, port, n, bytes));
    }
    const tperf_slow_curve *slow = &system->network.slow.curve;
    double nics = q * system->network.slow.nics_per_gpu * system->network.slow.bandwidth;
    double stream = leaving(kind, bytes, n, g) / (nics * slow->efficiency);
    if (group.fast > 1) {
        double through = through_fast_port(kind, bytes, n, q);
        stream = larger(stream, tperf_link_stream(link, all_reduce, port, q, through, bytes));
    }
    bool half = kind == TPERF_ALL_GATHER || kind == TPERF_REDUCE_SCATTER;
    double time = tperf_slow_time(slow, stream, g, half ? 0.5 : 1);
    if (moves_whole(kind)) time += system->network.slow.chain_s * n;
    // The start was measured with domains of up to 8; a larger one takes at least what its own part does.
    if (group.fast <= MEASURED_DOMAIN) return time;
    double inside = kind == TPERF_ALL_TO_ALL ? bytes / g : bytes;
    return larger(time, tperf_link_time(link, all_reduce, port, q, inside));
}

static tperf_rate rate_of(const links *l, const tperf_rules *rules, tperf_collective kind,
                          tperf_group group) {
    double lone_nics = rules->lone_gpus_use_all_nics ? l->nics : 1;
    double n = (double)group.size, shared = (n - 1) / n;
    switch (kind) {
    case TPERF_SEND:
        return send_rate(l, group.fast, lone_nics);
    case TPERF_BROADCAST:
    case TPERF_REDUCE:
        return ring_rate(l, 1, group, lone_nics);
    case TPERF_SCATTER:
    case TPERF_GATHER:
        return rooted_rate(l, group);
    case TPERF_ALL_TO_ALL:
        return all_to_all_rate(l, group);
    case TPERF_ALL_REDUCE:
        if (rules->all_reduce_is_two_passes) {
            tperf_rate once = ring_rate(l, shared, group, lone_nics);
            return (tperf_rate){2 * once.latency_s, 2 * once.per_byte_s};
        }
        // The published solver doubles the bytes only across domains, and never the latency (Q4).
        return ring_rate(l, group.fast > 1 && group.size > group.fast ? 2 * shared : shared, group,
                         lone_nics);
    case TPERF_ALL_GATHER:
    case TPERF_REDUCE_SCATTER:
    case TPERF_COLLECTIVE_COUNT:
        break;
    }
    return ring_rate(l, shared, group, lone_nics);
}

bool tperf_collective_rate(const tperf_system *system, const tperf_rules *rules,
                           tperf_collective kind, tperf_group group, tperf_rate *rate) {
    if (is_measured(system, kind, group)) return false;
    links l = links_of(system, group);
    *rate = rate_of(&l, rules, kind, group);
    return true;
}

double tperf_collective_time(const tperf_system *system, const tperf_rules *rules,
                             tperf_collective kind, double bytes, tperf_group group) {
    if (bytes == 0 || group.size <= 1) return 0;
    tperf_rate rate;
    if (!tperf_collective_rate(system, rules, kind, group, &rate))
        return measured_time(system, kind, bytes, group);
    return rate.latency_s + bytes * rate.per_byte_s;
}

// The number of ring passes that the formulas charge: see rate_of.
static double ring_passes(const tperf_rules *rules, tperf_collective kind, tperf_group group) {
    if (kind != TPERF_ALL_REDUCE) return 1;
    bool both_tiers = group.fast > 1 && group.size > group.fast;
    return rules->all_reduce_is_two_passes || both_tiers ? 2 : 1;
}

static tperf_route formula_route(const tperf_rules *rules, tperf_collective kind, double bytes,
                                 tperf_group group) {
    double n = (double)group.size, q = (double)group.fast;
    bool across = group.size > group.fast;
    if (kind == TPERF_ALL_TO_ALL)
        return (tperf_route){"pairwise", (q - 1) / n * bytes, (n - q) / n * bytes};
    if (kind == TPERF_SCATTER || kind == TPERF_GATHER) {
        double port = group.fast > 1 ? (n - 1) / n * bytes : 0;
        return (tperf_route){"ring", port, (n - q) / n * bytes / q};
    }
    double part = moves_whole(kind) ? 1 : (n - 1) / n;
    double through = ring_passes(rules, kind, group) * part * bytes;
    return (tperf_route){across && group.fast > 1 ? "rings" : "ring", group.fast > 1 ? through : 0,
                         across ? through / q : 0};
}

static tperf_route direct_route(const tperf_direct_curve *direct, double port, double bytes,
                                double n) {
    double one = (n - 1) * bytes, two = 2 * (n - 1) / n * bytes;
    bool at_once =
        one / (direct->one_shot * port) <= direct->extra_s + two / (direct->two_shot * port);
    return at_once ? (tperf_route){"one-shot", one, 0} : (tperf_route){"two-shot", two, 0};
}

static tperf_route measured_route(const tperf_system *system, tperf_collective kind, double bytes,
                                  tperf_group group) {
    const tperf_link_curve *link = link_of(system, kind);
    bool all_reduce = kind == TPERF_ALL_REDUCE;
    double n = (double)group.size, q = (double)group.fast, g = n / q;
    double port = port_of(system, group.fast), through = through_fast_port(kind, bytes, n, q);
    tperf_route route = {kind == TPERF_ALL_TO_ALL ? "pairwise" : "ring",
                         group.fast > 1 ? through : 0, 0};
    if (tperf_link_adds(link, all_reduce, port, q, through, bytes)) {
        route.algorithm = "switch";
        route.fast_bytes = (q + 1) / q * bytes;
    }
    if (group.size > group.fast) {
        route.nic_bytes = leaving(kind, bytes, n, g) / q;
        if (kind != TPERF_ALL_TO_ALL)
            route.algorithm = all_reduce ? "tree" : group.fast > 1 ? "rings" : "ring";
        return route;
    }
    const tperf_direct_curve *direct = &system->network.fast.direct;
    if (!all_reduce || !system->serves || direct->one_shot == 0) return route;
    bool faster = tperf_direct_time(direct, port, n, bytes) <
                  tperf_link_time(link, all_reduce, port, n, bytes);
    return faster ? direct_route(direct, port, bytes, n) : route;
}

tperf_route tperf_collective_route(const tperf_system *system, const tperf_rules *rules,
                                   tperf_collective kind, double bytes, tperf_group group) {
    if (bytes == 0 || group.size <= 1) return (tperf_route){"none", 0, 0};
    if (kind == TPERF_SEND)
        return group.fast > 1 ? (tperf_route){"send", bytes, 0} : (tperf_route){"send", 0, bytes};
    return is_measured(system, kind, group) ? measured_route(system, kind, bytes, group)
                                            : formula_route(rules, kind, bytes, group);
}
