// collective.h: how long a collective takes on a network of tiers.
//
// A group of `size` GPUs has `fast` of them in each fast domain. V is the size of nccl-tests (except for a send): the
// gathered result of an all-gather, the input of a reduce-scatter, the vector of an all-reduce, the message of a
// broadcast, a reduce or a send, the root's buffer of a scatter or a gather, and everything that one GPU sends in an
// all-to-all.
//
// Ring model of arXiv 2410.00273 (section 4 of docs/model.md). With n = size, q = fast, g = n/q
// domains, B_f and B_s the effective bandwidth of the fast network per GPU and of one NIC, nu NICs
// per GPU, l_f and l_s the latencies, and k the part of V that passes each link (1 for broadcast
// and reduce, (n-1)/n for the others):
//   q = 1          l_s (n-1) + k V / B_s                    (B_s nu: rule lone_gpus_use_all_nics)
//   g = 1          l_f (n-1) + k V / B_f
//   otherwise      l_s (g-1) + l_f (n-g) + max(k V / (nu q B_s), k V / B_f): q parallel rings
// In a mesh (network.fast.mesh) every pair of GPUs of a domain has its own link: among q GPUs each has
// (q-1) / (domain-1) of B_f, and a pass takes one hop within a domain, since all parts travel at once: 2 l_f + ... for
// an all-reduce of one domain (a broadcast and a reduce still pass a chain).
// In a torus (network.fast.axes) a group is a compact block (src/machine/torus.h): of the two links along each axis its
// GPUs use both where the block is long enough to wrap, one where it is not, and a pass takes as many hops as it is wide.
// An all-to-all passes e/8 of what a GPU sends over each link of the longest axis, of e GPUs; e/4 where that does not wrap.
// An all-reduce is a reduce-scatter followed by an all-gather: see rule all_reduce_is_two_passes.
//   send           l_s + V / B_s if q = 1 (same rule), else l_f + V / B_f
//
// The published model lacks three collectives. They follow from the same reasoning: the bytes through the busiest link,
// and the hops in a row. nccl-tests counts their bus bandwidth the same way (its PERFORMANCE.md, factor (n-1)/n):
//   scatter, gather: the root's port passes (n-1)/n V; of that (n-q)/n V leaves its domain through
//                    the nu q NICs of its q GPUs; latency of the ring.
//                    l_s (g-1) + l_f (n-g) + max((n-q)/n V / (nu q B_s), (n-1)/n V / B_f)
//   all-to-all:      every GPU sends V/n to each other one: (q-1)/n V over its fast port and, at
//                    the same time, (n-q)/n V over its own nu NICs; pairwise exchange takes n-1 steps.
//                    l_s (n-q) + l_f (q-1) + max((n-q)/n V / (nu B_s), (q-1)/n V / B_f)
//
// A system may say that a collective of several GPUs of a domain starts once, beside its hops (network.fast.start_s).
//
// Further tiers (tperf_tier) have no ports of GPUs, but uplinks of units. With u of the group's GPUs in a unit, c = n/u
// units, and B_t of uplinks per GPU, the bytes take at least
//   k V / (u B_t) around rings, 2 (c-1)/c V / (u B_t) along trees, (n-u)/n V / (u B_t) of a scatter or gather, and
//   (n-u)/n V / B_t in an all-to-all (a unit within a domain: q for n)
// since every GPU of a unit has an equal part of its uplinks (max-min, when all communicate alike); and every hop between
// units takes the tier's latency: c-1 of a ring's, n-u of an all-to-all's, 2 log2(c) of a tree's.
// So a tier that is no slower than the one inward changes nothing.
//
// Units without a switch use a part of their links only. With c of a group's units in one torus of A axes, in which they
// lie as a compact block (machine/torus.h): `links` of 2 A of B_t, `hops` in place of a ring's c-1, and in an all-to-all
// `turned` of what a unit sends to the torus pass one link, B_t / 2 A. In a mesh of C units: (c-1)/(C-1) of B_t, and one hop.
#ifndef TPERF_COLLECTIVE_H
#define TPERF_COLLECTIVE_H

#include <stdint.h>

#include "tperf/error.h"
#include "tperf/rules.h"
#include "tperf/system.h"

typedef enum tperf_collective {
    TPERF_ALL_REDUCE,
    TPERF_ALL_GATHER,
    TPERF_REDUCE_SCATTER,
    TPERF_BROADCAST,
    TPERF_REDUCE,
    TPERF_SCATTER,
    TPERF_GATHER,
    TPERF_ALL_TO_ALL,
    TPERF_SEND,
    TPERF_COLLECTIVE_COUNT
} tperf_collective;

extern const char *const tperf_collective_names[TPERF_COLLECTIVE_COUNT + 1]; // "all_reduce" …, NULL

typedef struct tperf_group {
    int64_t size; // GPUs that take part
    int64_t fast; // how many of them share one fast domain; divides size
    // From one GPU of the group to the next: GPUs within a domain, and domains. 0 or 1: they are neighbours. They decide
    // how many share a unit of a further tier.
    int64_t near, far;
} tperf_group;

// How many of a group share a unit of a tier.
int64_t tperf_group_members(const tperf_system *system, tperf_group group, const tperf_tier *tier);

// Two GPUs that the tier joins, and no tier inward.
tperf_group tperf_pair_across(const tperf_system *system, const tperf_tier *tier);

// Checks 1 <= fast <= min(size, domain), and that fast divides size.
tperf_status tperf_group_validate(tperf_group group, const tperf_system *system,
                                  tperf_error *error);

// Seconds. Expects bytes >= 0 and a valid group; 0 for no bytes or a group of one.
double tperf_collective_time(const tperf_system *system, const tperf_rules *rules,
                             tperf_collective kind, double bytes, tperf_group group);

// The linear cost of a collective without fitted curves: latency_s + bytes x per_byte_s for any bytes > 0.
typedef struct tperf_rate {
    double latency_s, per_byte_s;
} tperf_rate;

// False if the system has a curve for this collective: its rate then depends on the bytes.
bool tperf_collective_rate(const tperf_system *system, const tperf_rules *rules,
                           tperf_collective kind, tperf_group group, tperf_rate *rate);

// The algorithm that a collective is priced as, and the bytes that one GPU (the root of a scatter or gather) sends over
// its fast port and its NICs. Algorithms, a row each of src/machine/algorithms.c, whose names tperf_algorithm_name gives:
//   "ring", "rings" (parallel, one per GPU of a domain), "direct" (all links of a mesh at once), "pairwise", "torus" (an
//   all-to-all in one), "send", "switch" (in-network reduction), "tree",
//   "one-shot", "two-shot" (kernels that read the peers' memory); and "none" (no bytes, or a group of one)
typedef struct tperf_route {
    const char *algorithm;
    double fast_bytes, nic_bytes;
    double up_bytes[TPERF_TIERS_MAX - 2]; // through its part of the uplinks of each further tier
} tperf_route;

// The i-th algorithm's name, each once; NULL after the last.
const char *tperf_algorithm_name(int i);

tperf_route tperf_collective_route(const tperf_system *system, const tperf_rules *rules,
                                   tperf_collective kind, double bytes, tperf_group group);

// A collective and where it runs.
typedef struct tperf_asked_collective {
    const tperf_system *system;
    const tperf_rules *rules;
    tperf_collective kind;
    double bytes;
    tperf_group group;
} tperf_asked_collective;

// The same by an algorithm's name, whatever a library would choose: NCCL_ALGO=Ring. False if none of the name applies.
bool tperf_collective_by(const tperf_asked_collective *asked, const char *name, double *seconds,
                         tperf_route *route);

// What a route passes through a tier: bytes of one GPU of the group through its part of it, and their seconds at the
// bandwidth that is reached. A collective takes about the longest of these, and its start.
enum { TPERF_FAST_PORT = -1, TPERF_NIC_PORT = -2 };
typedef struct tperf_tier_use {
    int64_t tier;     // its index among the further ones, or a port
    const char *name; // of the tier; "fast" and "slow" in a network of two
    double bytes, seconds;
} tperf_tier_use;

// Lists the tiers with bytes, from the innermost out, without seconds; returns their number. up_bytes:
// [TPERF_TIERS_MAX - 2], by further tier.
int tperf_tiers_passed(const tperf_system *system, double fast_bytes, double nic_bytes,
                       const double *up_bytes, tperf_tier_use uses[TPERF_TIERS_MAX]);

// Lists the tiers that a route passes, from the innermost out; returns their number.
int tperf_route_tiers(const tperf_system *system, tperf_route route, tperf_collective kind,
                      tperf_group group, tperf_tier_use uses[TPERF_TIERS_MAX]);

// How tokens choose experts: the top_k of all `experts`, all equally likely; or of the experts in the best top_groups
// of `groups` equal groups (node-limited routing, arXiv 2412.19437, section 2.1.2). groups 0 or 1: no groups.
typedef struct tperf_routing {
    double experts, top_k, groups, top_groups;
    double relayed;    // bytes/s that the kernels pass on between domains; 0: what the links do
    double passed;     // the same within a domain, a GPU's own tokens too
    double ports;      // the part of a port's bandwidth that they reach; 0: an all-to-all's
    double doubling_s; // kernels of low latency: more for each doubling of the domains; 0: others
} tperf_routing;

// Why the routing is invalid; NULL if it is valid.
const char *tperf_routing_fault(const tperf_routing *routing);

// The average number of GPUs or domains, of the `parts` that share the experts, that a token is sent to. A part is
// missed only if all top_k choices fall on other parts: with E experts to choose from and s of them in each part,
//   parts (1 - product over i < top_k of (E - s - i) / (E - i))
// With groups, the average over the number of a part's groups among the top_groups.
double tperf_routing_parts(const tperf_routing *routing, double parts);

// An expert dispatch that sends a token once, over the NICs, to each domain with any of its experts, and forwards it
// there once to each GPU with any (DeepEP's normal kernels, github.com/deepseek-ai/DeepEP; HybridEP). The combine is
// the reverse. group: of several GPUs. bytes: all top_k copies of one GPU's tokens, as an all-to-all would send them. With t = bytes / top_k,
// both tiers work at the same time, each for as long as an all-to-all that moves as many bytes through it (without the
// ramp of the NICs' curve: the kernels send from the first token on):
//   NICs t parts(g) (g-1)/g, fast ports t parts(n) (q-1)/q
// or `ports` of the fast ports. Between domains, no faster than the kernels pass on both; within one, than they pass on
// t parts(n).
// Kernels of low latency (DeepEP's) send each of the top_k copies straight to its GPU, all at once: an all-to-all's
// latency, doubling log2(g), and the longer of bytes (g-1)/g through the NICs and bytes (q-1)/n through `ports` of the
// fast ports.
double tperf_dispatch_time(const tperf_system *system, const tperf_rules *rules,
                           const tperf_routing *routing, double bytes, tperf_group group);
tperf_route tperf_dispatch_route(const tperf_system *system, const tperf_routing *routing,
                                 double bytes, tperf_group group); // "relayed"

#endif
