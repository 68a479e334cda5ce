// tiers.c: see machine/tiers.h.
#include "machine/tiers.h"

#include <math.h>

static int64_t largest_divisor(int64_t number, int64_t most) {
    if (most >= number) return number;
    if (most <= 1) return 1;
    if (number % most == 0) return most;
    int64_t best = 1;
    for (int64_t i = 1; i <= number / i; i++) {
        if (number % i != 0) continue;
        if (i <= most && i > best) best = i;
        if (number / i <= most && number / i > best) best = number / i;
    }
    return best;
}

int64_t tperf_group_members(const tperf_system *system, tperf_group group, const tperf_tier *tier) {
    int64_t near = group.near > 1 ? group.near : 1, far = group.far > 1 ? group.far : 1;
    if (!tier->outside) return largest_divisor(group.fast, tier->unit / near);
    int64_t domains = tier->unit / system->network.fast.domain;
    return group.fast * largest_divisor(group.size / group.fast, domains / far);
}

tperf_group tperf_pair_across(const tperf_system *system, const tperf_tier *tier) {
    if (!tier->outside) return (tperf_group){2, 2, tier->unit, 1};
    return (tperf_group){2, 1, 1, tier->unit / system->network.fast.domain};
}

// A group, and the part of it that shares a unit of a tier.
typedef struct unit {
    double n, q, members;
    bool outside;
} unit;

// Hops in a row between units, of those that a port's own tier is charged for.
static double crossings(const unit *u, tperf_pattern pattern, bool measured) {
    double whole = u->outside ? u->n : u->q, units = whole / u->members;
    if (pattern == TPERF_PASSES_PAIRED) return measured ? units - 1 : whole - u->members;
    if (pattern == TPERF_PASSES_TREE && u->outside) return 2 * log2(units);
    if (u->outside) return units - 1;
    if (pattern == TPERF_PASSES_TREE) return 2 * tperf_link_steps(units);
    double domains = u->n / u->q; // a ring passes each
    return measured && domains == 1 ? tperf_link_steps(units) : domains * (units - 1);
}

// Bytes through the uplinks of a unit, for each GPU of the group in it, relative to those through its own port.
static double share(const unit *u, tperf_pattern pattern) {
    double inward = u->outside ? u->q : 1, whole = u->outside ? u->n : u->q;
    if (pattern == TPERF_PASSES_PAIRED) return (whole - u->members) / (whole - inward);
    double ring = inward / u->members;
    if (pattern == TPERF_PASSES_ROOTED && u->outside)
        return ring * (whole - u->members) / (whole - inward);
    if (pattern == TPERF_PASSES_TREE && u->outside) // (c - 1) / c of c units, of c domains
        return ring * (1 - u->members / whole) / (1 - inward / whole);
    return ring;
}

// Seconds of bytes through the uplinks of a unit, relative to those of as many through the port.
static double slowness(const tperf_system *system, const tperf_tier *tier, double members) {
    double nics = system->network.slow.nics_per_gpu * system->network.slow.bandwidth;
    double port = tier->outside ? nics : system->network.fast.bandwidth, rate = tier->bandwidth;
    double reached =
        tier->outside ? system->network.slow.efficiency : system->network.fast.efficiency;
    if (tier->alone) rate *= (double)tier->unit / members;
    if (tier->efficiency > 0) rate *= tier->efficiency / reached;
    return port / rate;
}

tperf_uplink tperf_uplink_of(const tperf_system *system, tperf_group group, const tperf_tier *tier,
                             tperf_pattern pattern) {
    unit u = {(double)group.size, (double)group.fast,
              (double)tperf_group_members(system, group, tier), tier->outside};
    tperf_uplink up = {.passes = u.members < (u.outside ? u.n : u.q)};
    if (!up.passes) return up;
    up.share = share(&u, pattern);
    up.slowness = slowness(system, tier, u.members);
    return up;
}

tperf_uplinks tperf_uplinks_of(const tperf_system *system, tperf_group group, tperf_pattern pattern,
                               bool measured) {
    tperf_uplinks up = {1, 1, 0, 0};
    double latency[2] = {system->network.fast.latency_s, system->network.slow.latency_s};
    for (int64_t i = 0; i < system->network.n_tiers; i++) {
        const tperf_tier *tier = &system->network.tiers[i];
        int64_t members = tperf_group_members(system, group, tier);
        if (members >= (tier->outside ? group.size : group.fast)) continue;
        unit u = {(double)group.size, (double)group.fast, (double)members, tier->outside};
        double *times = tier->outside ? &up.far_times : &up.near_times;
        double *seconds = tier->outside ? &up.far_s : &up.near_s;
        double more = tier->latency_s - latency[tier->outside];
        if (more > 0) {
            *seconds += more * crossings(&u, pattern, measured);
            latency[tier->outside] = tier->latency_s;
        }
        double longer = share(&u, pattern) * slowness(system, tier, u.members);
        if (longer > *times) *times = longer;
    }
    return up;
}

void tperf_route_climb(const tperf_system *system, tperf_pattern pattern, tperf_group group,
                       tperf_route *route) {
    for (int64_t i = 0; i < system->network.n_tiers; i++) {
        const tperf_tier *tier = &system->network.tiers[i];
        tperf_uplink up = tperf_uplink_of(system, group, tier, pattern);
        route->up_bytes[i] = up.share * (tier->outside ? route->nic_bytes : route->fast_bytes);
    }
}
