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

static links links_of(const tp_system *system) {
    return (links){
        .fast = system->network.fast.bandwidth * system->network.fast.efficiency,
        .nic = system->network.slow.bandwidth * system->network.slow.efficiency,
        .nics = system->network.slow.nics_per_gpu,
        .fast_s = system->network.fast.latency_s,
        .nic_s = system->network.slow.latency_s,
    };
}

static double send_time(links l, double bytes, int64_t fast, double lone_nics) {
    return fast > 1 ? l.fast_s + bytes / l.fast : l.nic_s + bytes / (l.nic * lone_nics);
}

// The pass of a ring in which `bytes` cross every link.
static double ring_time(links l, double bytes, tp_group group, double lone_nics) {
    double n = (double)group.size, q = (double)group.fast;
    if (group.fast == 1) return l.nic_s * (n - 1) + bytes / (l.nic * lone_nics);
    if (group.size == group.fast) return l.fast_s * (n - 1) + bytes / l.fast;
    double g = n / q;
    return l.nic_s * (g - 1) + l.fast_s * (n - g) +
           fmax(bytes / (l.nics * q * l.nic), bytes / l.fast);
}

static double rooted_time(links l, double bytes, tp_group group) {
    double n = (double)group.size, q = (double)group.fast, g = n / q;
    double leaving = (n - q) / n * bytes, passing = (n - 1) / n * bytes;
    if (group.fast == 1) return l.nic_s * (n - 1) + passing / (l.nic * l.nics);
    return l.nic_s * (g - 1) + l.fast_s * (n - g) +
           fmax(leaving / (l.nics * q * l.nic), passing / l.fast);
}

static double all_to_all_time(links l, double bytes, tp_group group) {
    double n = (double)group.size, q = (double)group.fast;
    return l.nic_s * (n - q) + l.fast_s * (q - 1) +
           fmax((n - q) / n * bytes / (l.nic * l.nics), (q - 1) / n * bytes / l.fast);
}

double tp_collective_time(const tp_system *system, const tp_rules *rules, tp_collective kind,
                          double bytes, tp_group group) {
    if (bytes == 0 || group.size <= 1) return 0;
    links l = links_of(system);
    double lone_nics = rules->lone_gpus_use_all_nics ? l.nics : 1;
    double n = (double)group.size, shared = (n - 1) / n * bytes;
    switch (kind) {
    case TP_SEND:
        return send_time(l, bytes, group.fast, lone_nics);
    case TP_BROADCAST:
    case TP_REDUCE:
        return ring_time(l, bytes, group, lone_nics);
    case TP_SCATTER:
    case TP_GATHER:
        return rooted_time(l, bytes, group);
    case TP_ALL_TO_ALL:
        return all_to_all_time(l, bytes, group);
    case TP_ALL_REDUCE:
        if (rules->all_reduce_is_two_passes) return 2 * ring_time(l, shared, group, lone_nics);
        // The published solver doubles the bytes only when they cross domains, and no latency (Q4).
        return ring_time(l, group.fast > 1 && group.size > group.fast ? 2 * shared : shared, group,
                         lone_nics);
    case TP_ALL_GATHER:
    case TP_REDUCE_SCATTER:
    case TP_COLLECTIVE_COUNT:
        break;
    }
    return ring_time(l, shared, group, lone_nics);
}
