// collective.c: see tperf/collective.h, which states every formula.
#include "tperf/collective.h"

#include <math.h>
#include <stddef.h>

const char *const tp_collective_names[TP_COLLECTIVE_COUNT + 1] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
    "scatter",    "gather",     "all_to_all",     "send",      NULL,
};

tp_status tp_group_validate(tp_group group, const tp_system *system, tp_error *error) {
    long long size = group.size, fast = group.fast, domain = system->network.fast.domain;
    if (size < 1) return tp_error_set(error, TP_INVALID, "a group of %lld GPUs", size);
    if (fast < 1 || fast > size)
        return tp_error_set(error, TP_INVALID,
                            "fast = %lld: of a group of %lld GPUs, 1 to %lld can share a domain",
                            fast, size, size);
    if (fast > domain)
        return tp_error_set(error, TP_INVALID,
                            "fast = %lld is more than the %lld GPUs of a fast domain", fast,
                            domain);
    if (size % fast != 0)
        return tp_error_set(error, TP_INVALID, "fast = %lld does not divide the group of %lld GPUs",
                            fast, size);
    return TP_OK;
}

// The network as the formulas see it.
typedef struct links {
    double fast;          // B_f, bytes/s
    double nic;           // B_s, bytes/s
    double nics;          // nu
    double fast_s, nic_s; // latencies
} links;

// What one GPU sends at most, bytes/s, to the other q - 1 GPUs of its group in the domain: in a mesh
// through the links to them, of which there are domain - 1.
static double port_of(const tp_system *system, int64_t q) {
    double port = system->network.fast.bandwidth;
    int64_t others = system->network.fast.domain - 1;
    return system->network.fast.mesh && q > 1 && others > 0
               ? port * (double)(q - 1) / (double)others
               : port;
}

static links links_of(const tp_system *system, tp_group group) {
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

static tp_rate send_rate(const links *l, int64_t fast, double lone_nics) {
    if (fast > 1) return (tp_rate){l->fast_s, 1 / l->fast};
    return (tp_rate){l->nic_s, 1 / (l->nic * lone_nics)};
}

// The pass of a ring in which `part` of the bytes cross every link.
static tp_rate ring_rate(const links *l, double part, tp_group group, double lone_nics) {
    double n = (double)group.size, q = (double)group.fast;
    if (group.fast == 1) return (tp_rate){l->nic_s * (n - 1), part / (l->nic * lone_nics)};
    if (group.size == group.fast) return (tp_rate){l->fast_s * (n - 1), part / l->fast};
    double g = n / q;
    return (tp_rate){l->nic_s * (g - 1) + l->fast_s * (n - g),
                     larger(part / (l->nics * q * l->nic), part / l->fast)};
}

static tp_rate rooted_rate(const links *l, tp_group group) {
    double n = (double)group.size, q = (double)group.fast, g = n / q;
    double leaving = (n - q) / n, passing = (n - 1) / n;
    if (group.fast == 1) return (tp_rate){l->nic_s * (n - 1), passing / (l->nic * l->nics)};
    return (tp_rate){l->nic_s * (g - 1) + l->fast_s * (n - g),
                     larger(leaving / (l->nics * q * l->nic), passing / l->fast)};
}

static tp_rate all_to_all_rate(const links *l, tp_group group) {
    double n = (double)group.size, q = (double)group.fast;
    return (tp_rate){l->nic_s * (n - q) + l->fast_s * (q - 1),
                     larger((n - q) / n / (l->nic * l->nics), (q - 1) / n / l->fast)};
}

// All of V passes every link, not all but one GPU's share of it.
static bool moves_whole(tp_collective kind) {
    return kind == TP_BROADCAST || kind == TP_REDUCE;
}

// Bytes of V that pass the NICs of one domain, by the algorithms that NCCL has: rings for all but
// the all-reduce, which has trees.
static double leaving(tp_collective kind, double bytes, double n, double g) {
    if (moves_whole(kind)) return bytes;
    if (kind == TP_ALL_REDUCE) return 2 * (g - 1) / g * bytes;
    if (kind == TP_ALL_TO_ALL) return (g - 1) / g * bytes * n / g;
    return (n - 1) / n * bytes;
}

// Bytes of V that pass the fast port of one of the q GPUs of a domain: on a ring all that the others have, whether from
// this domain or another; in an all-to-all only what its neighbours there are sent.
static double through_fast_port(tp_collective kind, double bytes, double n, double q) {
    if (moves_whole(kind)) return bytes;
    if (kind == TP_ALL_TO_ALL) return (q - 1) / n * bytes;
    return (kind == TP_ALL_REDUCE ? 2 : 1) * (n - 1) / n * bytes;
}

static const tp_link_curve *link_of(const tp_system *system, tp_collective kind) {
    const tp_link_curve *curves = system->network.fast.curves;
    if (kind == TP_ALL_REDUCE) return &curves[TP_LINK_ALL_REDUCE];
    if (kind == TP_REDUCE_SCATTER || kind == TP_REDUCE) return &curves[TP_LINK_REDUCE_SCATTER];
    if (kind == TP_ALL_TO_ALL) return &curves[TP_LINK_ALL_TO_ALL];
    return &curves[TP_LINK_ALL_GATHER];
}

static bool is_measured(const tp_system *system, tp_collective kind, tp_group group) {
    if (kind == TP_SEND) return false;
    bool link = link_of(system, kind)->large > 0;
    if (group.size == group.fast) return link;
    return system->network.slow.curve.efficiency > 0 && (link || group.fast == 1);
}

// With fitted curves; see tperf/efficiency.h. A broadcast, scatter or gather takes as long as the
// all-gather that passes as many bytes through every port, a reduce as long as such a reduce-scatter.
static double measured_time(const tp_system *system, tp_collective kind, double bytes,
                            tp_group group) {
    const tp_link_curve *link = link_of(system, kind);
    bool all_reduce = kind == TP_ALL_REDUCE;
    double n = (double)group.size, q = (double)group.fast, g = n / q;
    double port = port_of(system, group.fast);
    if (group.size == group.fast) {
        if (moves_whole(kind)) bytes *= n / (n - 1);
        double time = tp_link_time(link, all_reduce, port, n, bytes);
        const tp_direct_curve *direct = &system->network.fast.direct;
        if (!all_reduce || !system->serves || direct->one_shot == 0) return time;
        return fmin(time, tp_direct_time(direct, port, n, bytes));
    }
    const tp_slow_curve *slow = &system->network.slow.curve;
    double nics = q * system->network.slow.nics_per_gpu * system->network.slow.bandwidth;
    double stream = leaving(kind, bytes, n, g) / (nics * slow->efficiency);
    if (group.fast > 1) {
        double through = through_fast_port(kind, bytes, n, q);
        stream = larger(stream, tp_link_stream(link, all_reduce, port, q, through, bytes));
    }
    return tp_slow_time(slow, stream, g);
}

static tp_rate rate_of(const links *l, const tp_rules *rules, tp_collective kind, tp_group group) {
    double lone_nics = rules->lone_gpus_use_all_nics ? l->nics : 1;
    double n = (double)group.size, shared = (n - 1) / n;
    switch (kind) {
    case TP_SEND:
        return send_rate(l, group.fast, lone_nics);
    case TP_BROADCAST:
    case TP_REDUCE:
        return ring_rate(l, 1, group, lone_nics);
    case TP_SCATTER:
    case TP_GATHER:
        return rooted_rate(l, group);
    case TP_ALL_TO_ALL:
        return all_to_all_rate(l, group);
    case TP_ALL_REDUCE:
        if (rules->all_reduce_is_two_passes) {
            tp_rate once = ring_rate(l, shared, group, lone_nics);
            return (tp_rate){2 * once.latency_s, 2 * once.per_byte_s};
        }
        // The published solver doubles the bytes only when they cross domains, and no latency (Q4).
        return ring_rate(l, group.fast > 1 && group.size > group.fast ? 2 * shared : shared, group,
                         lone_nics);
    case TP_ALL_GATHER:
    case TP_REDUCE_SCATTER:
    case TP_COLLECTIVE_COUNT:
        break;
    }
    return ring_rate(l, shared, group, lone_nics);
}

bool tp_collective_rate(const tp_system *system, const tp_rules *rules, tp_collective kind,
                        tp_group group, tp_rate *rate) {
    if (is_measured(system, kind, group)) return false;
    links l = links_of(system, group);
    *rate = rate_of(&l, rules, kind, group);
    return true;
}

double tp_collective_time(const tp_system *system, const tp_rules *rules, tp_collective kind,
                          double bytes, tp_group group) {
    if (bytes == 0 || group.size <= 1) return 0;
    tp_rate rate;
    if (!tp_collective_rate(system, rules, kind, group, &rate))
        return measured_time(system, kind, bytes, group);
    return rate.latency_s + bytes * rate.per_byte_s;
}

// The passes of the bytes over a ring that the formulas charge: see rate_of.
static double ring_passes(const tp_rules *rules, tp_collective kind, tp_group group) {
    if (kind != TP_ALL_REDUCE) return 1;
    bool both_tiers = group.fast > 1 && group.size > group.fast;
    return rules->all_reduce_is_two_passes || both_tiers ? 2 : 1;
}

static tp_route formula_route(const tp_rules *rules, tp_collective kind, double bytes,
                              tp_group group) {
    double n = (double)group.size, q = (double)group.fast;
    bool across = group.size > group.fast;
    if (kind == TP_ALL_TO_ALL)
        return (tp_route){"pairwise", (q - 1) / n * bytes, (n - q) / n * bytes};
    if (kind == TP_SCATTER || kind == TP_GATHER) {
        double port = group.fast > 1 ? (n - 1) / n * bytes : 0;
        return (tp_route){"ring", port, (n - q) / n * bytes / q};
    }
    double part = moves_whole(kind) ? 1 : (n - 1) / n;
    double through = ring_passes(rules, kind, group) * part * bytes;
    return (tp_route){across && group.fast > 1 ? "rings" : "ring", group.fast > 1 ? through : 0,
                      across ? through / q : 0};
}

static tp_route direct_route(const tp_direct_curve *direct, double port, double bytes, double n) {
    double one = (n - 1) * bytes, two = 2 * (n - 1) / n * bytes;
    bool at_once =
        one / (direct->one_shot * port) <= direct->extra_s + two / (direct->two_shot * port);
    return at_once ? (tp_route){"one-shot", one, 0} : (tp_route){"two-shot", two, 0};
}

static tp_route measured_route(const tp_system *system, tp_collective kind, double bytes,
                               tp_group group) {
    const tp_link_curve *link = link_of(system, kind);
    bool all_reduce = kind == TP_ALL_REDUCE;
    double n = (double)group.size, q = (double)group.fast, g = n / q;
    double port = port_of(system, group.fast), through = through_fast_port(kind, bytes, n, q);
    tp_route route = {kind == TP_ALL_TO_ALL ? "pairwise" : "ring", group.fast > 1 ? through : 0, 0};
    if (tp_link_adds(link, all_reduce, port, q, through, bytes)) {
        route.algorithm = "switch";
        route.fast_bytes = (q + 1) / q * bytes;
    }
    if (group.size > group.fast) {
        route.nic_bytes = leaving(kind, bytes, n, g) / q;
        if (kind != TP_ALL_TO_ALL)
            route.algorithm = all_reduce ? "tree" : group.fast > 1 ? "rings" : "ring";
        return route;
    }
    const tp_direct_curve *direct = &system->network.fast.direct;
    if (!all_reduce || !system->serves || direct->one_shot == 0) return route;
    bool faster =
        tp_direct_time(direct, port, n, bytes) < tp_link_time(link, all_reduce, port, n, bytes);
    return faster ? direct_route(direct, port, bytes, n) : route;
}

tp_route tp_collective_route(const tp_system *system, const tp_rules *rules, tp_collective kind,
                             double bytes, tp_group group) {
    if (bytes == 0 || group.size <= 1) return (tp_route){"none", 0, 0};
    if (kind == TP_SEND)
        return group.fast > 1 ? (tp_route){"send", bytes, 0} : (tp_route){"send", 0, bytes};
    return is_measured(system, kind, group) ? measured_route(system, kind, bytes, group)
                                            : formula_route(rules, kind, bytes, group);
}
