// tiers.c: see machine/tiers.h.
#include "machine/tiers.h"

#include <math.h>

#include "machine/torus.h"

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

// A group, and the part of it that shares a unit of a tier; of its units those that share one of the tier outward.
typedef struct unit {
    double n, q, members;
    double outward; // GPUs of the group that the tier joins
    bool outside;
} unit;

static double whole_of(const unit *u) {
    return u->outside ? u->n : u->q;
}

// The part of the group that shares what the tier joins: a unit of the next one on the same side of the NICs, if any.
static double outward_of(const tperf_system *system, tperf_group group, const tperf_tier *tier) {
    const tperf_tier *next = tier + 1, *end = system->network.tiers + system->network.n_tiers;
    if (next < end && next->outside == tier->outside)
        return (double)tperf_group_members(system, group, next);
    return (double)(tier->outside ? group.size : group.fast);
}

static unit unit_of(const tperf_system *system, tperf_group group, const tperf_tier *tier) {
    return (unit){(double)group.size, (double)group.fast,
                  (double)tperf_group_members(system, group, tier), outward_of(system, group, tier),
                  tier->outside};
}

static bool is_torus(const tperf_tier *tier) {
    return tier->axes[0] > 0;
}

// What links from unit to unit, without a switch, make of a tier.
typedef struct linked {
    double slower; // seconds of a byte over those through all links of a unit
    double hops;   // of a pass
} linked;

static linked linked_of(const tperf_tier *tier, const unit *u, tperf_pattern pattern) {
    double units = u->outward / u->members;
    if (!is_torus(tier)) return (linked){fmax((double)(tier->mesh - 1) / (units - 1), 1), 1};
    int axes = 0;
    while (axes < TPERF_TORUS_AXES && tier->axes[axes] > 0)
        axes++;
    tperf_block block = tperf_torus_block(tier->axes, (int64_t)units);
    double all = 2 * axes;
    if (pattern != TPERF_PASSES_PAIRED) return (linked){all / block.links, block.hops};
    return (linked){all * block.turned * units / (units - 1), block.hops};
}

// Hops in a row between units, of those that a port's own tier is charged for.
static double crossings(const unit *u, tperf_pattern pattern, bool measured) {
    double whole = whole_of(u), units = whole / u->members;
    if (pattern == TPERF_PASSES_PAIRED) return measured ? units - 1 : whole - u->members;
    if (pattern == TPERF_PASSES_TREE && u->outside) return 2 * log2(units);
    if (u->outside) return units - 1;
    if (pattern == TPERF_PASSES_TREE) return 2 * tperf_link_steps(units);
    double domains = u->n / u->q; // a ring passes each
    return measured && domains == 1 ? tperf_link_steps(units) : domains * (units - 1);
}

// Bytes through the uplinks of a unit, for each GPU of the group in it, relative to those through its own port.
static double share(const unit *u, tperf_pattern pattern, bool has_links) {
    double inward = u->outside ? u->q : 1, whole = whole_of(u);
    if (has_links && u->outward == u->members)
        return 0; // what leaves a torus or a mesh has other links
    if (has_links && pattern == TPERF_PASSES_PAIRED)
        return (u->outward - u->members) / (whole - inward);
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

static bool is_linked(const tperf_tier *tier) {
    return is_torus(tier) || tier->mesh > 0;
}

// Hops of links from unit to unit beyond those of a ring around all units, which are counted already. An all-to-all's
// turns, a curve's start and a tree's hops stay as they are.
static double more_hops(const tperf_tier *tier, const unit *u, tperf_pattern pattern,
                        bool measured) {
    if (measured || pattern == TPERF_PASSES_PAIRED) return 0;
    double tori = whole_of(u) / u->outward;
    return linked_of(tier, u, pattern).hops - tori * (u->outward / u->members - 1);
}

static tperf_uplink uplink_of(const tperf_system *system, const tperf_tier *tier, const unit *u,
                              tperf_pattern pattern) {
    tperf_uplink up = {.passes = u->members < whole_of(u)};
    if (!up.passes) return up;
    bool has_links = is_linked(tier);
    up.share = share(u, pattern, has_links);
    up.slowness = slowness(system, tier, u->members);
    if (has_links && up.share > 0) up.slowness *= linked_of(tier, u, pattern).slower;
    return up;
}

tperf_uplink tperf_uplink_of(const tperf_system *system, tperf_group group, const tperf_tier *tier,
                             tperf_pattern pattern) {
    unit u = unit_of(system, group, tier);
    return uplink_of(system, tier, &u, pattern);
}

tperf_uplinks tperf_uplinks_of(const tperf_system *system, tperf_group group, tperf_pattern pattern,
                               bool measured) {
    tperf_uplinks up = {1, 1, 0, 0};
    double latency[2] = {system->network.fast.latency_s, system->network.slow.latency_s};
    for (int64_t i = 0; i < system->network.n_tiers; i++) {
        const tperf_tier *tier = &system->network.tiers[i];
        unit u = unit_of(system, group, tier);
        tperf_uplink one = uplink_of(system, tier, &u, pattern);
        if (!one.passes) continue;
        double *times = tier->outside ? &up.far_times : &up.near_times;
        double *seconds = tier->outside ? &up.far_s : &up.near_s;
        double more = tier->latency_s - latency[tier->outside];
        if (more > 0) {
            *seconds += more * crossings(&u, pattern, measured);
            latency[tier->outside] = tier->latency_s;
        }
        if (is_linked(tier) && one.share > 0)
            *seconds += latency[tier->outside] * more_hops(tier, &u, pattern, measured);
        double longer = one.share * one.slowness;
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
