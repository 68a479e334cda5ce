// prices.c: see prices.h.
#include "search/prices.h"

#include <string.h>

enum { SLOTS = 4096, OPS = 8192, FULL = SLOTS / 4 * 3 }; // 2.8 MiB

static bool make_room(tperf_prices *p, const tperf_heap *heap, size_t n_parts) {
    if (!p->slots) p->slots = tperf_heap_zeroed(heap, SLOTS, sizeof *p->slots);
    if (!p->ops) p->ops = tperf_heap_new(heap, OPS, sizeof *p->ops);
    if (!p->works) p->works = tperf_heap_new(heap, OPS, sizeof *p->works);
    if (!p->slots || !p->ops || !p->works) return false;
    if (n_parts <= p->parts_capacity) return true;
    const tperf_op_price **parts = tperf_heap_grow(heap, p->parts, n_parts, sizeof *parts);
    if (!parts) return false;
    p->parts = parts;
    p->parts_capacity = n_parts;
    return true;
}

static void forget(tperf_prices *p) {
    memset(p->slots, 0, SLOTS * sizeof *p->slots);
    p->n_slots = p->n_ops = p->n_works = 0;
}

static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

// The slot of a key, or the free one for it.
static tperf_price_slot *slot_of(tperf_prices *p, const tperf_price_key *key) {
    uint64_t hash = mixed(mixed(key->block, key->system), (uint64_t)key->panels);
    for (int i = 0; i < TPERF_AXES_MAX; i++)
        if (key->fast[i]) hash = mixed(hash, (uint64_t)key->fast[i] + (uint64_t)i * TPERF_AXES_MAX);
    for (size_t i = hash % SLOTS;; i = (i + 1) % SLOTS) {
        tperf_price_slot *slot = &p->slots[i];
        if (!slot->key.block || memcmp(&slot->key, key, sizeof *key) == 0) return slot;
    }
}

// What no placement changes of a part's ops.
static const tperf_op_work *works_of_part(tperf_prices *p, const tperf_block_part *part,
                                          const tperf_op *const *ops, size_t n,
                                          const tperf_platform *on, int64_t panels) {
    tperf_price_key key = {.block = part->id, .system = (uintptr_t)on->system, .fast = {panels}};
    tperf_price_slot *slot = slot_of(p, &key);
    if (slot->key.block) return slot->works;
    tperf_op_work *works = &p->works[p->n_works];
    for (size_t i = 0; i < n; i++)
        works[i] = tperf_op_work_of(ops[i], on, panels);
    *slot = (tperf_price_slot){key, NULL, works};
    p->n_slots++;
    p->n_works += n;
    return works;
}

static const tperf_op_price *prices_of_part(tperf_prices *p, const tperf_workload *workload,
                                            const tperf_block_part *part, size_t begin,
                                            const tperf_platform *on,
                                            const tperf_placement *placement) {
    tperf_price_key key = {
        .block = part->id, .system = (uintptr_t)on->system, .panels = placement->panels};
    for (int i = TPERF_AXIS_OWN; i < workload->grid.n; i++)
        if (part->axes >> i & 1) key.fast[i] = placement->fast[i];
    tperf_price_slot *slot = slot_of(p, &key);
    if (slot->key.block) return slot->prices;
    const tperf_op *const *ops = &workload->ops[begin];
    size_t n = part->end - begin;
    const tperf_op_work *works = works_of_part(p, part, ops, n, on, placement->panels);
    tperf_op_price *prices = &p->ops[p->n_ops];
    for (size_t i = 0; i < n; i++)
        prices[i] = tperf_op_price_of(ops[i], &works[i], on, workload->sizes, placement);
    slot = slot_of(p, &key); // another free one if the works took the first
    *slot = (tperf_price_slot){key, prices, NULL};
    p->n_slots++;
    p->n_ops += n;
    return prices;
}

bool tperf_prices_hold(const tperf_workload *workload) {
    return workload->n_ops <= OPS && 2 * workload->n_parts <= FULL;
}

const tperf_op_price *const *tperf_prices_of(tperf_prices *prices, const tperf_heap *heap,
                                             const tperf_workload *workload,
                                             const tperf_platform *on,
                                             const tperf_placement *placement) {
    if (!make_room(prices, heap, workload->n_parts)) return NULL;
    if (prices->n_ops + workload->n_ops > OPS || prices->n_works + workload->n_ops > OPS ||
        prices->n_slots + 2 * workload->n_parts > FULL)
        forget(prices);
    size_t begin = 0;
    for (size_t i = 0; i < workload->n_parts; begin = workload->parts[i++].end)
        prices->parts[i] =
            prices_of_part(prices, workload, &workload->parts[i], begin, on, placement);
    return prices->parts;
}

void tperf_prices_release(tperf_prices *prices) {
    tperf_heap_free(prices->slots);
    tperf_heap_free(prices->ops);
    tperf_heap_free(prices->works);
    tperf_heap_free(prices->parts);
}
