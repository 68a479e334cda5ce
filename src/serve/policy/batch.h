// batch.h: a step's batch while a scheduler puts it together: what all schedulers do alike.
#ifndef TPERF_SERVE_BATCH_H
#define TPERF_SERVE_BATCH_H

#include "serve/replica.h"

typedef struct tperf_batch {
    tperf_replica *replica;
    const tperf_engine *engine;
    int32_t budget;    // tokens
    int32_t lookahead; // slots for drafts to come
    int32_t preempted;
    tperf_error *error;
} tperf_batch;

// The head of the queue as it would be admitted.
typedef struct tperf_candidate {
    tperf_waiter waiter;
    int32_t known,
        cached; // tokens: of prompt and answer so far; of them in the cache, or computed elsewhere
    int32_t output; // tokens of its answer to come
} tperf_candidate;

// The blocks that so many tokens fill, one begun included.
int32_t tperf_batch_blocks(const tperf_engine *engine, int64_t tokens);

// As many tokens as a request may have of those it wants, but for the budget.
int32_t tperf_batch_below_threshold(const tperf_engine *engine, int32_t wanted);

// Takes `tokens` of a running sequence into the batch; its blocks are there.
void tperf_batch_add(tperf_batch *b, tperf_sequence *s, int32_t tokens);

// Gives a running sequence the blocks for its tokens up to `end`, which the caller has made sure of.
tperf_status tperf_batch_extend(tperf_batch *b, tperf_sequence *s, int64_t end);

// Whether somebody waits whom the scheduler knows of: sets *c, and looks up what of it is cached.
tperf_status tperf_batch_next(tperf_batch *b, tperf_candidate *c, bool *any);

// The new blocks that c's first `tokens` uncached tokens need, and all that admitting it takes from the free ones.
int32_t tperf_batch_more(const tperf_batch *b, const tperf_candidate *c, int32_t tokens,
                         int32_t *taken);

// Starts the candidate, the head of the queue, with what is cached of it and `more` new blocks.
tperf_status tperf_batch_admit(tperf_batch *b, const tperf_candidate *c, int32_t more,
                               int32_t tokens);

// Takes the running sequence at `place` out: it loses its blocks, keeps its answer so far, and waits again, in front of
// all others or behind them.
tperf_status tperf_batch_preempt(tperf_batch *b, int32_t place, bool in_front);

// --- the schedulers ---

tperf_status tperf_schedule_vllm_v1(tperf_batch *b);
tperf_status tperf_schedule_sglang(tperf_batch *b);
tperf_status tperf_schedule_tensorrt_llm(tperf_batch *b);

#endif
