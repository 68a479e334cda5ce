// collective.h: how long a collective takes on the two-tier network.
//
// A group of `size` GPUs has `fast` of them in each fast domain. V is the full vector: the gathered
// result of an all-gather, the unreduced input of a reduce-scatter, the vector of an all-reduce,
// the message of a broadcast, a reduce or a send, what the root holds of a scatter or a gather, and
// what each GPU sends in total in an all-to-all (the "size" of nccl-tests, except for send).
//
// Ring model of arXiv 2410.00273 (section 4 of docs/model.md). With n = size, q = fast, g = n/q
// domains, B_f and B_s the effective bandwidth of the fast network per GPU and of one NIC, nu NICs
// per GPU, l_f and l_s the latencies, and k the part of V that passes each link (1 for broadcast
// and reduce, (n-1)/n for the others):
//   q = 1          l_s (n-1) + k V / B_s                    (B_s nu: rule lone_gpus_use_all_nics)
//   g = 1          l_f (n-1) + k V / B_f
//   otherwise      l_s (g-1) + l_f (n-g) + max(k V / (nu q B_s), k V / B_f): q parallel rings
// In a mesh (network.fast.mesh), where each two GPUs of a domain have a link of their own, q GPUs have
// (q-1) / (domain-1) of B_f among them.
// An all-reduce is a reduce-scatter followed by an all-gather: see rule all_reduce_is_two_passes.
//   send           l_s + V / B_s when q = 1 (same rule), else l_f + V / B_f
//
// The published model lacks three. They follow from the same reasoning, namely the bytes that must
// pass the busiest link, and the hops in a row; nccl-tests counts their bus bandwidth the same way
// (its PERFORMANCE.md, factor (n-1)/n):
//   scatter, gather: the root's port passes (n-1)/n V; of that (n-q)/n V leaves its domain through
//                    the nu q NICs of its q GPUs; latency of the ring.
//                    l_s (g-1) + l_f (n-g) + max((n-q)/n V / (nu q B_s), (n-1)/n V / B_f)
//   all-to-all:      every GPU sends V/n to each other one: (q-1)/n V over its fast port and, at
//                    the same time, (n-q)/n V over its own nu NICs; pairwise exchange takes n-1 steps.
//                    l_s (n-q) + l_f (q-1) + max((n-q)/n V / (nu B_s), (q-1)/n V / B_f)
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
} tperf_group;

// What a group must be: 1 <= fast <= min(size, domain), fast divides size.
tperf_status tperf_group_validate(tperf_group group, const tperf_system *system,
                                  tperf_error *error);

// Seconds. bytes >= 0, and the group is valid. 0 for no bytes or a group of one.
double tperf_collective_time(const tperf_system *system, const tperf_rules *rules,
                             tperf_collective kind, double bytes, tperf_group group);

// What a collective without fitted curves takes: latency_s + bytes x per_byte_s, for any bytes but none.
typedef struct tperf_rate {
    double latency_s, per_byte_s;
} tperf_rate;

// false when the system has a curve for this collective, whose rate depends on the bytes.
bool tperf_collective_rate(const tperf_system *system, const tperf_rules *rules,
                           tperf_collective kind, tperf_group group, tperf_rate *rate);

// What a collective does beside taking time: bytes that one GPU sends over its fast port and through its NICs (of a
// scatter or gather: the root), and the algorithm that its price is that of:
//   "ring", "rings" (parallel, one a GPU of a domain), "pairwise", "send", "switch" (which adds up on the way), "tree",
//   "one-shot", "two-shot" (kernels that read the peers' memory), "none" (nothing to send, or nobody)
typedef struct tperf_route {
    const char *algorithm;
    double fast_bytes, nic_bytes;
} tperf_route;

tperf_route tperf_collective_route(const tperf_system *system, const tperf_rules *rules,
                                   tperf_collective kind, double bytes, tperf_group group);

// How tokens choose experts: top_k of `experts`, all equally likely, or those of top_groups of the `groups` that the
// experts are divided into (node-limited routing, arXiv 2412.19437, section 2.1.2; groups 0 or 1: of all).
typedef struct tperf_routing {
    double experts, top_k, groups, top_groups;
    double relayed; // bytes/s that the kernels pass on between domains; 0: what the links do
    double
        passed; // bytes/s that they pass on within a domain, a GPU's own tokens too; 0: what the ports do
    double
        ports; // of kernels of low latency: the part of a port's bandwidth that they reach; 0: others
    double doubling_s; // of these: more for each doubling of the domains
} tperf_routing;

// Why it is no routing; NULL: it is one.
const char *tperf_routing_fault(const tperf_routing *routing);

// Of `parts` GPUs or domains that share the experts out, how many a token meets on average. An expert of a part is met
// unless all top_k choices fall on others: with E experts at choice, s of them in the part,
//   parts (1 - product over i < top_k of (E - s - i) / (E - i))
// and with groups the average over how many of a part's groups are among the top_groups.
double tperf_routing_parts(const tperf_routing *routing, double parts);

// A dispatch of experts that sends a token once to each domain that has any of its experts, over the NICs, and hands it
// out there once to each GPU that has any (DeepEP's normal kernels, github.com/deepseek-ai/DeepEP; HybridEP's). The
// combine is its way back. bytes: of all top_k copies of one GPU's tokens, what an all-to-all would send. With t = bytes /
// top_k, both tiers at the same time, each as long as an all-to-all that passes as many bytes through it (of a curve of
// the NICs all but its ramp: the kernels send from the first token on):
//   NICs t parts(g) (g-1)/g, fast ports t parts(n) (q-1)/q
// Between domains, no faster than the kernels pass on both; within one, than they pass on t parts(n).
// Kernels of low latency (DeepEP's) send each of the top_k copies straight to its GPU, all at once: an all-to-all's
// latency, doubling log2(g), and the longer of bytes (g-1)/g through the NICs and bytes (q-1)/n through `ports` of the
// fast ports.
double tperf_dispatch_time(const tperf_system *system, const tperf_rules *rules,
                           const tperf_routing *routing, double bytes, tperf_group group);
tperf_route tperf_dispatch_route(const tperf_routing *routing, double bytes,
                                 tperf_group group); // "relayed"

#endif
