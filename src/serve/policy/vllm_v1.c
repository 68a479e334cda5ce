// vllm_v1.c: the scheduler of vLLM's V1 engine, see replica.h and docs/serving.md. It has no prefill and decode phases:
// a request's known tokens and drafts are to be computed, within a step's token budget.
#include "serve/batch.h"

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t priority_of(const tperf_replica *replica, int32_t place, int64_t *arrival) {
    int32_t request = replica->sequences[replica->running[place]].request;
    *arrival = replica->requests->arrival[request];
    return replica->requests->priority ? replica->requests->priority[request] : 0;
}

// The index in the running list of the request to preempt, among those in no batch in flight: the last, or by priority
// the least urgent (ties: the first). -1: none.
static int32_t choose_victim(const tperf_replica *replica) {
    bool by_priority = replica->engine->policy == TPERF_QUEUE_PRIORITY;
    int32_t victim = -1, urgency = 0;
    int64_t arrival = 0;
    for (int32_t i = replica->n_running; i-- > 0;) {
        if (replica->sequences[replica->running[i]].flying > 0) continue;
        if (!by_priority) return i;
        int64_t others_arrival;
        int32_t others = priority_of(replica, i, &others_arrival);
        if (victim < 0 || others > urgency || (others == urgency && others_arrival >= arrival)) {
            victim = i;
            urgency = others;
            arrival = others_arrival;
        }
    }
    return victim;
}

// Frees blocks for the request at *place by preempting others; *place moves if one before it is removed, and is
// -1 if it was preempted itself or no request can be.
static tperf_status make_room(tperf_batch *b, int32_t *place, tperf_need need) {
    while (!tperf_blocks_have(&b->replica->blocks, need)) {
        int32_t victim = choose_victim(b->replica);
        if (victim >= 0) TPERF_TRY(tperf_batch_preempt(b, victim, true));
        if (victim < 0 || victim == *place) {
            *place = -1;
            return TPERF_OK;
        }
        if (victim < *place) --*place;
    }
    return TPERF_OK;
}

static tperf_status schedule_running(tperf_batch *b) {
    tperf_replica *replica = b->replica;
    const tperf_engine *engine = b->engine;
    for (int32_t i = 0; i < replica->n_running && b->budget > 0; i++) {
        tperf_sequence *s = &replica->sequences[replica->running[i]];
        int32_t tokens = tperf_batch_below_threshold(engine, s->known + s->drafts - s->computed);
        tokens = least(least(tokens, b->budget), engine->max_model_len - 1 - s->computed);
        if (tokens <= 0) continue;
        tperf_sequence_slide(replica, s, s->computed);
        int64_t end = (int64_t)s->computed + tokens + b->lookahead;
        if (end > (int64_t)s->holding.count * engine->block_size) {
            TPERF_TRY(make_room(b, &i, tperf_batch_lacks(b, s, end)));
            if (i < 0) return TPERF_OK;
            TPERF_TRY(tperf_batch_extend(b, s, end));
        }
        tperf_batch_add(b, s, tokens);
    }
    return TPERF_OK;
}

// Admission is in order, and preempts no request.
static tperf_status schedule_waiting(tperf_batch *b) {
    tperf_replica *replica = b->replica;
    const tperf_engine *engine = b->engine;
    while (b->budget > 0 && replica->n_running < engine->max_num_seqs) {
        tperf_candidate c;
        bool any;
        tperf_need taken;
        TPERF_TRY(tperf_batch_next(b, &c, &any));
        if (!any) break;
        int32_t tokens = tperf_batch_below_threshold(engine, c.known - c.cached);
        if (!engine->chunked_prefill && tokens > b->budget) break;
        tokens = least(tokens, b->budget);
        int32_t more = tperf_batch_more(b, &c, tokens, &taken);
        if (!tperf_blocks_have(&replica->blocks, taken)) break;
        TPERF_TRY(tperf_batch_admit(b, &c, more, tokens));
    }
    return TPERF_OK;
}

static tperf_status schedule(tperf_batch *b) {
    TPERF_TRY(schedule_running(b));
    return b->preempted == 0 ? schedule_waiting(b) : TPERF_OK;
}

const tperf_scheduler tperf_scheduler_vllm_v1 = {
    .name = "vllm",
    .schedule = schedule,
    .pools = TPERF_POOLS_SHARED,
    .prefill_graphs = true,
};
