// blocks.h: the paged KV cache of a replica: blocks held by requests, free blocks, and a lookup by content. Blocks are
// only counted without prefix caching, and as long as no block has content that a request may ask for: requests that
// share nothing ask for their own, once one of them is preempted.
#ifndef TPERF_SERVE_BLOCKS_H
#define TPERF_SERVE_BLOCKS_H

#include "tperf/serve.h"

// Identifies a block's content and everything before it by a 128-bit hash, so that collisions need not be considered.
typedef struct tperf_identity {
    uint64_t low, high;
} tperf_identity;

typedef struct tperf_block {
    tperf_identity identity;
    int32_t previous, next; // in the free list
    int32_t before, after;  // in its bucket, in order of registration
    int32_t owners;
    bool registered;
} tperf_block;

typedef struct tperf_bucket {
    int32_t first, last;
} tperf_bucket;

// Blocks are numbered from 1. Never-used blocks leave the free list first, so memory grows with use.
typedef struct tperf_blocks {
    const tperf_heap *heap;
    bool caching;   // blocks have numbers, and those with content are found by it
    int32_t usable; // INT32_MAX: no limit
    int32_t free;
    int32_t apart;       // free blocks of the windowed groups' own pool
    int32_t fresh;       // blocks from here on have never been used
    int32_t first, last; // of the list of used free blocks; 0: empty
    tperf_block *all;    // [capacity]
    int32_t capacity;
    tperf_bucket *buckets; // [n_buckets], a power of two
    uint32_t n_buckets;
    int32_t *hits; // [n_hits] found by the last look-up
    int32_t n_hits, hits_capacity;
} tperf_blocks;

// The blocks of one request. Empty if zeroed; may then be released.
typedef struct tperf_holding {
    int32_t *ids; // of blocks that have numbers
    int32_t count, capacity;
    int32_t gone; // blocks in front that no layer sees any more, and that are given back
} tperf_holding;

// Blocks that something needs: of the pool, and of the windowed groups' own.
typedef struct tperf_need {
    int64_t pool, apart;
} tperf_need;

// The tokens of a request, to derive identities: the segments of its prompt, then its answer.
typedef struct tperf_content {
    const tperf_segment *segments;
    size_t n_segments;
    int64_t answer;      // its stream
    tperf_segment whole; // a prompt without segments
} tperf_content;

// The blocks of the groups beside the first of a request that has `own` blocks for its tokens; none without a limit.
tperf_need tperf_blocks_beside(const tperf_engine *engine, int64_t own);

// The blocks in front of `tokens` computed tokens that no layer of the first group sees any more.
int32_t tperf_blocks_unseen(const tperf_engine *engine, int64_t tokens);

// Whether so many are free.
bool tperf_blocks_have(const tperf_blocks *blocks, tperf_need need);

// Frees all blocks; keeps the memory, allocated from the heap. caching: blocks have numbers from the start.
void tperf_blocks_reset(tperf_blocks *blocks, const tperf_engine *engine, bool caching,
                        const tperf_heap *heap);

// Gives the blocks of a request numbers, which were counted so far. Done for all requests before any content is
// registered, it is as if all blocks had had numbers from the start: those without content are all alike.
tperf_status tperf_blocks_number(tperf_blocks *blocks, tperf_holding *holding, tperf_error *error);
void tperf_blocks_release(tperf_blocks *blocks);

// Takes `count` blocks; the caller has checked that as many are free.
tperf_status tperf_blocks_take(tperf_blocks *blocks, tperf_holding *holding, int32_t count,
                               tperf_error *error);

// Returns the blocks before `end`, the last of them first.
void tperf_blocks_give_front(tperf_blocks *blocks, tperf_holding *holding, int32_t end);

// Returns all blocks, the last one first, so that it is evicted first.
void tperf_blocks_give_back(tperf_blocks *blocks, tperf_holding *holding);

// Finds the longest cached prefix of whole blocks, at most `most`, and stores it in blocks->hits.
tperf_status tperf_blocks_look_up(tperf_blocks *blocks, const tperf_content *content,
                                  int32_t block_size, int32_t most, tperf_error *error);

// The number of hits from number `from` on that are currently free.
int32_t tperf_blocks_unowned(const tperf_blocks *blocks, int32_t from);

// Adds the last look-up's hits to the request's blocks; those before `from`, hits or not, are gone.
tperf_status tperf_blocks_share(tperf_blocks *blocks, tperf_holding *holding, int32_t from,
                                tperf_error *error);

// Registers the holding's blocks from `from` to `to` - 1, whose tokens are known and scheduled.
void tperf_blocks_register(tperf_blocks *blocks, const tperf_holding *holding,
                           const tperf_content *content, int32_t block_size, int32_t from,
                           int32_t to);

// Checks all blocks, the free list and the buckets for consistency. Called at the end of a run and,
// in builds with assertions, every few steps.
bool tperf_blocks_sound(const tperf_blocks *blocks);

#endif
