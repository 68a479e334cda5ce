// batch.h: a step's batch while a scheduler puts it together: what all schedulers do alike.
#ifndef TPERF_SERVE_BATCH_H
#define TPERF_SERVE_BATCH_H

#include "serve/replica.h"

typedef struct tp_batch {
    tp_replica *replica;
    const tp_engine *engine;
    int32_t budget;    // tokens
    int32_t lookahead; // slots for drafts to come
    int32_t preempted;
    tp_error *error;
} tp_batch;

// The head of the queue as it would be admitted.
typedef struct tp_candidate {
    tp_waiter waiter;
    int32_t known,
        cached; // tokens: of prompt and answer so far; of them in the cache, or computed elsewhere
    int32_t output; // tokens of its answer to come
} tp_candidate;

// The blocks that so many tokens fill, one begun included.
int32_t tp_batch_blocks(const tp_engine *engine, int64_t tokens);

// As many tokens as a request may have of those it wants, but for the budget.
int32_t tp_batch_below_threshold(const tp_engine *engine, int32_t wanted);

// Takes `tokens` of a running sequence into the batch; its blocks are there.
void tp_batch_add(tp_batch *b, tp_sequence *s, int32_t tokens);

// Gives a running sequence the blocks for its tokens up to `end`, which the caller has made sure of.
tp_status tp_batch_extend(tp_batch *b, tp_sequence *s, int64_t end);

// Whether somebody waits whom the scheduler knows of: sets *c, and looks up what of it is cached.
tp_status tp_batch_next(tp_batch *b, tp_candidate *c, bool *any);

// The new blocks that c's first `tokens` uncached tokens need, and all that admitting it takes from the free ones.
int32_t tp_batch_more(const tp_batch *b, const tp_candidate *c, int32_t tokens, int32_t *taken);

// Starts the candidate, the head of the queue, with what is cached of it and `more` new blocks.
tp_status tp_batch_admit(tp_batch *b, const tp_candidate *c, int32_t more, int32_t tokens);

// Takes the running sequence at `place` out: it loses its blocks, keeps its answer so far, and waits again, in front of
// all others or behind them.
tp_status tp_batch_preempt(tp_batch *b, int32_t place, bool in_front);

// --- the schedulers ---

tp_status tp_schedule_vllm_v1(tp_batch *b);
tp_status tp_schedule_sglang(tp_batch *b);
tp_status tp_schedule_tensorrt_llm(tp_batch *b);

#endif
