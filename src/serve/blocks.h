// blocks.h: the paged KV cache of a replica: blocks that requests hold, those that are free, and which content is in
// which block. Without prefix caching blocks are counted only.
#ifndef TPERF_SERVE_BLOCKS_H
#define TPERF_SERVE_BLOCKS_H

#include "tperf/serve.h"

// What a block holds with all that stands before it: 128 bits of a hash, so that no two contents are taken for one.
typedef struct tp_identity {
    uint64_t low, high;
} tp_identity;

typedef struct tp_block {
    tp_identity identity;
    int32_t previous, next; // in the free list
    int32_t before, after;  // in its bucket, by when they were registered
    int32_t owners;
    bool registered;
} tp_block;

typedef struct tp_bucket {
    int32_t first, last;
} tp_bucket;

// Blocks are numbered from 1, and never-used ones leave the free list first, so memory grows with use.
typedef struct tp_blocks {
    const tp_heap *heap;
    bool caching;
    int32_t usable; // INT32_MAX: no limit
    int32_t free;
    int32_t fresh;       // blocks from here on were never used
    int32_t first, last; // of the free list behind them; 0: empty
    tp_block *all;       // [capacity]
    int32_t capacity;
    tp_bucket *buckets; // [n_buckets], a power of two
    uint32_t n_buckets;
    int32_t *hits; // [n_hits] what the last look-up found
    int32_t n_hits, hits_capacity;
} tp_blocks;

// The blocks of one request. A zeroed one is empty and may be released.
typedef struct tp_holding {
    int32_t *ids; // NULL without prefix caching
    int32_t count, capacity;
} tp_holding;

// The tokens of a request, for identities: the segments of its prompt, then its answer.
typedef struct tp_content {
    const tp_segment *segments;
    size_t n_segments;
    int64_t answer;   // its stream
    tp_segment whole; // of a prompt without segments
} tp_content;

// All free; keeps its memory, which is the heap's.
void tp_blocks_reset(tp_blocks *blocks, const tp_engine *engine, const tp_heap *heap);
void tp_blocks_release(tp_blocks *blocks);

// Takes count free blocks, which the caller has made sure of.
tp_status tp_blocks_take(tp_blocks *blocks, tp_holding *holding, int32_t count, tp_error *error);

// Gives all back, the last one first: it is evicted first.
void tp_blocks_give_back(tp_blocks *blocks, tp_holding *holding);

// Finds the longest cached prefix of whole blocks, at most `most` of them, and keeps it in blocks->hits.
tp_status tp_blocks_look_up(tp_blocks *blocks, const tp_content *content, int32_t block_size,
                            int32_t most, tp_error *error);

// How many of the blocks found are free at the moment.
int32_t tp_blocks_unowned(const tp_blocks *blocks);

// Gives the blocks found by the last look-up to the request.
tp_status tp_blocks_share(tp_blocks *blocks, tp_holding *holding, tp_error *error);

// Registers the holding's blocks from `from` to `to` - 1: their tokens are known and scheduled.
void tp_blocks_register(tp_blocks *blocks, const tp_holding *holding, const tp_content *content,
                        int32_t block_size, int32_t from, int32_t to);

// Walks all blocks, the free list and the buckets: whether each is where it should be, once. For ends of
// runs, and builds with assertions.
bool tp_blocks_sound(const tp_blocks *blocks);

#endif
