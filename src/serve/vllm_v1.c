// vllm_v1.c: the scheduler of vLLM's V1 engine, see replica.h and docs/serving.md. There are no phases of prefill and
// decoding: a request wants its known tokens and drafts computed, and a step has a budget of tokens.
#include <string.h>

#include "serve/replica.h"

// A step while it is put together.
typedef struct batch {
    tp_replica *replica;
    const tp_engine *engine;
    int32_t budget;
    int32_t lookahead; // slots for drafts to come
    int32_t preempted;
    tp_error *error;
} batch;

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

// As many tokens as a request may have of those it wants, but for the budget.
static int32_t below_threshold(const tp_engine *engine, int32_t wanted) {
    int32_t threshold = engine->long_prefill_token_threshold;
    return threshold > 0 ? least(wanted, threshold) : wanted;
}

// The blocks that so many tokens fill, one begun included.
static int32_t blocks_of(const tp_engine *engine, int64_t tokens) {
    if (tokens > engine->max_model_len) tokens = engine->max_model_len;
    return (int32_t)((tokens + engine->block_size - 1) / engine->block_size);
}

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

static void schedule(batch *b, tp_sequence *s, int32_t tokens) {
    int32_t drafts = tokens + s->computed - s->known;
    s->scheduled = tokens;
    s->verifying = drafts > 0 ? drafts : 0;
    b->budget -= tokens;
}

// --- preemption ---

// The place in the running list of the request to preempt: the last, or the least urgent, the first of equal ones.
static int32_t choose_victim(const tp_replica *replica) {
    if (replica->engine->policy == TP_QUEUE_FCFS) return replica->n_running - 1;
    const tp_requests *requests = replica->requests;
    int32_t victim = 0, request = replica->sequences[replica->running[0]].request;
    for (int32_t i = 1; i < replica->n_running; i++) {
        int32_t other = replica->sequences[replica->running[i]].request;
        int32_t priority = requests->priority ? requests->priority[request] : 0;
        int32_t others = requests->priority ? requests->priority[other] : 0;
        if (others > priority ||
            (others == priority && requests->arrival[other] > requests->arrival[request])) {
            victim = i;
            request = other;
        }
    }
    return victim;
}

// Recomputation: the request loses its blocks and keeps its answer so far. What it had of this step is free again.
static tp_status preempt(batch *b, int32_t place) {
    tp_replica *replica = b->replica;
    int32_t sequence = replica->running[place];
    tp_sequence *s = &replica->sequences[sequence];
    tp_waiter waiter = {s->request, sequence};
    TP_TRY(tp_waiting_add(&replica->waiting, waiter, replica->requests, true, b->error));
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

// --- those that run ---

// Makes room for `count` blocks for the request at *place, which moves when one before it has to go; -1: it
// was itself.
static tp_status make_room(batch *b, int32_t *place, int32_t count) {
    while (count > b->replica->blocks.free) {
        int32_t victim = choose_victim(b->replica);
        TP_TRY(preempt(b, victim));
        if (victim == *place) {
            *place = -1;
            return TP_OK;
        }
        if (victim < *place) --*place;
    }
    return TP_OK;
}

static tp_status schedule_running(batch *b) {
    tp_replica *replica = b->replica;
    const tp_engine *engine = b->engine;
    for (int32_t i = 0; i < replica->n_running && b->budget > 0; i++) {
        tp_sequence *s = &replica->sequences[replica->running[i]];
        int32_t tokens = below_threshold(engine, s->known + s->drafts - s->computed);
        tokens = least(least(tokens, b->budget), engine->max_model_len - 1 - s->computed);
        if (tokens <= 0) continue;
        int64_t end = (int64_t)s->computed + tokens;
        if (end + b->lookahead > (int64_t)s->holding.count * engine->block_size) {
            int32_t more = blocks_of(engine, end + b->lookahead) - s->holding.count;
            TP_TRY(make_room(b, &i, more));
            if (i < 0) return TP_OK;
            TP_TRY(tp_blocks_take(&replica->blocks, &s->holding, more, b->error));
        }
        cache(replica, s, (int32_t)end);
        schedule(b, s, tokens);
    }
    return TP_OK;
}

// --- those that wait ---

// Finds the cached prefix of a request that is about to run. The last token is always computed.
static tp_status look_up(batch *b, tp_waiter waiter, int32_t known) {
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

// Starts the head of the queue with the blocks found and `more` new ones.
static tp_status admit(batch *b, tp_waiter waiter, int32_t more, int32_t tokens) {
    tp_replica *replica = b->replica;
    int32_t cached = replica->blocks.n_hits * b->engine->block_size;
    TP_TRY(reserve_running(replica, b->error));
    bool first_time = waiter.sequence < 0;
    if (first_time)
        TP_TRY(tp_replica_new_sequence(replica, waiter.request, &waiter.sequence, b->error));
    tp_sequence *s = &replica->sequences[waiter.sequence];
    if (replica->blocks.n_hits > 0)
        TP_TRY(tp_blocks_share(&replica->blocks, &s->holding, b->error));
    TP_TRY(tp_blocks_take(&replica->blocks, &s->holding, more, b->error));
    if (first_time) s->detail.cached_tokens = cached;
    s->computed = cached;
    s->registered = replica->blocks.n_hits;
    tp_waiting_drop_first(&replica->waiting);
    replica->running[replica->n_running++] = waiter.sequence;
    cache(replica, s, cached + tokens);
    schedule(b, s, tokens);
    return TP_OK;
}

// Nobody overtakes the head of the queue, and nobody is preempted for it.
static tp_status schedule_waiting(batch *b) {
    tp_replica *replica = b->replica;
    const tp_engine *engine = b->engine;
    int64_t latest = replica->n_running > 0 ? replica->formed : INT64_MAX;
    while (b->budget > 0 && replica->waiting.count > 0 &&
           replica->n_running < engine->max_num_seqs) {
        tp_waiter waiter = tp_waiting_first(&replica->waiting);
        if (replica->requests->arrival[waiter.request] > latest) break;
        int32_t known = waiter.sequence < 0 ? replica->requests->prompt[waiter.request]
                                            : replica->sequences[waiter.sequence].known;
        TP_TRY(look_up(b, waiter, known));
        int32_t hits = replica->blocks.n_hits, cached = hits * engine->block_size;
        int32_t tokens = below_threshold(engine, known - cached);
        if (!engine->chunked_prefill && tokens > b->budget) break;
        tokens = least(tokens, b->budget);
        int32_t more = blocks_of(engine, (int64_t)cached + tokens) - hits;
        if (more + tp_blocks_unowned(&replica->blocks) > replica->blocks.free) break;
        TP_TRY(admit(b, waiter, more, tokens));
    }
    return TP_OK;
}

tp_status tp_schedule_vllm_v1(tp_replica *replica, int32_t *preempted, tp_error *error) {
    const tp_engine *engine = replica->engine;
    tp_draft_method method = engine->drafting.method;
    bool looks_ahead = method == TP_DRAFT_MODEL || method == TP_DRAFT_EAGLE;
    batch b = {
        .replica = replica,
        .engine = engine,
        .budget = engine->max_num_batched_tokens,
        .lookahead = looks_ahead ? engine->drafting.tokens : 0,
        .error = error,
    };
    TP_TRY(schedule_running(&b));
    if (b.preempted == 0) TP_TRY(schedule_waiting(&b));
    *preempted = b.preempted;
    return TP_OK;
}
