// algorithms.c: see algorithms.h. tperf/collective.h states every formula, tperf/efficiency.h those of the curves.
#include "machine/algorithms.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static double larger(double a, double b) {
    return a > b ? a : b;
}

// --- what a collective moves ---

// Whether all of V crosses every link, rather than all except one GPU's share.
static bool moves_whole(tperf_collective kind) {
    return kind == TPERF_BROADCAST || kind == TPERF_REDUCE;
}

// Bytes of V that cross the NICs of one domain under NCCL's algorithms: trees for the all-reduce, rings for the others.
static double leaving(const tperf_exchange *e) {
    if (moves_whole(e->kind)) return e->bytes;
    if (e->kind == TPERF_ALL_REDUCE) return 2 * (e->g - 1) / e->g * e->bytes;
    if (e->kind == TPERF_ALL_TO_ALL) return (e->g - 1) / e->g * e->bytes * e->n / e->g;
    return (e->n - 1) / e->n * e->bytes;
}

// Bytes of V that cross the fast port of one of a domain's q GPUs: on a ring, everything from all other GPUs; in an
// all-to-all, only the neighbours' messages.
static double through_fast_port(const tperf_exchange *e) {
    if (moves_whole(e->kind)) return e->bytes;
    if (e->kind == TPERF_ALL_TO_ALL) return (e->q - 1) / e->n * e->bytes;
    return (e->kind == TPERF_ALL_REDUCE ? 2 : 1) * (e->n - 1) / e->n * e->bytes;
}

// Bytes that one GPU sends through its ports.
static tperf_route route_of(double fast, double nics) {
    return (tperf_route){.fast_bytes = fast, .nic_bytes = nics};
}

static bool reduces(const tperf_exchange *e) {
    return e->kind == TPERF_ALL_REDUCE;
}

// --- formulas ---

static double fast_rate(const tperf_exchange *e) { // B_f
    return e->port * e->system->network.fast.efficiency;
}

static double nic_rate(const tperf_exchange *e) { // B_s
    return e->system->network.slow.bandwidth * e->system->network.slow.efficiency;
}

static double fast_hops(const tperf_exchange *e, double hops) {
    return e->system->network.fast.latency_s * hops;
}

static double slow_hops(const tperf_exchange *e, double hops) {
    return e->system->network.slow.latency_s * hops;
}

// NICs of a GPU alone in its domain.
static double lone_nics(const tperf_exchange *e) {
    return e->rules->lone_gpus_use_all_nics ? e->system->network.slow.nics_per_gpu : 1;
}

static tperf_rate send_rate(const tperf_exchange *e) {
    if (e->group.fast > 1)
        return (tperf_rate){fast_hops(e, 1) + e->up.near_s, e->up.near_times / fast_rate(e)};
    return (tperf_rate){slow_hops(e, 1) + e->up.far_s,
                        e->up.far_times / (nic_rate(e) * lone_nics(e))};
}

static tperf_route send_route(const tperf_exchange *e) {
    return e->group.fast > 1 ? route_of(e->bytes, 0) : route_of(0, e->bytes);
}

// The number of ring passes whose bytes are charged. The published solver doubles an all-reduce's only across domains,
// and never the latency (Q4).
static double ring_passes(const tperf_exchange *e) {
    if (!reduces(e)) return 1;
    return e->rules->all_reduce_is_two_passes || e->reach == TPERF_BOTH ? 2 : 1;
}

// In a mesh, every GPU of a domain sends its part to each other one at once, over the link between them.
static bool is_direct(const tperf_exchange *e) {
    return e->system->network.fast.mesh && !moves_whole(e->kind);
}

static bool is_around(const tperf_exchange *e) {
    return !is_direct(e);
}

static bool is_torus(const tperf_exchange *e) {
    return e->system->network.fast.axes[0] > 0;
}

static bool is_switched(const tperf_exchange *e) {
    return !is_torus(e);
}

// Seconds of so many hops within domains, one after the other but in a mesh and along the axes of a torus.
static double near_hops(const tperf_exchange *e, double hops) {
    double most = is_direct(e) ? 1 : is_torus(e) ? e->block.hops : hops;
    return fast_hops(e, hops < most ? hops : most);
}

// Seconds of latency of further tiers.
static double climbs(const tperf_exchange *e) {
    return e->up.near_s + e->up.far_s;
}

// One pass around a ring, with the fraction `part` of the bytes crossing every link.
static tperf_rate once_around(const tperf_exchange *e, double part) {
    if (e->reach == TPERF_LONE)
        return (tperf_rate){slow_hops(e, e->n - 1) + e->up.far_s,
                            e->up.far_times * (part / (nic_rate(e) * lone_nics(e)))};
    double near = e->up.near_times * (part / fast_rate(e));
    if (e->reach == TPERF_INSIDE) return (tperf_rate){near_hops(e, e->n - 1) + e->up.near_s, near};
    double nics = e->system->network.slow.nics_per_gpu;
    double far = e->up.far_times * (part / (nics * e->q * nic_rate(e)));
    return (tperf_rate){slow_hops(e, e->g - 1) + near_hops(e, e->n - e->g) + climbs(e),
                        larger(far, near)};
}

static tperf_rate ring_rate(const tperf_exchange *e) {
    double part = moves_whole(e->kind) ? 1 : (e->n - 1) / e->n;
    if (!reduces(e) || !e->rules->all_reduce_is_two_passes)
        return once_around(e, ring_passes(e) * part);
    tperf_rate once = once_around(e, part);
    return (tperf_rate){2 * once.latency_s, 2 * once.per_byte_s};
}

static tperf_route ring_route(const tperf_exchange *e) {
    double part = moves_whole(e->kind) ? 1 : (e->n - 1) / e->n;
    double through = ring_passes(e) * part * e->bytes;
    return route_of(e->reach == TPERF_LONE ? 0 : through,
                    e->reach == TPERF_INSIDE ? 0 : through / e->q);
}

static tperf_rate rooted_rate(const tperf_exchange *e) {
    double nics = e->system->network.slow.nics_per_gpu;
    double out = (e->n - e->q) / e->n, passing = (e->n - 1) / e->n;
    if (e->reach == TPERF_LONE)
        return (tperf_rate){slow_hops(e, e->n - 1) + e->up.far_s,
                            e->up.far_times * (passing / (nic_rate(e) * nics))};
    return (tperf_rate){slow_hops(e, e->g - 1) + near_hops(e, e->n - e->g) + climbs(e),
                        larger(e->up.far_times * (out / (nics * e->q * nic_rate(e))),
                               e->up.near_times * (passing / fast_rate(e)))};
}

static tperf_route rooted_route(const tperf_exchange *e) {
    double port = e->reach == TPERF_LONE ? 0 : (e->n - 1) / e->n * e->bytes;
    return route_of(port, (e->n - e->q) / e->n * e->bytes / e->q);
}

static tperf_rate pairwise_rate(const tperf_exchange *e) {
    double nics = e->system->network.slow.nics_per_gpu;
    return (tperf_rate){slow_hops(e, e->n - e->q) + near_hops(e, e->q - 1) + climbs(e),
                        larger(e->up.far_times * ((e->n - e->q) / e->n / (nic_rate(e) * nics)),
                               e->up.near_times * ((e->q - 1) / e->n / fast_rate(e)))};
}

// Every byte passes the links of its way; those in the middle of the longest axis pass most.
static tperf_rate torus_rate(const tperf_exchange *e) {
    double link = fast_rate(e) / e->block.links;
    return (tperf_rate){near_hops(e, e->q - 1), e->block.turned / link};
}

static tperf_route pairwise_route(const tperf_exchange *e) {
    return route_of((e->q - 1) / e->n * e->bytes, (e->n - e->q) / e->n * e->bytes);
}

// --- curves within a domain ---

static bool switch_adds(const tperf_exchange *e) {
    return e->adds;
}

// One curve for the protocols of rings and the switch. A broadcast, scatter or gather costs as much as an all-gather
// that moves as many bytes through every port; a reduce as much as such a reduce-scatter.
static double port_seconds(const tperf_exchange *e) {
    if (reduces(e)) return tperf_link_time_of(e->link, true, e->port, e->n, e->bytes, e->stream);
    double bytes = moves_whole(e->kind) ? e->bytes * (e->n / (e->n - 1)) : e->bytes;
    return tperf_link_time(e->link, false, e->port, e->n, bytes);
}

// With what further tiers add, in a domain.
static double link_seconds(const tperf_exchange *e) {
    double seconds = port_seconds(e);
    if (!(e->up.near_times > 1)) return seconds + e->up.near_s;
    double stream = reduces(e) ? e->stream
                               : tperf_link_stream(e->link, false, e->port, e->n,
                                                   through_fast_port(e), e->bytes, NULL);
    return seconds + (e->up.near_times - 1) * stream + e->up.near_s;
}

static tperf_route port_route(const tperf_exchange *e) {
    return route_of(through_fast_port(e), 0);
}

static double switch_bytes(const tperf_exchange *e) {
    return (e->q + 1) / e->q * e->bytes;
}

static tperf_route switch_route(const tperf_exchange *e) {
    return route_of(switch_bytes(e), 0);
}

// Kernels that read the peers' memory, of serving engines.
static bool reads_peers(const tperf_exchange *e) {
    return e->system->serves && e->system->curves.direct.one_shot > 0;
}

// Each reads from each other one.
static tperf_uplinks pairs_up(const tperf_exchange *e) {
    if (e->system->network.n_tiers == 0) return e->up;
    return tperf_uplinks_of(e->system, e->group, TPERF_PASSES_PAIRED, true);
}

static double one_shot_seconds(const tperf_exchange *e) {
    tperf_uplinks up = pairs_up(e);
    return tperf_one_shot_time(&e->system->curves.direct, e->port / up.near_times, e->n, e->bytes) +
           up.near_s;
}

static tperf_route one_shot_route(const tperf_exchange *e) {
    return route_of((e->n - 1) * e->bytes, 0);
}

static double two_shot_seconds(const tperf_exchange *e) {
    tperf_uplinks up = pairs_up(e);
    return tperf_two_shot_time(&e->system->curves.direct, e->port / up.near_times, e->n, e->bytes) +
           up.near_s;
}

static tperf_route two_shot_route(const tperf_exchange *e) {
    return route_of(2 * (e->n - 1) / e->n * e->bytes, 0);
}

// --- curves between domains ---

// Seconds before the bytes flow between domains: trees of domains join the ends of a chain in each, up and down; a ring
// passes every GPU; a broadcast fills a chain of chunks; in an all-to-all every GPU has its own turn with each domain.
static double slow_start(const tperf_exchange *e) {
    const tperf_slow_curve *slow = &e->system->curves.slow;
    if (reduces(e))
        return tperf_tree_start(slow, e->g) + 2 * tperf_link_steps(e->q) * e->link->hop_s;
    if (moves_whole(e->kind)) return slow->latency_s + e->system->network.slow.chain_s * e->n;
    double near = e->kind == TPERF_ALL_TO_ALL ? e->q - 1 : e->n - e->g;
    return tperf_ring_start(slow, e->g) + near * e->link->hop_s;
}

enum { MEASURED_DOMAIN = 8 }; // the largest in which the ramp was measured

// Part of an all-reduce's ramp that a pass in one direction has: with it, the times of an all-gather on 16 to 2,048 H100s
// keep to those of NCCL's own model (src/graph/tuning.cc) within a factor of two at every size.
static const double ONE_WAY = 0.2;

static double slow_seconds(const tperf_exchange *e) {
    const tperf_slow_curve *slow = &e->system->curves.slow;
    double nics = e->q * e->system->network.slow.nics_per_gpu * e->system->network.slow.bandwidth;
    double stream = e->up.far_times * (leaving(e) / (nics * slow->efficiency));
    if (e->reach == TPERF_BOTH) {
        double near = reduces(e) ? e->stream
                                 : tperf_link_stream(e->link, false, e->port, e->q,
                                                     through_fast_port(e), e->bytes, NULL);
        stream = larger(stream, e->up.near_times * near);
    }
    bool one_way = e->kind == TPERF_ALL_GATHER || e->kind == TPERF_REDUCE_SCATTER;
    double time = tperf_slow_time(slow, slow_start(e) + climbs(e), stream, one_way ? ONE_WAY : 1);
    // No faster than the part of one domain alone, which may be the slower one where domains are large, and where an
    // all-to-all starts slowly in them.
    bool less = e->group.fast <= MEASURED_DOMAIN && e->kind != TPERF_ALL_TO_ALL;
    if (e->reach == TPERF_LONE || less) return time;
    double inside = e->kind == TPERF_ALL_TO_ALL ? e->bytes / e->g : e->bytes;
    return larger(time, tperf_link_time(e->link, reduces(e), e->port, e->q, inside));
}

// An all-reduce around rings of all domains, two passes, where a library takes trees.
static double around_seconds(const tperf_exchange *e) {
    const tperf_slow_curve *slow = &e->system->curves.slow;
    tperf_uplinks up = {1, 1, 0, 0};
    if (e->system->network.n_tiers > 0)
        up = tperf_uplinks_of(e->system, e->group, TPERF_PASSES_RING, true);
    double nics = e->q * e->system->network.slow.nics_per_gpu * e->system->network.slow.bandwidth;
    double start = tperf_ring_start(slow, e->g) + (e->n - e->g) * e->link->hop_s;
    double stream = up.far_times * (2 * (e->n - 1) / e->n * e->bytes / (nics * slow->efficiency));
    if (e->reach == TPERF_BOTH) stream = larger(stream, up.near_times * e->stream);
    return tperf_slow_time(slow, 2 * start + up.near_s + up.far_s, stream, 1);
}

static tperf_route around_route(const tperf_exchange *e) {
    double through = 2 * (e->n - 1) / e->n * e->bytes;
    return route_of(e->reach == TPERF_LONE ? 0 : through_fast_port(e), through / e->q);
}

static tperf_route slow_route(const tperf_exchange *e) {
    double port = e->adds ? switch_bytes(e) : through_fast_port(e);
    return route_of(e->reach == TPERF_LONE ? 0 : port, leaving(e) / e->q);
}

// --- the table ---

#define BIT(kind) (1u << (kind))
enum {
    ROOTED = BIT(TPERF_SCATTER) | BIT(TPERF_GATHER),
    PAIRED = BIT(TPERF_ALL_TO_ALL),
    REDUCED = BIT(TPERF_ALL_REDUCE),
    AROUND = REDUCED | BIT(TPERF_ALL_GATHER) | BIT(TPERF_REDUCE_SCATTER) | BIT(TPERF_BROADCAST) |
             BIT(TPERF_REDUCE),
    ACROSS = TPERF_LONE | TPERF_BOTH,
};

// clang-format off
const tperf_algorithm tperf_algorithms[] = {
    // name, when, condition, line in the bytes, seconds, route
    {"send", BIT(TPERF_SEND) | TPERF_ANYWHERE | TPERF_FORMULA, NULL, send_rate, NULL, send_route},
    {"ring", AROUND | TPERF_LONE | TPERF_FORMULA, NULL, ring_rate, NULL, ring_route},
    {"ring", AROUND | TPERF_INSIDE | TPERF_FORMULA, is_around, ring_rate, NULL, ring_route},
    {"direct", AROUND | TPERF_INSIDE | TPERF_FORMULA, is_direct, ring_rate, NULL, ring_route},
    {"rings", AROUND | TPERF_BOTH | TPERF_FORMULA, NULL, ring_rate, NULL, ring_route},
    {"ring", ROOTED | TPERF_ANYWHERE | TPERF_FORMULA, NULL, rooted_rate, NULL, rooted_route},
    {"pairwise", PAIRED | ACROSS | TPERF_FORMULA, NULL, pairwise_rate, NULL, pairwise_route},
    {"pairwise", PAIRED | TPERF_INSIDE | TPERF_FORMULA, is_switched, pairwise_rate, NULL, pairwise_route},
    {"torus", PAIRED | TPERF_INSIDE | TPERF_FORMULA, is_torus, torus_rate, NULL, pairwise_route},

    {"switch", REDUCED | TPERF_INSIDE | TPERF_CURVE, switch_adds, NULL, link_seconds, switch_route},
    {"ring", AROUND | ROOTED | TPERF_INSIDE | TPERF_CURVE, NULL, NULL, link_seconds, port_route},
    {"pairwise", PAIRED | TPERF_INSIDE | TPERF_CURVE, NULL, NULL, link_seconds, port_route},
    {"one-shot", REDUCED | TPERF_INSIDE | TPERF_CURVE, reads_peers, NULL, one_shot_seconds, one_shot_route},
    {"two-shot", REDUCED | TPERF_INSIDE | TPERF_CURVE, reads_peers, NULL, two_shot_seconds, two_shot_route},
    {"tree", REDUCED | ACROSS | TPERF_CURVE, NULL, NULL, slow_seconds, slow_route},
    {"ring", (AROUND & ~REDUCED) | ROOTED | TPERF_LONE | TPERF_CURVE, NULL, NULL, slow_seconds, slow_route},
    {"rings", (AROUND & ~REDUCED) | ROOTED | TPERF_BOTH | TPERF_CURVE, NULL, NULL, slow_seconds, slow_route},
    {"pairwise", PAIRED | ACROSS | TPERF_CURVE, NULL, NULL, slow_seconds, slow_route},
    {0},
};

const tperf_algorithm tperf_other_algorithms[] = {
    {"ring", REDUCED | TPERF_LONE | TPERF_CURVE, NULL, NULL, around_seconds, around_route},
    {"rings", REDUCED | TPERF_BOTH | TPERF_CURVE, NULL, NULL, around_seconds, around_route},
    {0},
};
// clang-format on

// --- choice ---

const tperf_link_curve *tperf_link_curve_of(const tperf_system *system, tperf_collective kind) {
    const tperf_link_curve *curves = system->curves.link;
    if (kind == TPERF_ALL_REDUCE) return &curves[TPERF_LINK_ALL_REDUCE];
    if (kind == TPERF_REDUCE_SCATTER || kind == TPERF_REDUCE)
        return &curves[TPERF_LINK_REDUCE_SCATTER];
    if (kind == TPERF_ALL_TO_ALL) return &curves[TPERF_LINK_ALL_TO_ALL];
    return &curves[TPERF_LINK_ALL_GATHER];
}

tperf_pattern tperf_pattern_of(tperf_collective kind, bool measured) {
    if (kind == TPERF_ALL_TO_ALL) return TPERF_PASSES_PAIRED;
    if (kind == TPERF_SCATTER || kind == TPERF_GATHER)
        return measured ? TPERF_PASSES_RING : TPERF_PASSES_ROOTED;
    return measured && kind == TPERF_ALL_REDUCE ? TPERF_PASSES_TREE : TPERF_PASSES_RING;
}

static bool is_measured(const tperf_system *system, tperf_collective kind, tperf_group group,
                        const tperf_link_curve *link) {
    if (kind == TPERF_SEND) return false;
    if (group.size == group.fast) return link->large > 0;
    return system->curves.slow.efficiency > 0 && (link->large > 0 || group.fast == 1);
}

static int axes_of(const tperf_system *system) {
    int count = 0;
    while (count < TPERF_TORUS_AXES && system->network.fast.axes[count] > 0)
        count++;
    return count;
}

// The port bandwidth, in bytes/s, from one GPU to the other q - 1 of its group in the domain: of the links to them in a
// mesh, out of domain - 1, and in a torus, out of two for each axis.
static double port_of(const tperf_system *system, int64_t q, const tperf_block *block) {
    double port = system->network.fast.bandwidth;
    int64_t others = system->network.fast.domain - 1;
    if (block->links > 0) return port * block->links / (2 * axes_of(system));
    return system->network.fast.mesh && q > 1 && others > 0
               ? port * (double)(q - 1) / (double)others
               : port;
}

tperf_exchange tperf_exchange_of(const tperf_system *system, const tperf_rules *rules,
                                 tperf_collective kind, double bytes, tperf_group group) {
    double n = (double)group.size, q = (double)group.fast;
    const tperf_link_curve *link = tperf_link_curve_of(system, kind);
    unsigned reach = group.size == group.fast ? TPERF_INSIDE
                     : group.fast == 1        ? TPERF_LONE
                                              : TPERF_BOTH;
    bool measured = is_measured(system, kind, group, link);
    tperf_block block = {0};
    if (system->network.fast.axes[0] > 0)
        block = tperf_torus_block(system->network.fast.axes, group.fast);
    tperf_exchange e = {
        .system = system,
        .rules = rules,
        .kind = kind,
        .bytes = bytes,
        .group = group,
        .n = n,
        .q = q,
        .g = n / q,
        .block = block,
        .port = port_of(system, group.fast, &block),
        .up = {1, 1, 0, 0},
        .link = link,
        .reach = reach,
        .is = BIT(kind) | reach | (measured ? TPERF_CURVE : TPERF_FORMULA),
    };
    if (system->network.n_tiers > 0)
        e.up = tperf_uplinks_of(system, group, tperf_pattern_of(kind, measured), measured);
    if (measured && reduces(&e) && reach != TPERF_LONE)
        e.stream = tperf_link_stream(link, true, e.port, q, through_fast_port(&e), bytes, &e.adds);
    return e;
}

void tperf_exchange_rings(tperf_exchange *e) {
    if (!reduces(e) || !(e->is & TPERF_CURVE) || e->reach == TPERF_LONE) return;
    e->stream =
        tperf_link_stream(e->link, false, e->port, e->q, through_fast_port(e), e->bytes, NULL);
    e->adds = false;
}

static bool is_first_of_name(const tperf_algorithm *one) {
    for (const tperf_algorithm *a = tperf_algorithms; a < one; a++)
        if (strcmp(a->name, one->name) == 0) return false;
    return true;
}

const char *tperf_algorithm_name(int i) {
    for (const tperf_algorithm *a = tperf_algorithms; a->name; a++)
        if (is_first_of_name(a) && i-- == 0) return a->name;
    return NULL;
}
