// blocks.h: the paged KV cache of a replica: blocks that requests hold, those that are free, and which content is in
// which block. Without prefix caching blocks are counted only.
#ifndef TPERF_SERVE_BLOCKS_H
#define TPERF_SERVE_BLOCKS_H

#include "tperf/serve.h"

// What a block holds with all that stands before it: 128 bits of a hash, so that no two contents are taken for one.
typedef struct tperf_identity {
    uint64_t low, high;
} tperf_identity;

typedef struct tperf_block {
    tperf_identity identity;
    int32_t previous, next; // in the free list
    int32_t before, after;  // in its bucket, by when they were registered
    int32_t owners;
    bool registered;
} tperf_block;

typedef struct tperf_bucket {
    int32_t first, last;
} tperf_bucket;

// Blocks are numbered from 1, and never-used ones leave the free list first, so memory grows with use.
typedef struct tperf_blocks {
    const tperf_heap *heap;
    bool caching;
    int32_t usable; // INT32_MAX: no limit
    int32_t free;
    int32_t fresh;       // blocks from here on were never used
    int32_t first, last; // of the free list behind them; 0: empty
    tperf_block *all;    // [capacity]
    int32_t capacity;
    tperf_bucket *buckets; // [n_buckets], a power of two
    uint32_t n_buckets;
    int32_t *hits; // [n_hits] what the last look-up found
    int32_t n_hits, hits_capacity;
} tperf_blocks;

// The blocks of one request. A zeroed one is empty and may be released.
typedef struct tperf_holding {
    int32_t *ids; // NULL without prefix caching
    int32_t count, capacity;
} tperf_holding;

// The tokens of a request, for identities: the segments of its prompt, then its answer.
typedef struct tperf_content {
    const tperf_segment *segments;
    size_t n_segments;
    int64_t answer;      // its stream
    tperf_segment whole; // of a prompt without segments
} tperf_content;

// All free; keeps its memory, which is the heap's.
void tperf_blocks_reset(tperf_blocks *blocks, const tperf_engine *engine, const tperf_heap *heap);
void tperf_blocks_release(tperf_blocks *blocks);

// Takes count free blocks, which the caller has made sure of.
tperf_status tperf_blocks_take(tperf_blocks *blocks, tperf_holding *holding, int32_t count,
                               tperf_error *error);

// Gives all back, the last one first: it is evicted first.
void tperf_blocks_give_back(tperf_blocks *blocks, tperf_holding *holding);

// Finds the longest cached prefix of whole blocks, at most `most` of them, and keeps it in blocks->hits.
tperf_status tperf_blocks_look_up(tperf_blocks *blocks, const tperf_content *content,
                                  int32_t block_size, int32_t most, tperf_error *error);

// How many of the blocks found are free at the moment.
int32_t tperf_blocks_unowned(const tperf_blocks *blocks);

// Gives the blocks found by the last look-up to the request.
tperf_status tperf_blocks_share(tperf_blocks *blocks, tperf_holding *holding, tperf_error *error);

// Registers the holding's blocks from `from` to `to` - 1: their tokens are known and scheduled.
void tperf_blocks_register(tperf_blocks *blocks, const tperf_holding *holding,
                           const tperf_content *content, int32_t block_size, int32_t from,
                           int32_t to);

// Walks all blocks, the free list and the buckets: whether each is where it should be, once. For ends of
// runs, and builds with assertions.
bool tperf_blocks_sound(const tperf_blocks *blocks);

#endif
