// step.c: a replica's step: what its batch computes, what it costs, what comes out of it.
#include <assert.h>

#include "serve/fleet.h"
#include "serve/random.h"

// --- what a batch computes ---

static tp_status hold_members(const tp_heap *heap, tp_flight *f, int32_t n, tp_error *error) {
    if (n > f->capacity) {
        int32_t capacity = 2 * n + 16;
        tp_member *members = tp_heap_grow(heap, f->members, (size_t)capacity, sizeof *members);
        if (members) f->members = members;
        int32_t *chunks = tp_heap_grow(heap, f->chunks, (size_t)capacity, sizeof *chunks);
        if (chunks) f->chunks = chunks;
        if (!members || !chunks)
            return tp_error_set(error, TP_NO_MEMORY, "not enough memory for a batch");
        f->capacity = capacity;
    }
    f->n = f->n_chunks = 0;
    return TP_OK;
}

// A request that comes from the prefill pool has its first token already.
static void take_over(const tp_fleet *fleet, const tp_replica *replica, tp_sequence *s) {
    if (!replica->continues || s->first_token >= 0) return;
    const tp_served *served = fleet->served;
    s->first_token = served->first_token[s->request];
    s->last_token = served->last_token[s->request];
    if (served->details) s->detail = served->details[s->request];
}

static void count_decode(tp_step_work *work, int64_t tokens, int64_t keys, int32_t window) {
    work->decodes++;
    work->decode_tokens += tokens;
    work->decode_context += keys;
    work->decode_window += keys < window ? keys : window;
}

static void count_prefill(tp_step_work *work, tp_chunk *chunks, int32_t tokens, int32_t before) {
    chunks[work->prefills++] = (tp_chunk){tokens, before};
    work->prefill_tokens += tokens;
    work->prefill_pairs += (int64_t)tokens * before + (int64_t)tokens * (tokens + 1) / 2;
}

// Adds up the batch's work, counts its tokens as computed from now on, and notes who gets a token at its end.
static void measure(const tp_fleet *fleet, tp_lane *lane, tp_flight *f, int32_t window,
                    tp_step_work *work) {
    tp_replica *replica = &lane->replica;
    for (int32_t i = 0; i < replica->n_running; i++) {
        int32_t id = replica->running[i];
        tp_sequence *s = &replica->sequences[id];
        int32_t tokens = s->scheduled, before = s->computed;
        if (tokens == 0) continue;
        take_over(fleet, replica, s);
        if (s->known > s->prompt && before == s->known - 1)
            count_decode(work, tokens, (int64_t)before + tokens, window);
        else
            count_prefill(work, replica->chunks, tokens, before);
        s->computed += tokens;
        s->scheduled = 0;
        s->flying++;
        s->detail.steps++;
        if (s->detail.first_scheduled < 0) s->detail.first_scheduled = fleet->now;
        if (s->computed >= s->known)
            f->members[f->n++] = (tp_member){id, s->verifying};
        else
            f->chunks[f->n_chunks++] = id;
        s->verifying = 0;
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

// A rank's part of a step: schedules it and says how long it would take alone, and until the next batch may begin.
static tp_status begin_lane(tp_fleet *fleet, const tp_unit *unit, int32_t number, int64_t *stage,
                            tp_error *error) {
    tp_lane *lane = &fleet->lanes[number];
    tp_replica *replica = &lane->replica;
    tp_step_record *record = &lane->record;
    const tp_step_time *time = &unit->pool->step_time;
    tp_flight *flight = &lane->flights[unit->next];
    *record = (tp_step_record){.start = fleet->now, .replica = number};
    flight->n = flight->n_chunks = 0;
    *stage = 0;
    if (replica->n_running == 0 && replica->waiting.count == 0) return TP_OK;
    TP_TRY(tp_schedule(replica, &record->preempted, error));
    tp_replica_receive(replica, fleet->now);
    TP_TRY(hold_members(fleet->options->heap, flight, replica->n_running, error));
    measure(fleet, lane, flight, time->window, &record->work);
    int64_t tokens = record->work.decode_tokens + record->work.prefill_tokens;
    lane->fruitless += record->preempted;
    lane->has_preempted = lane->has_preempted || record->preempted > 0;
    if (unit->under_way == 0) TP_TRY(check_progress(fleet, lane, tokens, record->preempted, error));
    record->running = replica->n_running;
    record->waiting = (int32_t)replica->waiting.count;
    record->free_blocks = replica->blocks.usable < INT32_MAX ? replica->blocks.free : -1;
    if (tokens == 0) return TP_OK;
    record->duration = time->ticks(time->context, &record->work, replica->chunks);
    int32_t stages = unit->pool->stages > 1 ? unit->pool->stages : 1;
    *stage = stages == 1         ? record->duration
             : time->stage_ticks ? time->stage_ticks(time->context, &record->work, replica->chunks)
                                 : record->duration / stages + 1;
    if (record->duration < 0 || *stage < 0 || record->duration > INT64_MAX - fleet->now)
        return tp_error_set(error, TP_INVALID,
                            "a step at tick %lld takes %lld ticks: the clock ends at 2^63",
                            (long long)fleet->now, (long long)record->duration);
    if (record->duration == 0) record->duration = 1;
    return TP_OK;
}

static bool did_something(const tp_step_record *r) {
    return r->preempted > 0 || r->work.decodes > 0 || r->work.prefills > 0;
}

static tp_status note_step(tp_fleet *fleet, const tp_unit *unit, const tp_step_record *record,
                           tp_error *error) {
    tp_serve_totals *t = &fleet->totals;
    t->busy += record->duration;
    if (unit->prefills) t->prefill_busy += record->duration;
    if (!did_something(record)) return TP_OK;
    t->steps++;
    t->preemptions += record->preempted;
    t->scheduled_tokens += record->work.decode_tokens + record->work.prefill_tokens;
    return fleet->options->keep_steps ? keep_step(fleet, record, error) : TP_OK;
}

static tp_status call(tp_fleet *fleet, tp_unit *unit, int32_t number, int64_t at, tp_error *error) {
    unit->called = true;
    return tp_event_push(&fleet->events, at, TP_STEP_BEGINS, number, NULL, error);
}

// The batch has begun: when it ends, and when the next one may begin.
static tp_status launch(tp_fleet *fleet, tp_unit *unit, int32_t number, int64_t duration,
                        int64_t stage, tp_error *error) {
    int32_t stages = unit->pool->stages > 1 ? unit->pool->stages : 1, flight = unit->next;
    int64_t end = fleet->now + duration;
    if (stages > 1 && unit->under_way > 0 && end < unit->last + stage) end = unit->last + stage;
    unit->last = end;
    unit->free = stages > 1 ? fleet->now + stage : end;
    unit->next = (flight + 1) % stages;
    unit->under_way++;
    TP_TRY(tp_event_push(&fleet->events, end, TP_STEP_ENDS, (int64_t)flight << 32 | number, NULL,
                         error));
    if (unit->under_way < stages) return call(fleet, unit, number, unit->free, error);
    unit->called = true; // its end calls it
    return TP_OK;
}

tp_status tp_step_begin(tp_fleet *fleet, int32_t number, tp_error *error) {
    tp_unit *unit = &fleet->units[number];
    unit->called = false;
    TP_TRY(tp_coast(fleet, unit, error));
    int64_t longest = 0, longest_stage = 0;
    bool something = false;
    for (int32_t i = 0; i < unit->n; i++) {
        int64_t stage;
        TP_TRY(begin_lane(fleet, unit, unit->first + i, &stage, error));
        const tp_step_record *record = &fleet->lanes[unit->first + i].record;
        something = something || did_something(record);
        if (record->duration > longest) longest = record->duration;
        if (stage > longest_stage) longest_stage = stage;
    }
    if (!something) return TP_OK;
    for (int32_t i = 0; i < unit->n; i++) {
        fleet->lanes[unit->first + i].record.duration = longest;
        TP_TRY(note_step(fleet, unit, &fleet->lanes[unit->first + i].record, error));
    }
    return launch(fleet, unit, number, longest, longest_stage, error);
}

// How many of the drafts that were verified are right.
static int32_t accept(const tp_drafting *drafting, tp_sequence *s, int32_t verified) {
    uint64_t v = (uint64_t)s->verifications++;
    if (drafting->n_accepted) {
        int32_t right = drafting->accepted[((uint64_t)s->request + v) % drafting->n_accepted];
        return right < verified ? right : verified;
    }
    tp_random random = tp_random_of(drafting->seed, TP_DRAW_ACCEPT, (uint64_t)s->request);
    random = tp_random_of(tp_random_bits(&random), TP_DRAW_ACCEPT, v);
    int32_t right = 0;
    while (right < verified && tp_random_unit(&random) < drafting->acceptance)
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
static bool advance(const tp_fleet *fleet, tp_lane *lane, tp_sequence *s, int32_t verified) {
    const tp_drafting *drafting = &lane->replica.engine->drafting;
    int32_t right = verified > 0 ? accept(drafting, s, verified) : 0;
    s->computed -= verified - right;
    s->known = right + 1 < s->full - s->known ? s->known + right + 1 : s->full;
    s->drafts = drafting->method == TP_DRAFT_NONE ? 0 : drafting->tokens;
    note_tokens(lane, s, fleet->now);
    return s->known == s->full;
}

// Takes those who have ended, whose request is below 0 by now, out of the running list.
static void close_ranks(tp_replica *replica) {
    int32_t kept = 0;
    for (int32_t i = 0; i < replica->n_running; i++) {
        int32_t id = replica->running[i];
        if (replica->sequences[id].flying >= 0)
            replica->running[kept++] = id;
        else
            tp_replica_end_sequence(replica, id);
    }
    replica->n_running = kept;
}

static tp_status end_lane(tp_fleet *fleet, int32_t number, int32_t flight, tp_error *error) {
    tp_lane *lane = &fleet->lanes[number];
    tp_replica *replica = &lane->replica;
    tp_flight *f = &lane->flights[flight];
    bool ended = false;
    for (int32_t i = 0; i < f->n_chunks; i++)
        replica->sequences[f->chunks[i]].flying--;
    for (int32_t i = 0; i < f->n; i++) {
        tp_sequence *s = &replica->sequences[f->members[i].sequence];
        s->flying--;
        if (!advance(fleet, lane, s, f->members[i].verifying)) continue;
        TP_TRY(tp_fleet_finish(fleet, number, s, error));
        s->flying = -1;
        ended = true;
    }
    f->n = f->n_chunks = 0;
    if (ended) close_ranks(replica);
    assert(fleet->totals.steps % 16 != 0 || tp_blocks_sound(&replica->blocks));
    return TP_OK;
}

tp_status tp_step_end(tp_fleet *fleet, int32_t number, int32_t flight, tp_error *error) {
    tp_unit *unit = &fleet->units[number];
    bool full = unit->under_way == (unit->pool->stages > 1 ? unit->pool->stages : 1);
    unit->under_way--;
    for (int32_t i = 0; i < unit->n; i++)
        TP_TRY(end_lane(fleet, unit->first + i, flight, error));
    if (!full && unit->called) return TP_OK;
    if (unit->free > fleet->now) return call(fleet, unit, number, unit->free, error);
    const tp_event *next = tp_event_first(&fleet->events);
    if (!next || next->time > fleet->now)
        return tp_step_begin(fleet, number, error); // nobody comes between
    return call(fleet, unit, number, fleet->now, error);
}
