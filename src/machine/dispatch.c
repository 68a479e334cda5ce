// dispatch.c: expert dispatch that sends a token once per domain and GPU. See tperf/collective.h.
#include <math.h>
#include <stddef.h>

#include "machine/tiers.h"
#include "tperf/collective.h"

double lgamma_r(double x, int *sign); // in every C library, but hidden from POSIX programs

const char *tperf_routing_fault(const tperf_routing *r) {
    double groups = r->groups > 1 ? r->groups : 1, chosen = groups > 1 ? r->top_groups : 1;
    if (!(r->experts >= 1 && r->top_k >= 1 && r->top_k <= r->experts))
        return "'top_k' must be from 1 to the number of experts";
    if (!(groups <= r->experts && fmod(r->experts, groups) == 0))
        return "'groups' must divide the number of experts";
    if (!(chosen >= 1 && chosen <= groups)) return "'top_groups' must be from 1 to 'groups'";
    if (r->top_k > chosen * r->experts / groups)
        return "'top_k' is more than the experts of 'top_groups' groups";
    return NULL;
}

// The probability that a token's top_k choices among `all` experts miss all of `own`.
static double untouched(double all, double own, double top_k) {
    double part = 1;
    for (double i = 0; i < top_k && part > 0; i++)
        part *= fmax(all - own - i, 0) / (all - i);
    return part;
}

// The logarithm of the number of ways to choose k of n.
static double log_choices(double n, double k) {
    int sign; // lgamma would write it into a global
    return lgamma_r(n + 1, &sign) - lgamma_r(k + 1, &sign) - lgamma_r(n - k + 1, &sign);
}

// The probability that `chosen` of `groups` groups include exactly j of `own`.
static double hypergeometric(double groups, double own, double chosen, double j) {
    return exp(log_choices(own, j) + log_choices(groups - own, chosen - j) -
               log_choices(groups, chosen));
}

double tperf_routing_parts(const tperf_routing *r, double parts) {
    double groups = r->groups > 1 ? r->groups : 1, chosen = groups > 1 ? r->top_groups : 1;
    double of_group = r->experts / groups, eligible = chosen * of_group;
    if (parts >= groups) // each part has experts of only one group
        return parts * chosen / groups * (1 - untouched(eligible, r->experts / parts, r->top_k));
    double own = groups / parts, met = 0; // whole groups
    for (double j = fmax(chosen - (groups - own), 0); j <= fmin(own, chosen); j++)
        met += hypergeometric(groups, own, chosen, j) *
               (1 - untouched(eligible, j * of_group, r->top_k));
    return parts * met;
}

static tperf_route ports_route(const tperf_routing *routing, double bytes, tperf_group group) {
    double token = bytes / routing->top_k, n = (double)group.size, q = (double)group.fast,
           g = n / q;
    if (bytes == 0) return (tperf_route){.algorithm = "none"};
    if (routing->doubling_s > 0)
        return (tperf_route){.algorithm = "direct",
                             .fast_bytes = bytes * (q - 1) / n,
                             .nic_bytes = bytes * (g - 1) / g};
    return (tperf_route){.algorithm = "relayed",
                         .fast_bytes = token * tperf_routing_parts(routing, n) * (q - 1) / q,
                         .nic_bytes = token * tperf_routing_parts(routing, g) * (g - 1) / g};
}

tperf_route tperf_dispatch_route(const tperf_system *system, const tperf_routing *routing,
                                 double bytes, tperf_group group) {
    tperf_route route = ports_route(routing, bytes, group);
    tperf_route_climb(system, TPERF_PASSES_PAIRED, group, &route);
    return route;
}

// Its kernels keep the NICs busy from the first token on, so the curve's ramp does not apply.
static double nics_time(const tperf_system *system, const tperf_rules *rules, double bytes,
                        tperf_group group) {
    tperf_slow_curve curve = system->curves.slow;
    double n = (double)group.size, q = (double)group.fast;
    if (bytes == 0) return 0;
    if (!(curve.efficiency > 0))
        return tperf_collective_time(system, rules, TPERF_ALL_TO_ALL, bytes * n / (n - q), group);
    double nics = system->network.slow.nics_per_gpu * system->network.slow.bandwidth;
    tperf_uplinks up = tperf_uplinks_of(system, group, TPERF_PASSES_PAIRED, true);
    curve.ramp_s = 0;
    return tperf_slow_time(&curve, tperf_ring_start(&curve, n / q) + up.far_s,
                           up.far_times * (bytes / (nics * curve.efficiency)), 1);
}

static double latency_of(const tperf_system *system) {
    const tperf_link_curve *link = &system->curves.link[TPERF_LINK_ALL_TO_ALL];
    return link->large > 0 ? link->latency_s : system->network.fast.latency_s;
}

static double low_latency_time(const tperf_system *system, const tperf_routing *routing,
                               double bytes, tperf_group group) {
    double n = (double)group.size, q = (double)group.fast, g = n / q;
    double nics = system->network.slow.nics_per_gpu * system->network.slow.bandwidth;
    double part = system->curves.slow.efficiency;
    double far = bytes * (g - 1) / g / (nics * (part > 0 ? part : system->network.slow.efficiency));
    double near = bytes * (q - 1) / n / (routing->ports * system->network.fast.bandwidth);
    tperf_uplinks up = tperf_uplinks_of(system, group, TPERF_PASSES_PAIRED, true);
    return latency_of(system) + routing->doubling_s * log2(g) + up.near_s + up.far_s +
           fmax(up.far_times * far, up.near_times * near);
}

static double ports_time(const tperf_system *system, const tperf_rules *rules,
                         const tperf_routing *routing, double bytes, tperf_group group) {
    double q = (double)group.fast;
    if (bytes == 0) return 0;
    tperf_group inside = {group.fast, group.fast, group.near, 1};
    if (routing->ports > 0) {
        tperf_uplinks up = tperf_uplinks_of(system, inside, TPERF_PASSES_PAIRED, true);
        return latency_of(system) + up.near_s +
               up.near_times * (bytes / (routing->ports * system->network.fast.bandwidth));
    }
    return tperf_collective_time(system, rules, TPERF_ALL_TO_ALL, bytes * q / (q - 1), inside);
}

double tperf_dispatch_time(const tperf_system *system, const tperf_rules *rules,
                           const tperf_routing *routing, double bytes, tperf_group group) {
    if (routing->doubling_s > 0 && bytes > 0)
        return low_latency_time(system, routing, bytes, group);
    tperf_route route = ports_route(routing, bytes, group);
    double q = (double)group.fast;
    double time = fmax(nics_time(system, rules, route.nic_bytes, group),
                       ports_time(system, rules, routing, route.fast_bytes, group));
    if (route.nic_bytes == 0 && route.fast_bytes > 0 && routing->passed > 0)
        return fmax(time, route.fast_bytes * q / (q - 1) / routing->passed);
    if (route.nic_bytes == 0 || routing->relayed == 0) return time;
    return fmax(time, (route.nic_bytes + route.fast_bytes) / routing->relayed);
}
