// batch.c: see batch.h.
#include "serve/batch.h"

#include <string.h>

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

int32_t tp_batch_blocks(const tp_engine *engine, int64_t tokens) {
    if (tokens > engine->max_model_len) tokens = engine->max_model_len;
    return (int32_t)((tokens + engine->block_size - 1) / engine->block_size);
}

int32_t tp_batch_below_threshold(const tp_engine *engine, int32_t wanted) {
    int32_t threshold = engine->long_prefill_token_threshold;
    return threshold > 0 ? least(wanted, threshold) : wanted;
}

// --- the prefix cache ---

// Tells the prefix cache of the full blocks of the sequence's cacheable tokens.
static void register_blocks(tp_replica *replica, tp_sequence *s) {
    int32_t size = replica->engine->block_size;
    if (s->cacheable < ((int64_t)s->registered + 1) * size) return;
    int32_t full = s->cacheable / size;
    tp_content content;
    tp_content_of(replica->requests, s->request, &content);
    tp_blocks_register(&replica->blocks, &s->holding, &content, size, s->registered, full);
    s->registered = full;
}

// Takes note that the tokens up to `end` are scheduled. Drafts may be wrong and are left out. What no other
// request can ask for is registered when the request itself may ask again: at its preemption.
static void cache(tp_replica *replica, tp_sequence *s, int32_t end) {
    if (!replica->engine->prefix_caching) return;
    s->cacheable = least(end, s->known);
    if (s->shared) register_blocks(replica, s);
}

// Finds the cached prefix of a request that is about to run. The last token is always computed.
static tp_status look_up(tp_batch *b, tp_waiter waiter, int32_t known) {
    tp_replica *replica = b->replica;
    replica->blocks.n_hits = 0;
    bool known_to_nobody =
        waiter.sequence < 0 && !tp_has_segments(replica->requests, waiter.request);
    if (!b->engine->prefix_caching || known_to_nobody) return TP_OK;
    tp_content content;
    tp_content_of(replica->requests, waiter.request, &content);
    TP_TRY(tp_blocks_look_up(&replica->blocks, &content, b->engine->block_size,
                             (known - 1) / b->engine->block_size, b->error));
    if (b->engine->drafting.method == TP_DRAFT_EAGLE && replica->blocks.n_hits > 0)
        replica->blocks.n_hits--;
    return TP_OK;
}

// --- those that run ---

void tp_batch_add(tp_batch *b, tp_sequence *s, int32_t tokens) {
    int32_t drafts = tokens + s->computed - s->known;
    s->scheduled = tokens;
    s->verifying = drafts > 0 ? drafts : 0;
    b->budget -= tokens;
    cache(b->replica, s, s->computed + tokens);
}

tp_status tp_batch_extend(tp_batch *b, tp_sequence *s, int64_t end) {
    int32_t more = tp_batch_blocks(b->engine, end) - s->holding.count;
    return more > 0 ? tp_blocks_take(&b->replica->blocks, &s->holding, more, b->error) : TP_OK;
}

tp_status tp_batch_preempt(tp_batch *b, int32_t place, bool in_front) {
    tp_replica *replica = b->replica;
    int32_t sequence = replica->running[place];
    tp_sequence *s = &replica->sequences[sequence];
    tp_waiter waiter = {s->request, sequence};
    TP_TRY(tp_waiting_add(&replica->waiting, waiter, replica->requests, in_front, b->error));
    register_blocks(replica, s);
    tp_blocks_give_back(&replica->blocks, &s->holding);
    b->budget += s->scheduled;
    s->scheduled = s->verifying = s->computed = s->drafts = s->registered = s->cacheable = 0;
    s->detail.preemptions++;
    b->preempted++;
    replica->n_running--;
    memmove(&replica->running[place], &replica->running[place + 1],
            (size_t)(replica->n_running - place) * sizeof *replica->running);
    return TP_OK;
}

// --- those that wait ---

tp_status tp_batch_next(tp_batch *b, tp_candidate *c, bool *any) {
    tp_replica *replica = b->replica;
    *any = false;
    if (replica->waiting.count == 0) return TP_OK;
    tp_waiter waiter = tp_waiting_first(&replica->waiting);
    const tp_requests *r = replica->requests;
    int64_t latest = replica->n_running > 0 ? replica->formed : INT64_MAX;
    if (!replica->continues && r->arrival[waiter.request] > latest) return TP_OK;
    *any = true;
    bool first_time = waiter.sequence < 0;
    const tp_sequence *s = first_time ? NULL : &replica->sequences[waiter.sequence];
    c->waiter = waiter;
    c->known = first_time ? r->prompt[waiter.request] + replica->continues : s->known;
    c->output = r->prompt[waiter.request] + r->output[waiter.request] - c->known;
    if (first_time && replica->continues) {
        replica->blocks.n_hits = 0;
        c->cached = r->prompt[waiter.request];
        return TP_OK;
    }
    TP_TRY(look_up(b, waiter, c->known));
    c->cached = replica->blocks.n_hits * b->engine->block_size;
    return TP_OK;
}

int32_t tp_batch_more(const tp_batch *b, const tp_candidate *c, int32_t tokens, int32_t *taken) {
    const tp_blocks *blocks = &b->replica->blocks;
    int32_t more = tp_batch_blocks(b->engine, (int64_t)c->cached + tokens) - blocks->n_hits;
    *taken = more + tp_blocks_unowned(blocks);
    return more;
}

static tp_status reserve_running(tp_replica *replica, tp_error *error) {
    if (replica->n_running < replica->running_capacity) return TP_OK;
    int32_t capacity = 2 * replica->running_capacity + 16;
    int32_t *running =
        tp_heap_grow(replica->heap, replica->running, (size_t)capacity, sizeof *running);
    if (running) replica->running = running;
    tp_chunk *chunks =
        tp_heap_grow(replica->heap, replica->chunks, (size_t)capacity, sizeof *chunks);
    if (chunks) replica->chunks = chunks;
    if (!running || !chunks)
        return tp_error_set(error, TP_NO_MEMORY, "not enough memory for running requests");
    replica->running_capacity = capacity;
    return TP_OK;
}

tp_status tp_batch_admit(tp_batch *b, const tp_candidate *c, int32_t more, int32_t tokens) {
    tp_replica *replica = b->replica;
    tp_waiter waiter = c->waiter;
    TP_TRY(reserve_running(replica, b->error));
    bool first_time = waiter.sequence < 0;
    if (first_time)
        TP_TRY(tp_replica_new_sequence(replica, waiter.request, &waiter.sequence, b->error));
    tp_sequence *s = &replica->sequences[waiter.sequence];
    if (replica->blocks.n_hits > 0)
        TP_TRY(tp_blocks_share(&replica->blocks, &s->holding, b->error));
    TP_TRY(tp_blocks_take(&replica->blocks, &s->holding, more, b->error));
    if (first_time && !replica->continues) s->detail.cached_tokens = c->cached;
    s->computed = c->cached;
    s->registered = replica->blocks.n_hits;
    tp_waiting_drop_first(&replica->waiting);
    replica->running[replica->n_running++] = waiter.sequence;
    tp_batch_add(b, s, tokens);
    return TP_OK;
}

// --- which scheduler ---

tp_status tp_schedule(tp_replica *replica, int32_t *preempted, tp_error *error) {
    const tp_engine *engine = replica->engine;
    tp_draft_method method = engine->drafting.method;
    bool looks_ahead = method == TP_DRAFT_MODEL || method == TP_DRAFT_EAGLE;
    tp_batch b = {
        .replica = replica,
        .engine = engine,
        .budget = engine->max_num_batched_tokens,
        .lookahead = looks_ahead ? engine->drafting.tokens : 0,
        .error = error,
    };
    tp_status status = TP_OK;
    switch (engine->scheduler) {
    case TP_SCHEDULER_VLLM:
        status = tp_schedule_vllm_v1(&b);
        break;
    case TP_SCHEDULER_SGLANG:
        status = tp_schedule_sglang(&b);
        break;
    case TP_SCHEDULER_TENSORRT_LLM:
        status = tp_schedule_tensorrt_llm(&b);
        break;
    }
    *preempted = b.preempted;
    return status;
}
