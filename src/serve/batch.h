// batch.h: a step's batch under construction: operations shared by all schedulers.
#ifndef TPERF_SERVE_BATCH_H
#define TPERF_SERVE_BATCH_H

#include "serve/replica.h"

struct tperf_batch {
    tperf_replica *replica;
    const tperf_engine *engine;
    int32_t budget;    // tokens
    int32_t lookahead; // slots for future drafts
    int32_t preempted;
    tperf_error *error;
};

// The head of the queue, a candidate for admission.
typedef struct tperf_candidate {
    tperf_waiter waiter;
    // Tokens of prompt and answer so far; of them in the cache, or computed in the other pool.
    int32_t known, cached;
    int32_t output; // remaining tokens of its answer
} tperf_candidate;

// The number of blocks that `tokens` tokens occupy, rounded up.
int32_t tperf_batch_blocks(const tperf_engine *engine, int64_t tokens);

// The wanted tokens limited by the engine's per-request threshold, not by the budget.
int32_t tperf_batch_below_threshold(const tperf_engine *engine, int32_t wanted);

// Adds `tokens` tokens of a running sequence to the batch; it must have their blocks.
void tperf_batch_add(tperf_batch *b, tperf_sequence *s, int32_t tokens);

// The blocks that a running sequence lacks for its tokens up to `end`.
tperf_need tperf_batch_lacks(const tperf_batch *b, const tperf_sequence *s, int64_t end);

// Takes them; the caller has checked that they are free.
tperf_status tperf_batch_extend(tperf_batch *b, tperf_sequence *s, int64_t end);

// *any: whether a request known to the scheduler waits; if so fills *c and looks up its cached prefix.
tperf_status tperf_batch_next(tperf_batch *b, tperf_candidate *c, bool *any);

// The new blocks for c's first `tokens` uncached tokens; *taken: all blocks that its admission takes from the free
// ones.
int32_t tperf_batch_more(const tperf_batch *b, const tperf_candidate *c, int32_t tokens,
                         tperf_need *taken);

// Admits the candidate at the head of the queue, with its cached blocks and `more` new ones.
tperf_status tperf_batch_admit(tperf_batch *b, const tperf_candidate *c, int32_t more,
                               int32_t tokens);

// Preempts the running sequence at `place`: it loses its blocks, keeps its answer so far, and waits again, before or
// after all others.
tperf_status tperf_batch_preempt(tperf_batch *b, int32_t place, bool in_front);

#endif
