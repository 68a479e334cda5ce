// batch.c: see batch.h.
#include "serve/batch.h"

#include <string.h>

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

int32_t tperf_batch_blocks(const tperf_engine *engine, int64_t tokens) {
    if (tokens > engine->max_model_len) tokens = engine->max_model_len;
    return (int32_t)((tokens + engine->block_size - 1) / engine->block_size);
}

int32_t tperf_batch_below_threshold(const tperf_engine *engine, int32_t wanted) {
    int32_t threshold = engine->long_prefill_token_threshold;
    return threshold > 0 ? least(wanted, threshold) : wanted;
}

// --- the prefix cache ---

// Registers the full blocks of the sequence's cacheable tokens with the prefix cache, unless some before are gone.
static void register_blocks(tperf_replica *replica, tperf_sequence *s) {
    int32_t size = replica->engine->block_size;
    if (s->holding.gone > 0 && s->registered <= s->holding.gone) return;
    if (s->cacheable < ((int64_t)s->registered + 1) * size) return;
    int32_t full = s->cacheable / size;
    tperf_content content;
    tperf_content_of(replica->requests, s->request, &content);
    tperf_blocks_register(&replica->blocks, &s->holding, &content, size, s->registered, full);
    s->registered = full;
}

// Marks the tokens up to `end` as scheduled. Drafts may be rejected and are excluded. Content that no other request can
// ask for is registered at a preemption, after which the request itself may ask for it.
static void cache(tperf_replica *replica, tperf_sequence *s, int32_t end) {
    if (!replica->engine->prefix_caching) return;
    s->cacheable = least(end, s->known);
    if (s->shared) register_blocks(replica, s);
}

// Looks up the cached prefix of a request about to be admitted. The last token is always computed.
static tperf_status look_up(tperf_batch *b, tperf_waiter waiter, int32_t known) {
    tperf_replica *replica = b->replica;
    replica->blocks.n_hits = 0;
    bool known_to_nobody =
        waiter.sequence < 0 && !tperf_has_segments(replica->requests, waiter.request);
    if (!b->engine->prefix_caching || known_to_nobody) return TPERF_OK;
    tperf_content content;
    tperf_content_of(replica->requests, waiter.request, &content);
    TPERF_TRY(tperf_blocks_look_up(&replica->blocks, &content, b->engine->block_size,
                                   (known - 1) / b->engine->block_size, b->error));
    if (b->engine->drafting.method == TPERF_DRAFT_EAGLE && replica->blocks.n_hits > 0)
        replica->blocks.n_hits--;
    return TPERF_OK;
}

// --- running requests ---

void tperf_batch_add(tperf_batch *b, tperf_sequence *s, int32_t tokens) {
    int32_t drafts = tokens + s->computed - s->known;
    s->scheduled = tokens;
    s->verifying = drafts > 0 ? drafts : 0;
    b->budget -= tokens;
    cache(b->replica, s, s->computed + tokens);
}

tperf_need tperf_batch_lacks(const tperf_batch *b, const tperf_sequence *s, int64_t end) {
    return tperf_sequence_lacks(b->replica, s, tperf_batch_blocks(b->engine, end));
}

tperf_status tperf_batch_extend(tperf_batch *b, tperf_sequence *s, int64_t end) {
    return tperf_sequence_hold(b->replica, s, tperf_batch_blocks(b->engine, end), b->error);
}

// Gives all blocks numbers: from now on a request may ask for its own content.
static tperf_status number_blocks(tperf_replica *replica, tperf_error *error) {
    tperf_blocks *blocks = &replica->blocks;
    if (blocks->caching || !replica->engine->prefix_caching) return TPERF_OK;
    for (int32_t i = 0; i < replica->n_sequences; i++) {
        TPERF_TRY(tperf_blocks_number(blocks, &replica->sequences[i].holding, error));
        TPERF_TRY(tperf_blocks_number(blocks, &replica->sequences[i].beside, error));
    }
    blocks->caching = true;
    return TPERF_OK;
}

tperf_status tperf_batch_preempt(tperf_batch *b, int32_t place, bool in_front) {
    tperf_replica *replica = b->replica;
    int32_t sequence = replica->running[place];
    tperf_sequence *s = &replica->sequences[sequence];
    tperf_waiter waiter = {s->request, sequence};
    TPERF_TRY(tperf_waiting_add(&replica->waiting, waiter, replica->requests, in_front, b->error));
    TPERF_TRY(number_blocks(replica, b->error));
    register_blocks(replica, s);
    tperf_sequence_give_back(replica, s);
    b->budget += s->scheduled;
    s->scheduled = s->verifying = s->computed = s->drafts = s->registered = s->cacheable = 0;
    s->detail.preemptions++;
    b->preempted++;
    replica->n_running--;
    memmove(&replica->running[place], &replica->running[place + 1],
            (size_t)(replica->n_running - place) * sizeof *replica->running);
    return TPERF_OK;
}

// --- waiting requests ---

tperf_status tperf_batch_next(tperf_batch *b, tperf_candidate *c, bool *any) {
    tperf_replica *replica = b->replica;
    *any = false;
    if (replica->waiting.count == 0) return TPERF_OK;
    tperf_waiter waiter = tperf_waiting_first(&replica->waiting);
    const tperf_requests *r = replica->requests;
    int64_t latest = replica->n_running > 0 ? replica->formed : INT64_MAX;
    if (!replica->continues && r->arrival[waiter.request] > latest) return TPERF_OK;
    *any = true;
    bool first_time = waiter.sequence < 0;
    const tperf_sequence *s = first_time ? NULL : &replica->sequences[waiter.sequence];
    c->waiter = waiter;
    c->known = first_time ? r->prompt[waiter.request] + replica->continues : s->known;
    c->output = r->prompt[waiter.request] + r->output[waiter.request] - c->known;
    if (first_time && replica->continues) {
        replica->blocks.n_hits = 0;
        c->cached = r->prompt[waiter.request];
        return TPERF_OK;
    }
    TPERF_TRY(look_up(b, waiter, c->known));
    c->cached = replica->blocks.n_hits * b->engine->block_size;
    return TPERF_OK;
}

int32_t tperf_batch_more(const tperf_batch *b, const tperf_candidate *c, int32_t tokens,
                         tperf_need *taken) {
    const tperf_blocks *blocks = &b->replica->blocks;
    int32_t own = tperf_batch_blocks(b->engine, (int64_t)c->cached + tokens);
    int32_t gone = tperf_blocks_unseen(b->engine, c->cached);
    int32_t more = own - (blocks->n_hits > gone ? blocks->n_hits : gone);
    *taken = tperf_blocks_beside(b->engine, own);
    taken->pool += more + tperf_blocks_unowned(blocks, gone);
    return more;
}

static tperf_status reserve_running(tperf_replica *replica, tperf_error *error) {
    if (replica->n_running < replica->running_capacity) return TPERF_OK;
    int32_t capacity = 2 * replica->running_capacity + 16;
    int32_t *running =
        tperf_heap_grow(replica->heap, replica->running, (size_t)capacity, sizeof *running);
    if (running) replica->running = running;
    tperf_prefill_chunk *chunks =
        tperf_heap_grow(replica->heap, replica->chunks, (size_t)capacity, sizeof *chunks);
    if (chunks) replica->chunks = chunks;
    if (!running || !chunks)
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for running requests");
    replica->running_capacity = capacity;
    return TPERF_OK;
}

tperf_status tperf_batch_admit(tperf_batch *b, const tperf_candidate *c, int32_t more,
                               int32_t tokens) {
    tperf_replica *replica = b->replica;
    tperf_waiter waiter = c->waiter;
    TPERF_TRY(reserve_running(replica, b->error));
    bool first_time = waiter.sequence < 0;
    if (first_time)
        TPERF_TRY(tperf_replica_new_sequence(replica, waiter.request, &waiter.sequence, b->error));
    tperf_sequence *s = &replica->sequences[waiter.sequence];
    int32_t gone = tperf_blocks_unseen(b->engine, c->cached);
    if (replica->blocks.n_hits > 0 || gone > 0)
        TPERF_TRY(tperf_blocks_share(&replica->blocks, &s->holding, gone, b->error));
    TPERF_TRY(tperf_sequence_hold(replica, s, s->holding.count + more, b->error));
    if (first_time && !replica->continues) s->detail.cached_tokens = c->cached;
    s->computed = c->cached;
    s->registered = replica->blocks.n_hits;
    tperf_waiting_drop_first(&replica->waiting);
    replica->running[replica->n_running++] = waiter.sequence;
    tperf_batch_add(b, s, tokens);
    return TPERF_OK;
}
