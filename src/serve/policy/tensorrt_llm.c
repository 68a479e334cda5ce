// tensorrt_llm.c: TensorRT-LLM's in-flight batching under its default capacity policy, GUARANTEED_NO_EVICT, see
// docs/serving.md: a request starts once there is room for it to its end beside all running ones, and is never paused.
#include "base/always.h"
#include "serve/batch.h"

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

// The blocks of a request at its end; its last token needs no slot.
static int32_t final_blocks(const tperf_batch *b, int64_t full) {
    int32_t drafts =
        b->engine->drafting.method == TPERF_DRAFT_NONE ? 0 : b->engine->drafting.tokens;
    return tperf_batch_blocks(b->engine, full - 1 + drafts + b->lookahead);
}

// The blocks that running requests have yet to take.
static int64_t reserved(const tperf_batch *b) {
    const tperf_replica *replica = b->replica;
    int64_t sum = 0;
    for (int32_t i = 0; i < replica->n_running; i++) {
        const tperf_sequence *s = &replica->sequences[replica->running[i]];
        int32_t more = final_blocks(b, s->full) - s->holding.count;
        if (more > 0) sum += more;
    }
    return sum;
}

// Schedules decodes first, then chunks of started prompts.
static tperf_status schedule_running(tperf_batch *b) {
    tperf_replica *replica = b->replica;
    for (int32_t i = 0; i < replica->n_running && b->budget > 0; i++) {
        tperf_sequence *s = &replica->sequences[replica->running[i]];
        int32_t tokens = least(s->known + s->drafts - s->computed, b->budget);
        tokens = least(tokens, b->engine->max_model_len - 1 - s->computed);
        if (tokens <= 0) continue;
        TPERF_TRY(tperf_batch_extend(b, s, (int64_t)s->computed + tokens + b->lookahead));
        tperf_batch_add(b, s, tokens);
    }
    return TPERF_OK;
}

// Whether the waiting prompts that may run, and arrived in time, have `tokens` tokens together.
static bool are_enough(const tperf_replica *replica, int64_t tokens) {
    const tperf_requests *r = replica->requests;
    size_t seats = (size_t)(replica->engine->max_num_seqs - replica->n_running);
    for (size_t i = 0; i < replica->waiting.count && i < seats && tokens > 0; i++) {
        int32_t request = tperf_waiting_at(&replica->waiting, i).request;
        if (r->arrival[request] <= replica->formed) tokens -= r->prompt[request];
    }
    return tokens <= 0;
}

// batch_wait_timeout_iters and batch_wait_max_tokens_ratio: beside decodes, prompts wait for more prompts.
static bool prompts_wait(tperf_batch *b) {
    tperf_replica *replica = b->replica;
    const tperf_engine *engine = b->engine;
    int32_t scheduled = engine->max_num_batched_tokens - b->budget;
    tperf_candidate c;
    bool any = false;
    if (engine->batch_wait_steps == 0 || scheduled == 0 || replica->waiting.by_priority)
        return false;
    if (tperf_batch_next(b, &c, &any) != TPERF_OK || !any) return false;
    bool wait = replica->held < engine->batch_wait_steps &&
                !are_enough(replica, (int64_t)engine->batch_wait_tokens - scheduled);
    replica->held = wait ? replica->held + 1 : 0;
    return wait;
}

// In order of arrival until one does not fit. Without chunks a prompt must fit into the rest of the step.
static tperf_status schedule_waiting(tperf_batch *b) {
    tperf_replica *replica = b->replica;
    const tperf_engine *engine = b->engine;
    int64_t kept = replica->waiting.count > 0 ? reserved(b) : 0;
    while (b->budget > 0 && replica->n_running < engine->max_num_seqs) {
        tperf_candidate c;
        bool any;
        tperf_need taken;
        TPERF_TRY(tperf_batch_next(b, &c, &any));
        if (!any) break;
        int32_t tokens = c.known - c.cached;
        if (!engine->chunked_prefill && tokens > b->budget) break;
        tokens = least(tokens, b->budget);
        int32_t more = tperf_batch_more(b, &c, tokens, &taken);
        int64_t rest = final_blocks(b, (int64_t)c.known + c.output) -
                       (int64_t)tperf_batch_blocks(engine, (int64_t)c.cached + tokens);
        if (NEVER(rest < 0)) rest = 0;
        if (taken.pool + rest > replica->blocks.free - kept) break;
        kept += rest;
        TPERF_TRY(tperf_batch_admit(b, &c, more, tokens));
    }
    return TPERF_OK;
}

static tperf_status schedule(tperf_batch *b) {
    TPERF_TRY(schedule_running(b));
    return prompts_wait(b) ? TPERF_OK : schedule_waiting(b);
}

const tperf_scheduler tperf_scheduler_tensorrt_llm = {
    .name = "tensorrt-llm",
    .schedule = schedule,
    .whole_prompts = true,
    .waits = true,
    .separate = true,
};
