// blocks.c: see blocks.h.
#include "serve/blocks.h"

#include <string.h>

#include "base/always.h"

enum { LEAST_BLOCKS = 64 };

tperf_need tperf_blocks_beside(const tperf_engine *engine, int64_t own) {
    const tperf_pooled *p = &engine->pooled;
    if (own == 0 || engine->num_blocks == 0) return (tperf_need){0, 0};
    int64_t windowed = p->windowed * (own < p->window_blocks ? own : p->window_blocks);
    int64_t others = p->whole * own + p->states;
    return p->apart > 0 ? (tperf_need){others, windowed} : (tperf_need){others + windowed, 0};
}

int32_t tperf_blocks_unseen(const tperf_engine *engine, int64_t tokens) {
    int32_t window = engine->pooled.window;
    if (window == 0 || engine->num_blocks == 0 || tokens < window) return 0;
    return (int32_t)((tokens - window + 1) / engine->block_size);
}

bool tperf_blocks_have(const tperf_blocks *blocks, tperf_need need) {
    return need.pool <= blocks->free && need.apart <= blocks->apart;
}

void tperf_blocks_reset(tperf_blocks *blocks, const tperf_engine *engine, bool caching,
                        const tperf_heap *heap) {
    blocks->heap = heap;
    blocks->caching = caching;
    blocks->usable = engine->num_blocks > 0 ? engine->num_blocks - 1 : INT32_MAX;
    blocks->free = blocks->usable;
    blocks->apart = engine->pooled.apart;
    blocks->fresh = 1;
    blocks->first = blocks->last = 0;
    blocks->n_hits = 0;
    if (blocks->n_buckets) memset(blocks->buckets, 0, blocks->n_buckets * sizeof *blocks->buckets);
}

void tperf_blocks_release(tperf_blocks *blocks) {
    tperf_heap_free(blocks->all);
    tperf_heap_free(blocks->buckets);
    tperf_heap_free(blocks->hits);
    *blocks = (tperf_blocks){0};
}

// --- lookup by content ---

static tperf_bucket *bucket_of(const tperf_blocks *blocks, tperf_identity identity) {
    return &blocks->buckets[identity.low & (blocks->n_buckets - 1)];
}

static void append(tperf_blocks *blocks, tperf_bucket *bucket, int32_t id) {
    tperf_block *block = &blocks->all[id];
    block->before = bucket->last;
    block->after = 0;
    if (bucket->last)
        blocks->all[bucket->last].after = id;
    else
        bucket->first = id;
    bucket->last = id;
}

static void unregister(tperf_blocks *blocks, int32_t id) {
    tperf_block *block = &blocks->all[id];
    if (!block->registered) return;
    tperf_bucket *bucket = bucket_of(blocks, block->identity);
    if (block->before)
        blocks->all[block->before].after = block->after;
    else
        bucket->first = block->after;
    if (block->after)
        blocks->all[block->after].before = block->before;
    else
        bucket->last = block->before;
    block->registered = false;
}

// The first registered block with this content; 0: none.
static int32_t find(const tperf_blocks *blocks, tperf_identity identity) {
    if (!blocks->n_buckets) return 0;
    int32_t id = bucket_of(blocks, identity)->first;
    while (id && (blocks->all[id].identity.low != identity.low ||
                  blocks->all[id].identity.high != identity.high))
        id = blocks->all[id].after;
    return id;
}

// Doubles the room. Blocks with equal content keep the order in which they were registered.
static tperf_status grow(tperf_blocks *blocks, tperf_error *error) {
    int32_t capacity = blocks->capacity ? blocks->capacity : LEAST_BLOCKS / 2;
    capacity = capacity > INT32_MAX / 2 ? INT32_MAX : 2 * capacity;
    uint32_t n_buckets = blocks->n_buckets ? 2 * blocks->n_buckets : LEAST_BLOCKS;
    tperf_block *all = tperf_heap_grow(blocks->heap, blocks->all, (size_t)capacity, sizeof *all);
    if (all) blocks->all = all;
    tperf_bucket *buckets =
        all ? tperf_heap_zeroed(blocks->heap, n_buckets, sizeof *buckets) : NULL;
    if (!buckets)
        return tperf_error_set(error, TPERF_NO_MEMORY,
                               "not enough memory for the blocks of a KV cache");
    tperf_bucket *old = blocks->buckets;
    uint32_t n_old = blocks->n_buckets;
    blocks->buckets = buckets;
    blocks->n_buckets = n_buckets;
    blocks->capacity = capacity;
    for (uint32_t i = 0; i < n_old; i++)
        for (int32_t id = old[i].first, next; id; id = next) {
            next = all[id].after;
            append(blocks, bucket_of(blocks, all[id].identity), id);
        }
    tperf_heap_free(old);
    return TPERF_OK;
}

// --- identities ---

static uint64_t mix(uint64_t x) { // the finalizer of SplitMix64
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9U;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

static tperf_identity extend(tperf_identity identity, uint64_t word) {
    identity.low = mix(identity.low + 0x9e3779b97f4a7c15U + word);
    identity.high = mix((identity.high ^ word * 0xd6e8feb86659fd93U) + 0x632be59bd9b4e019U);
    return identity;
}

// The position of a block in a request's tokens.
typedef struct place {
    size_t segment; // n_segments: in the answer
    int32_t offset;
} place;

static place place_of(const tperf_content *content, int32_t prompt_position) {
    place at = {0, prompt_position};
    while (at.segment < content->n_segments && at.offset >= content->segments[at.segment].tokens)
        at.offset -= content->segments[at.segment++].tokens;
    return at;
}

// The identity of the block of `tokens` tokens at *at, given its prefix `parent`; advances *at. A block is identified
// by the runs of consecutive tokens of a stream in it; a segment starts at its stream's beginning, so runs are never
// split.
static tperf_identity next_identity(const tperf_content *content, place *at, tperf_identity parent,
                                    int32_t tokens) {
    while (tokens > 0) {
        bool in_prompt = at->segment < content->n_segments;
        int32_t left = in_prompt ? content->segments[at->segment].tokens - at->offset : tokens;
        int32_t run = left < tokens ? left : tokens;
        int64_t stream = in_prompt ? content->segments[at->segment].stream : content->answer;
        parent = extend(parent, (uint64_t)stream);
        parent = extend(parent, (uint64_t)(uint32_t)at->offset << 32 | (uint32_t)run);
        at->offset += run;
        tokens -= run;
        if (in_prompt && run == left) *at = (place){at->segment + 1, 0};
    }
    return parent;
}

// --- the free list ---

static void unlink_free(tperf_blocks *blocks, int32_t id) {
    tperf_block *block = &blocks->all[id];
    if (block->previous)
        blocks->all[block->previous].next = block->next;
    else
        blocks->first = block->next;
    if (block->next)
        blocks->all[block->next].previous = block->previous;
    else
        blocks->last = block->previous;
    blocks->free--;
}

static void link_free(tperf_blocks *blocks, int32_t id) {
    tperf_block *block = &blocks->all[id];
    block->previous = blocks->last;
    block->next = 0;
    if (blocks->last)
        blocks->all[blocks->last].next = id;
    else
        blocks->first = id;
    blocks->last = id;
    blocks->free++;
}

// Takes the first block of the free list, and forgets its content.
static int32_t take_one(tperf_blocks *blocks) {
    int32_t id = blocks->fresh;
    if (id <= blocks->usable) {
        blocks->fresh++;
        blocks->free--;
        blocks->all[id].registered = false;
    } else {
        id = blocks->first;
        unlink_free(blocks, id);
        unregister(blocks, id);
    }
    blocks->all[id].owners = 1;
    return id;
}

// --- a request's blocks ---

static tperf_status hold_more(const tperf_blocks *blocks, tperf_holding *holding, int32_t count,
                              tperf_error *error) {
    if (holding->count + count <= holding->capacity) return TPERF_OK;
    int64_t capacity = (int64_t)(holding->count + count) * 3 / 2 + 8;
    int32_t *ids = tperf_heap_grow(blocks->heap, holding->ids, (size_t)capacity, sizeof *ids);
    if (!ids)
        return tperf_error_set(error, TPERF_NO_MEMORY,
                               "not enough memory for the blocks of a request");
    holding->ids = ids;
    holding->capacity = (int32_t)capacity;
    return TPERF_OK;
}

// Room for `count` blocks more that have never been used, or for all that there are.
static tperf_status make_room(tperf_blocks *blocks, int32_t count, tperf_error *error) {
    while (blocks->fresh <= blocks->usable && blocks->capacity - blocks->fresh < count &&
           blocks->capacity <= blocks->usable)
        TPERF_TRY(grow(blocks, error));
    return TPERF_OK;
}

tperf_status tperf_blocks_take(tperf_blocks *blocks, tperf_holding *holding, int32_t count,
                               tperf_error *error) {
    if (!blocks->caching) {
        holding->count += count;
        if (blocks->usable < INT32_MAX) blocks->free -= count;
        return TPERF_OK;
    }
    TPERF_TRY(hold_more(blocks, holding, count, error));
    TPERF_TRY(make_room(blocks, count, error));
    for (int32_t i = 0; i < count; i++)
        holding->ids[holding->count++] = take_one(blocks);
    return TPERF_OK;
}

tperf_status tperf_blocks_number(tperf_blocks *blocks, tperf_holding *holding, tperf_error *error) {
    int32_t held = holding->count - holding->gone;
    if (held <= 0) return TPERF_OK;
    TPERF_TRY(hold_more(blocks, holding, 0, error));
    TPERF_TRY(make_room(blocks, held, error));
    for (int32_t i = holding->gone; i < holding->count; i++)
        holding->ids[i] = take_one(blocks);
    blocks->free += held; // they were counted when they were taken
    return TPERF_OK;
}

// Returns the blocks from `from` to `end` - 1, the last one first.
static void give(tperf_blocks *blocks, const tperf_holding *holding, int32_t from, int32_t end) {
    if (!blocks->caching && blocks->usable < INT32_MAX && from < end) blocks->free += end - from;
    while (blocks->caching && end > from) {
        int32_t id = holding->ids[--end];
        if (--blocks->all[id].owners == 0) link_free(blocks, id);
    }
}

void tperf_blocks_give_front(tperf_blocks *blocks, tperf_holding *holding, int32_t end) {
    if (end <= holding->gone) return;
    give(blocks, holding, holding->gone, end);
    holding->gone = end;
}

void tperf_blocks_give_back(tperf_blocks *blocks, tperf_holding *holding) {
    give(blocks, holding, holding->gone, holding->count);
    holding->count = holding->gone = 0;
}

tperf_status tperf_blocks_look_up(tperf_blocks *blocks, const tperf_content *content,
                                  int32_t block_size, int32_t most, tperf_error *error) {
    place at = {0, 0};
    tperf_identity identity = {0, 0};
    blocks->n_hits = 0;
    while (blocks->n_hits < most) {
        identity = next_identity(content, &at, identity, block_size);
        int32_t id = find(blocks, identity);
        if (!id) break;
        if (blocks->n_hits == blocks->hits_capacity) {
            int32_t capacity = 2 * blocks->hits_capacity + 64;
            int32_t *hits =
                tperf_heap_grow(blocks->heap, blocks->hits, (size_t)capacity, sizeof *hits);
            if (!hits)
                return tperf_error_set(error, TPERF_NO_MEMORY,
                                       "not enough memory for cached blocks");
            blocks->hits = hits;
            blocks->hits_capacity = capacity;
        }
        blocks->hits[blocks->n_hits++] = id;
    }
    return TPERF_OK;
}

int32_t tperf_blocks_unowned(const tperf_blocks *blocks, int32_t from) {
    int32_t count = 0;
    for (int32_t i = from; i < blocks->n_hits; i++)
        count += blocks->all[blocks->hits[i]].owners == 0;
    return count;
}

tperf_status tperf_blocks_share(tperf_blocks *blocks, tperf_holding *holding, int32_t from,
                                tperf_error *error) {
    int32_t n = blocks->n_hits > from ? blocks->n_hits : from;
    if (blocks->caching) TPERF_TRY(hold_more(blocks, holding, n, error));
    for (int32_t i = from; i < blocks->n_hits; i++) {
        int32_t id = holding->ids[i] = blocks->hits[i];
        if (blocks->all[id].owners++ == 0) unlink_free(blocks, id);
    }
    holding->count = n;
    holding->gone = from;
    return TPERF_OK;
}

void tperf_blocks_register(tperf_blocks *blocks, const tperf_holding *holding,
                           const tperf_content *content, int32_t block_size, int32_t from,
                           int32_t to) {
    if (from >= to) return;
    place at = place_of(content, from * block_size);
    tperf_identity identity = {0, 0};
    if (from > 0) identity = blocks->all[holding->ids[from - 1]].identity;
    for (int32_t i = from; i < to; i++) {
        tperf_block *block = &blocks->all[holding->ids[i]];
        identity = next_identity(content, &at, identity, block_size);
        block->identity = identity;
        block->registered = true;
        append(blocks, bucket_of(blocks, identity), holding->ids[i]);
    }
}

bool tperf_blocks_sound(const tperf_blocks *blocks) {
    if (!blocks->caching) return ALWAYS(blocks->free >= 0 && blocks->free <= blocks->usable);
    int32_t used = blocks->fresh - 1, listed = 0, owned = 0, registered = 0, found = 0;
    for (int32_t id = blocks->first; id && ALWAYS(listed <= used); id = blocks->all[id].next)
        listed++;
    for (int32_t id = 1; id < blocks->fresh; id++) {
        owned += blocks->all[id].owners > 0;
        registered += blocks->all[id].registered;
    }
    for (uint32_t i = 0; i < blocks->n_buckets; i++)
        for (int32_t id = blocks->buckets[i].first; id && ALWAYS(found <= used);
             id = blocks->all[id].after)
            found++;
    return ALWAYS(listed + owned == used && found == registered &&
                  blocks->free == blocks->usable - owned);
}
