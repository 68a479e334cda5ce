// tiers.h: what the tiers without ports of their own add to a collective. tperf/collective.h states the formulas.
#ifndef TPERF_MACHINE_TIERS_H
#define TPERF_MACHINE_TIERS_H

#include "tperf/collective.h"

// How a collective's bytes and hops lie in the network.
typedef enum tperf_pattern {
    TPERF_PASSES_RING,   // around all GPUs, or along a chain: each unit passes on all
    TPERF_PASSES_TREE,   // up and down trees of units
    TPERF_PASSES_PAIRED, // from each GPU to each other one
    TPERF_PASSES_ROOTED, // to or from one GPU along a ring
} tperf_pattern;

// Beyond the ports: how many times longer than through the fast ports and the NICs the bytes take where an uplink is the
// bottleneck, at least 1; and seconds of latency beyond that of as many hops of the ports' own tiers.
typedef struct tperf_uplinks {
    double near_times, far_times, near_s, far_s;
} tperf_uplinks;

// One tier. share: bytes through the group's part of the uplinks for each byte through the port, per GPU of the group;
// slowness: seconds of a byte through the uplinks for each second of one through the port; passes: whether the group
// lies in several units. If not, both are 0.
typedef struct tperf_uplink {
    double share, slowness;
    bool passes;
} tperf_uplink;

tperf_uplink tperf_uplink_of(const tperf_system *system, tperf_group group, const tperf_tier *tier,
                             tperf_pattern pattern);

// Sets the bytes of a route through uplinks from those through ports.
void tperf_route_climb(const tperf_system *system, tperf_pattern pattern, tperf_group group,
                       tperf_route *route);

// measured: its start is that of a curve, in which units take turns.
tperf_uplinks tperf_uplinks_of(const tperf_system *system, tperf_group group, tperf_pattern pattern,
                               bool measured);

#endif
