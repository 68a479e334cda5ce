// sglang.c: SGLang's scheduler, see docs/serving.md. A step is either all prefills, which come first, or all decodes;
// with mixed_chunk a step of prefills has the decodes, too.
// The memory that answers will need is estimated: room is kept for a fraction of their remaining tokens, which shrinks
// with every decode step and grows again after a retraction of decodes.
#include "base/always.h"
#include "serve/batch.h"

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

// Tokens that an answer is expected to have still.
static int64_t to_come(const tperf_batch *b, int32_t tokens) {
    return least(tokens, b->engine->estimate.longest);
}

// --- prefills ---

// Tokens that fit beside the expected needs of running answers.
static double room_of(const tperf_batch *b) {
    const tperf_replica *replica = b->replica;
    double room = (double)replica->blocks.free * b->engine->block_size;
    for (int32_t i = 0; i < replica->n_running; i++) {
        const tperf_sequence *s = &replica->sequences[replica->running[i]];
        room -= replica->optimism * (double)to_come(b, s->full - s->known);
    }
    return room;
}

// Continues the one prompt that was too long for the previous step.
static tperf_status go_on(tperf_batch *b, bool *any) {
    tperf_replica *replica = b->replica;
    for (int32_t i = 0; i < replica->n_running && b->budget > 0; i++) {
        tperf_sequence *s = &replica->sequences[replica->running[i]];
        int32_t tokens = least(s->known - s->computed, b->budget);
        if (tokens <= 0 || (tokens == 1 && s->known > s->prompt)) continue; // done, or a decode
        int64_t end = (int64_t)s->computed + tokens;
        if (!tperf_blocks_have(&replica->blocks, tperf_batch_lacks(b, s, end))) continue;
        TPERF_TRY(tperf_batch_extend(b, s, end));
        tperf_batch_add(b, s, tokens);
        *any = true;
    }
    return TPERF_OK;
}

static tperf_status schedule_prefills(tperf_batch *b, bool *scheduled) {
    tperf_replica *replica = b->replica;
    const tperf_engine *engine = b->engine;
    TPERF_TRY(go_on(b, scheduled));
    double room = replica->waiting.count > 0 ? room_of(b) : 0;
    while (b->budget > 0 && replica->n_running < engine->max_num_seqs) {
        tperf_candidate c;
        bool any;
        tperf_need taken;
        TPERF_TRY(tperf_batch_next(b, &c, &any));
        if (!any) break;
        int32_t tokens = c.known - c.cached;
        double needed = (double)tokens + (double)to_come(b, c.output);
        if (needed > room && replica->n_running > 0) break;
        if (!engine->chunked_prefill && tokens > b->budget) break;
        tokens = least(tokens, b->budget);
        int32_t more = tperf_batch_more(b, &c, tokens, &taken);
        if (!tperf_blocks_have(&replica->blocks, taken)) break;
        room -= needed;
        TPERF_TRY(tperf_batch_admit(b, &c, more, tokens));
        *scheduled = true;
    }
    return TPERF_OK;
}

// --- decodes ---

static bool decodes(const tperf_sequence *s) {
    return s->computed == s->known - 1 && s->flying == 0;
}

static tperf_need more_blocks(const tperf_batch *b, const tperf_sequence *s) {
    return tperf_batch_lacks(b, s, (int64_t)s->known + s->drafts + b->lookahead);
}

// The request to retract: the shortest answer so far, ties: the longest prompt; an unfinished prompt before all others.
// -1: none.
static int32_t choose_victim(const tperf_replica *replica) {
    int32_t victim = -1;
    const tperf_sequence *chosen = NULL;
    for (int32_t i = 0; i < replica->n_running; i++) {
        const tperf_sequence *s = &replica->sequences[replica->running[i]];
        if (s->flying > 0) continue;
        int32_t answer = s->known - s->prompt,
                shortest = chosen ? chosen->known - chosen->prompt : 0;
        if (!chosen || answer < shortest || (answer == shortest && s->prompt >= chosen->prompt)) {
            victim = i;
            chosen = s;
        }
    }
    return victim;
}

// After a retraction: the fraction of the running answers' maximum lengths that they have, a few tokens on.
static void estimate(tperf_replica *replica) {
    double had = 0, most = 0;
    for (int32_t i = 0; i < replica->n_running; i++) {
        const tperf_sequence *s = &replica->sequences[replica->running[i]];
        had += (double)s->known - s->prompt + replica->engine->estimate.ahead;
        most += s->full - s->prompt;
    }
    double part = ALWAYS(most > 0) ? had / most : 1;
    replica->optimism = part < 1 ? part : 1;
}

static tperf_status make_room(tperf_batch *b) {
    tperf_replica *replica = b->replica;
    for (;;) {
        tperf_need needed = {0, 0};
        for (int32_t i = 0; i < replica->n_running; i++) {
            const tperf_sequence *s = &replica->sequences[replica->running[i]];
            if (!decodes(s)) continue;
            tperf_need more = more_blocks(b, s);
            needed.pool += more.pool;
            needed.apart += more.apart;
        }
        if (tperf_blocks_have(&replica->blocks, needed)) return TPERF_OK;
        int32_t victim = choose_victim(replica);
        if (victim < 0 || replica->n_running == 1) return TPERF_OK;
        TPERF_TRY(tperf_batch_preempt(b, victim, false));
    }
}

// One token of each answer.
static tperf_status add_decodes(tperf_batch *b) {
    tperf_replica *replica = b->replica;
    for (int32_t i = 0; i < replica->n_running; i++) {
        tperf_sequence *s = &replica->sequences[replica->running[i]];
        int32_t tokens =
            least(s->known + s->drafts - s->computed, b->engine->max_model_len - 1 - s->computed);
        if (tokens <= 0 || s->scheduled > 0 || !decodes(s) ||
            !tperf_blocks_have(&replica->blocks, more_blocks(b, s)))
            continue;
        TPERF_TRY(tperf_batch_extend(b, s, (int64_t)s->computed + tokens + b->lookahead));
        tperf_batch_add(b, s, tokens);
    }
    return TPERF_OK;
}

static tperf_status schedule_decodes(tperf_batch *b) {
    TPERF_TRY(make_room(b));
    if (b->preempted > 0)
        estimate(b->replica);
    else
        tperf_replica_decoded(b->replica, 1);
    return add_decodes(b);
}

// Tokens that decodes take from the budget of prefills beside them.
static int32_t beside(const tperf_batch *b) {
    int32_t tokens = 0;
    for (int32_t i = 0; i < b->replica->n_running; i++)
        if (decodes(&b->replica->sequences[b->replica->running[i]])) tokens++;
    return tokens;
}

static tperf_status schedule(tperf_batch *b) {
    bool prefills = false, mixed = b->engine->mixed_chunk;
    if (mixed) b->budget -= beside(b);
    TPERF_TRY(schedule_prefills(b, &prefills));
    if (!prefills) return schedule_decodes(b);
    return mixed ? add_decodes(b) : TPERF_OK;
}

const tperf_scheduler tperf_scheduler_sglang = {
    .name = "sglang",
    .schedule = schedule,
    .pools = TPERF_POOLS_APART,
    .mixes = true,
    .keeps_states = true,
};
