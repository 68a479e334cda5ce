// prices.c: see prices.h.
#include "search/prices.h"

#include <string.h>

enum { SLOTS = 4096, OPS = 8192, FULL = SLOTS / 4 * 3 }; // 6 MiB

static bool make_room(tperf_prices *p, const tperf_heap *heap, size_t n_parts) {
    if (!p->slots) p->slots = tperf_heap_zeroed(heap, SLOTS, sizeof *p->slots);
    if (!p->known) p->known = tperf_heap_new(heap, FULL, sizeof *p->known);
    if (!p->blocks) p->blocks = tperf_heap_new(heap, FULL, sizeof *p->blocks);
    if (!p->bases) p->bases = tperf_heap_new(heap, OPS, sizeof *p->bases);
    if (!p->slots || !p->known || !p->blocks || !p->bases) return false;
    if (n_parts <= p->parts_capacity) return true;
    const tperf_either_price **parts = tperf_heap_grow(heap, p->parts, n_parts, sizeof *parts);
    if (!parts) return false;
    p->parts = parts;
    p->parts_capacity = n_parts;
    return true;
}

static void forget(tperf_prices *p) {
    memset(p->slots, 0, SLOTS * sizeof *p->slots);
    p->n_known = p->n_blocks = p->n_bases = 0;
}

static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

_Static_assert(FULL <= UINT16_MAX, "slots hold the numbers of known prices");

// What is known of a key; *is_new: nothing yet, and `first` is the caller's to set.
static tperf_known_price *known_of(tperf_prices *p, const tperf_price_key *key, uint64_t hash,
                                   bool *is_new) {
    size_t i = hash % SLOTS;
    for (*is_new = false; p->slots[i] != 0; i = (i + 1) % SLOTS) {
        tperf_known_price *one = &p->known[p->slots[i] - 1];
        if (memcmp(&one->key, key, sizeof *key) == 0) return one;
    }
    *is_new = true;
    tperf_known_price *one = &p->known[p->n_known++];
    one->key = *key;
    p->slots[i] = (uint16_t)p->n_known;
    return one;
}

// The ops of a part of a workload, on a platform and in a placement.
typedef struct placed_part {
    const tperf_workload *workload;
    size_t begin, end;
    const tperf_platform *on;
    const tperf_placement *placement;
} placed_part;

static const tperf_base *bases_of_part(tperf_prices *p, const placed_part *part,
                                       tperf_price_key key) {
    memset(key.fast, 0, sizeof key.fast);
    key.placed = 0;
    uint64_t hash = mixed(mixed(key.block, key.system), (uint64_t)key.panels);
    bool is_new;
    tperf_known_price *known = known_of(p, &key, hash, &is_new);
    if (!is_new) return &p->bases[known->first];
    known->first = p->n_bases;
    for (size_t i = part->begin; i < part->end; i++) {
        const tperf_op *op = part->workload->ops[i];
        tperf_base *base = &p->bases[p->n_bases++];
        tperf_op_work work = tperf_op_work_of(op, part->on, key.panels);
        base->price = tperf_op_price_of(op, &work, part->on);
        base->communicates = op->forward.n_comms > 0 || op->backward.n_comms > 0;
        if (!base->communicates)
            tperf_op_price_place(&base->price, op, part->on, part->workload->sizes,
                                 part->placement);
    }
    return &p->bases[known->first];
}

static void price_block(tperf_either_price *block, const placed_part *part,
                        const tperf_base *bases) {
    const tperf_workload *workload = part->workload;
    size_t begin = part->begin, end = part->end;
    block->outside = (tperf_block_price){0};
    block->exchanging = false;
    for (size_t i = begin; i < end; i++)
        block->exchanging = block->exchanging || bases[i - begin].price.exchanging;
    if (block->exchanging) block->inside = (tperf_block_price){.inside = true};
    for (size_t i = begin; i < end; i++, bases++) {
        const tperf_op_price *price = &bases->price;
        tperf_op_price placed;
        if (bases->communicates) {
            placed = bases->price;
            tperf_op_price_place(&placed, workload->ops[i], part->on, workload->sizes,
                                 part->placement);
            price = &placed;
        }
        tperf_block_price_add(&block->outside, price);
        if (block->exchanging) tperf_block_price_add(&block->inside, price);
    }
}

enum { REST = 31 }; // bits of a part: more GPUs are refused

// How the axes of a mask lie over domains.
static uint64_t add_spread(tperf_price_key *key, uint64_t hash, unsigned axes,
                           const tperf_workload *workload, const tperf_placement *placement) {
    for (int i = 0; i < workload->grid.n; i++) {
        if (!(axes >> i & 1)) continue;
        int64_t part = placement->fast[i], rest = workload->sizes[i] / part;
        key->fast[i] = part | rest << REST;
        hash = mixed(hash, (uint64_t)key->fast[i]);
    }
    return hash;
}

static const tperf_either_price *price_of_part(tperf_prices *p, const tperf_workload *workload,
                                               const tperf_block_part *part, size_t begin,
                                               const tperf_platform *on,
                                               const tperf_placement *placement) {
    tperf_price_key key = {.block = part->id,
                           .system = (uintptr_t)on->system,
                           .panels = placement->panels,
                           .placed = 1};
    uint64_t hash = mixed(mixed(mixed(key.block, key.system), (uint64_t)key.panels), 1);
    for (int i = 0; i < workload->grid.n; i++)
        if (part->axes >> i & 1) {
            key.fast[i] = placement->fast[i];
            hash = mixed(hash, (uint64_t)placement->fast[i]);
        }
    if (on->system->network.n_tiers > 0)
        hash = add_spread(&key, hash, part->axes | part->inward, workload, placement);
    bool is_new;
    tperf_known_price *known = known_of(p, &key, hash, &is_new);
    if (!is_new) return &p->blocks[known->first];
    known->first = p->n_blocks;
    const placed_part ops = {workload, begin, part->end, on, placement};
    const tperf_base *bases = bases_of_part(p, &ops, key);
    tperf_either_price *block = &p->blocks[p->n_blocks++];
    price_block(block, &ops, bases);
    return block;
}

bool tperf_prices_hold(const tperf_workload *workload) {
    return workload->n_ops <= OPS && 2 * workload->n_parts <= FULL;
}

const tperf_either_price *const *tperf_prices_of(tperf_prices *prices, const tperf_heap *heap,
                                                 const tperf_workload *workload,
                                                 const tperf_platform *on,
                                                 const tperf_placement *placement) {
    if (!make_room(prices, heap, workload->n_parts)) return NULL;
    if (prices->n_bases + workload->n_ops > OPS || prices->n_known + 2 * workload->n_parts > FULL)
        forget(prices);
    size_t begin = 0;
    for (size_t i = 0; i < workload->n_parts; begin = workload->parts[i++].end)
        prices->parts[i] =
            price_of_part(prices, workload, &workload->parts[i], begin, on, placement);
    return prices->parts;
}

void tperf_prices_release(tperf_prices *prices) {
    tperf_heap_free(prices->slots);
    tperf_heap_free(prices->known);
    tperf_heap_free(prices->blocks);
    tperf_heap_free(prices->bases);
    tperf_heap_free(prices->parts);
}
