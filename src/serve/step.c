// step.c: a replica's step: what its batch computes, what it costs, what comes out of it.
#include <assert.h>

#include "serve/fleet.h"
#include "serve/random.h"

// Adds up the batch's work, and counts its tokens as computed from now on.
static void measure(tp_replica *replica, int32_t window, int64_t now, tp_step_work *work) {
    for (int32_t i = 0; i < replica->n_running; i++) {
        tp_sequence *s = &replica->sequences[replica->running[i]];
        int64_t tokens = s->scheduled, before = s->computed;
        if (tokens == 0) continue;
        if (s->known > s->prompt && before == s->known - 1) {
            work->decodes++;
            work->decode_tokens += tokens;
            work->decode_context += before + tokens;
            work->decode_window += before + tokens < window ? before + tokens : window;
        } else {
            replica->chunks[work->prefills++] = (tp_chunk){s->scheduled, s->computed};
            work->prefill_tokens += tokens;
            work->prefill_pairs += tokens * before + tokens * (tokens + 1) / 2;
        }
        s->computed += s->scheduled;
        s->detail.steps++;
        if (s->detail.first_scheduled < 0) s->detail.first_scheduled = now;
    }
}

static tp_status keep_step(tp_fleet *fleet, const tp_step_record *record, tp_error *error) {
    enum { MOST_STEPS = 1 << 24 };
    tp_served *served = fleet->served;
    if (served->n_steps == MOST_STEPS)
        return tp_error_set(error, TP_INVALID, "over %d steps are more than can be kept",
                            MOST_STEPS);
    if (served->n_steps == fleet->steps_capacity) {
        size_t capacity = 2 * fleet->steps_capacity + 256;
        tp_step_record *steps = tp_heap_grow(served->heap, served->steps, capacity, sizeof *steps);
        if (!steps)
            return tp_error_set(error, TP_NO_MEMORY, "not enough memory for a record of steps");
        served->steps = steps;
        fleet->steps_capacity = capacity;
    }
    served->steps[served->n_steps++] = *record;
    return TP_OK;
}

// A batch that is empty although requests wait or run must have preempted somebody: else it would be so for ever.
static tp_status check_progress(const tp_fleet *fleet, const tp_lane *lane, int64_t tokens,
                                int32_t preempted, tp_error *error) {
    const tp_replica *replica = &lane->replica;
    if (tokens == 0 && preempted == 0)
        return tp_error_set(
            error, TP_INVALID,
            "the scheduler can neither run nor preempt any of %d running and %zu waiting "
            "requests%s",
            replica->n_running, replica->waiting.count,
            replica->engine->chunked_prefill
                ? ""
                : ": without 'chunked_prefill' a step must take a preempted request whole, so "
                  "'max_num_batched_tokens' must be at least 'max_model_len'");
    if (lane->fruitless > fleet->patience)
        return tp_error_set(
            error, TP_INVALID,
            "requests preempt one another for ever: %lld preemptions without a token at tick "
            "%lld; more num_blocks or fewer max_num_seqs end it",
            (long long)lane->fruitless, (long long)fleet->now);
    return TP_OK;
}

static tp_status cost(const tp_fleet *fleet, const tp_replica *replica, const tp_step_work *work,
                      int64_t *ticks, tp_error *error) {
    const tp_step_time *time = &fleet->options->step_time;
    *ticks = time->ticks(time->context, work, replica->chunks);
    if (*ticks < 0 || *ticks > INT64_MAX - fleet->now)
        return tp_error_set(error, TP_INVALID,
                            "a step at tick %lld takes %lld ticks: the clock ends at 2^63",
                            (long long)fleet->now, (long long)*ticks);
    if (*ticks == 0) *ticks = 1;
    return TP_OK;
}

tp_status tp_step_begin(tp_fleet *fleet, int32_t number, tp_error *error) {
    tp_lane *lane = &fleet->lanes[number];
    tp_replica *replica = &lane->replica;
    lane->called = false;
    if (replica->n_running == 0 && replica->waiting.count == 0) return TP_OK;
    tp_step_record record = {.start = fleet->now, .replica = number};
    TP_TRY(tp_schedule_vllm_v1(replica, &record.preempted, error));
    if (fleet->options->engine.async_scheduling) replica->formed = fleet->now;
    measure(replica, fleet->options->step_time.window, fleet->now, &record.work);
    int64_t tokens = record.work.decode_tokens + record.work.prefill_tokens;
    lane->fruitless += record.preempted;
    TP_TRY(check_progress(fleet, lane, tokens, record.preempted, error));
    if (tokens > 0) TP_TRY(cost(fleet, replica, &record.work, &record.duration, error));
    lane->called = true;
    fleet->totals.steps++;
    fleet->totals.preemptions += record.preempted;
    fleet->totals.scheduled_tokens += tokens;
    fleet->totals.busy += record.duration;
    record.running = replica->n_running;
    record.waiting = (int32_t)replica->waiting.count;
    record.free_blocks = replica->blocks.usable < INT32_MAX ? replica->blocks.free : -1;
    if (fleet->options->keep_steps) TP_TRY(keep_step(fleet, &record, error));
    return tp_event_push(&fleet->events, fleet->now + record.duration, TP_STEP_ENDS, number, NULL,
                         error);
}

// How many of the drafts that were verified are right.
static int32_t accept(const tp_drafting *drafting, tp_sequence *s) {
    uint64_t v = (uint64_t)s->verifications++;
    if (drafting->n_accepted) {
        int32_t right = drafting->accepted[((uint64_t)s->request + v) % drafting->n_accepted];
        return right < s->verifying ? right : s->verifying;
    }
    tp_random random = tp_random_of(drafting->seed, TP_DRAW_ACCEPT, (uint64_t)s->request);
    random = tp_random_of(tp_random_bits(&random), TP_DRAW_ACCEPT, v);
    int32_t right = 0;
    while (right < s->verifying && tp_random_unit(&random) < drafting->acceptance)
        right++;
    return right;
}

static void note_tokens(tp_lane *lane, tp_sequence *s, int64_t now) {
    lane->fruitless = 0;
    if (s->first_token < 0)
        s->first_token = now;
    else if (now - s->last_token > s->detail.longest_gap)
        s->detail.longest_gap = now - s->last_token;
    s->last_token = now;
}

// What a sequence makes of the step; whether it has ended.
static bool advance(const tp_fleet *fleet, tp_lane *lane, tp_sequence *s) {
    const tp_drafting *drafting = &fleet->options->engine.drafting;
    s->scheduled = 0;
    if (s->computed < s->known) return false;
    int32_t right = s->verifying > 0 ? accept(drafting, s) : 0;
    s->computed -= s->verifying - right;
    s->verifying = 0;
    s->known = right + 1 < s->full - s->known ? s->known + right + 1 : s->full;
    s->drafts = drafting->method == TP_DRAFT_NONE ? 0 : drafting->tokens;
    note_tokens(lane, s, fleet->now);
    return s->known == s->full;
}

tp_status tp_step_end(tp_fleet *fleet, int32_t number, tp_error *error) {
    tp_lane *lane = &fleet->lanes[number];
    tp_replica *replica = &lane->replica;
    int32_t kept = 0;
    for (int32_t i = 0; i < replica->n_running; i++) {
        int32_t id = replica->running[i];
        tp_sequence *s = &replica->sequences[id];
        if (s->scheduled > 0 && advance(fleet, lane, s)) {
            TP_TRY(tp_fleet_finish(fleet, number, s, error));
            tp_replica_end_sequence(replica, id);
        } else {
            replica->running[kept++] = id;
        }
    }
    replica->n_running = kept;
    assert(fleet->totals.steps % 16 != 0 || tp_blocks_sound(&replica->blocks));
    const tp_event *next = tp_event_first(&fleet->events);
    if (!next || next->time > fleet->now)
        return tp_step_begin(fleet, number, error); // nobody comes between
    return tp_event_push(&fleet->events, fleet->now, TP_STEP_BEGINS, number, NULL, error);
}
