// step.c: a replica's step: the work of its batch, its duration, and its results.
#include <assert.h>

#include "serve/fleet.h"
#include "serve/load/random.h"
#include "serve/ticks.h"

// --- a batch's work ---

static tperf_status hold_members(const tperf_heap *heap, tperf_flight *f, int32_t n,
                                 tperf_error *error) {
    if (n > f->capacity) {
        int32_t capacity = 2 * n + 16;
        tperf_member *members =
            tperf_heap_grow(heap, f->members, (size_t)capacity, sizeof *members);
        if (members) f->members = members;
        int32_t *chunks = tperf_heap_grow(heap, f->chunks, (size_t)capacity, sizeof *chunks);
        if (chunks) f->chunks = chunks;
        if (!members || !chunks)
            return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for a batch");
        f->capacity = capacity;
    }
    f->n = f->n_chunks = 0;
    return TPERF_OK;
}

// A request from the prefill pool already has its first token.
static void take_over(const tperf_fleet *fleet, const tperf_replica *replica, tperf_sequence *s) {
    if (!replica->continues || s->first_token >= 0) return;
    const tperf_served *served = fleet->served;
    s->first_token = served->first_token[s->request];
    s->last_token = served->last_token[s->request];
    if (served->details) s->detail = served->details[s->request];
}

static void count_decode(tperf_step_work *work, int64_t tokens, int64_t keys, int32_t window) {
    work->decodes++;
    work->decode_tokens += tokens;
    work->decode_context += keys;
    work->decode_window += keys < window ? keys : window;
    if (keys > work->decode_longest) work->decode_longest = keys;
}

static void count_prefill(tperf_step_work *work, tperf_prefill_chunk *chunks, int32_t tokens,
                          int32_t before) {
    chunks[work->prefills++] = (tperf_prefill_chunk){tokens, before};
    work->prefill_tokens += tokens;
    work->prefill_pairs += (int64_t)tokens * before + (int64_t)tokens * (tokens + 1) / 2;
}

// Sums the batch's work, marks its tokens as computed, and notes the sequences that get a token at its end.
static void measure(const tperf_fleet *fleet, tperf_lane *lane, tperf_flight *f, int32_t window,
                    tperf_step_work *work) {
    tperf_replica *replica = &lane->replica;
    for (int32_t i = 0; i < replica->n_running; i++) {
        int32_t id = replica->running[i];
        tperf_sequence *s = &replica->sequences[id];
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
            f->members[f->n++] = (tperf_member){id, s->verifying};
        else
            f->chunks[f->n_chunks++] = id;
        s->verifying = 0;
    }
}

static tperf_status keep_step(tperf_fleet *fleet, const tperf_step_record *record,
                              tperf_error *error) {
    enum { MOST_STEPS = 1 << 24 };
    tperf_served *served = fleet->served;
    if (served->n_steps == MOST_STEPS)
        return tperf_error_set(error, TPERF_INVALID, "over %d steps are more than can be kept",
                               MOST_STEPS);
    if (served->n_steps == fleet->steps_capacity) {
        size_t capacity = 2 * fleet->steps_capacity + 256;
        tperf_step_record *steps =
            tperf_heap_grow(served->heap, served->steps, capacity, sizeof *steps);
        if (!steps)
            return tperf_error_set(error, TPERF_NO_MEMORY,
                                   "not enough memory for a record of steps");
        served->steps = steps;
        fleet->steps_capacity = capacity;
    }
    served->steps[served->n_steps++] = *record;
    return TPERF_OK;
}

// An empty batch while requests wait or run must have preempted a request; otherwise it would stay empty forever.
static tperf_status check_progress(const tperf_fleet *fleet, const tperf_lane *lane, int64_t tokens,
                                   int32_t preempted, tperf_error *error) {
    const tperf_replica *replica = &lane->replica;
    if (tokens == 0 && preempted == 0)
        return tperf_error_set(
            error, TPERF_INVALID,
            "the scheduler can neither run nor preempt any of %d running and %zu waiting "
            "requests%s",
            replica->n_running, replica->waiting.count,
            replica->engine->chunked_prefill
                ? ""
                : ": without 'chunked_prefill' a step must take a preempted request whole, so "
                  "'max_num_batched_tokens' must be at least 'max_model_len'");
    if (lane->fruitless > fleet->patience)
        return tperf_error_set(
            error, TPERF_INVALID,
            "requests preempt one another for ever: %lld preemptions without a token at tick "
            "%lld; more num_blocks or fewer max_num_seqs end it",
            (long long)lane->fruitless, (long long)fleet->now);
    return TPERF_OK;
}

// Ticks that a step of so many tokens takes longer because kernels are compiled; notes that they are.
static int64_t compile(const tperf_step_time *time, tperf_lane *lane, int64_t tokens) {
    int32_t piece = 0;
    while (piece < time->n_shapes && (double)tokens > time->shapes[piece])
        piece++;
    if (piece == 0) return 0;
    uint64_t bit = UINT64_C(1) << (2 * piece + (tokens % time->even == 0));
    bool known = lane->compiled & bit;
    lane->compiled |= bit;
    return known ? 0 : time->compile;
}

// A rank's part of a step: schedules it; returns its duration, and *stage: the delay until the next batch may begin.
static tperf_status begin_lane(tperf_fleet *fleet, const tperf_unit *unit, int32_t number,
                               int64_t *stage, tperf_error *error) {
    tperf_lane *lane = &fleet->lanes[number];
    tperf_replica *replica = &lane->replica;
    tperf_step_record *record = &lane->record;
    const tperf_step_time *time = &unit->pool->step_time;
    tperf_flight *flight = &lane->flights[unit->next];
    *record = (tperf_step_record){.start = fleet->now, .replica = number};
    flight->n = flight->n_chunks = 0;
    *stage = 0;
    if (replica->n_running == 0 && replica->waiting.count == 0) return TPERF_OK;
    TPERF_TRY(tperf_schedule(replica, &record->preempted, error));
    tperf_replica_receive(replica, fleet->now);
    TPERF_TRY(hold_members(fleet->options->heap, flight, replica->n_running, error));
    measure(fleet, lane, flight, time->window, &record->work);
    int64_t tokens = record->work.decode_tokens + record->work.prefill_tokens;
    lane->fruitless += record->preempted;
    lane->has_preempted = lane->has_preempted || record->preempted > 0;
    if (unit->under_way == 0)
        TPERF_TRY(check_progress(fleet, lane, tokens, record->preempted, error));
    record->running = replica->n_running;
    record->waiting = (int32_t)replica->waiting.count;
    record->free_blocks = replica->blocks.usable < INT32_MAX ? replica->blocks.free : -1;
    if (tokens == 0) return TPERF_OK;
    record->duration = tperf_ticks_both(time->ticks(time->context, &record->work, replica->chunks),
                                        compile(time, lane, tokens));
    if (record->duration == 0) record->duration = 1;
    int32_t stages = unit->pool->stages > 1 ? unit->pool->stages : 1;
    *stage = stages == 1         ? record->duration
             : time->stage_ticks ? time->stage_ticks(time->context, &record->work, replica->chunks)
                                 : record->duration / stages + 1;
    bool too_long = tperf_ticks_end(fleet->now, record->duration) ||
                    tperf_ticks_end(fleet->now, *stage) || tperf_ticks_end(unit->last, *stage);
    if (record->duration < 0 || *stage < 0 || too_long)
        return tperf_error_set(error, TPERF_INVALID,
                               "a step at tick %lld takes %lld ticks: the clock ends at 2^63",
                               (long long)fleet->now, (long long)record->duration);
    return TPERF_OK;
}

static bool did_something(const tperf_step_record *r) {
    return r->preempted > 0 || r->work.decodes > 0 || r->work.prefills > 0;
}

static tperf_status note_step(tperf_fleet *fleet, const tperf_unit *unit,
                              const tperf_step_record *record, tperf_error *error) {
    tperf_serve_totals *t = &fleet->totals;
    tperf_tick_sum_add(&t->busy, record->duration);
    if (unit->prefills) tperf_tick_sum_add(&t->prefill_busy, record->duration);
    if (!did_something(record)) return TPERF_OK;
    t->steps++;
    t->preemptions += record->preempted;
    t->scheduled_tokens += record->work.decode_tokens + record->work.prefill_tokens;
    return fleet->options->keep_steps ? keep_step(fleet, record, error) : TPERF_OK;
}

static tperf_status call(tperf_fleet *fleet, tperf_unit *unit, int32_t number, int64_t at,
                         tperf_error *error) {
    unit->called = true;
    return tperf_event_push(&fleet->events, at, TPERF_STEP_BEGINS, number, NULL, error);
}

// Schedules the end of the batch, and the beginning of the next one.
static tperf_status launch(tperf_fleet *fleet, tperf_unit *unit, int32_t number, int64_t duration,
                           int64_t stage, tperf_error *error) {
    int32_t stages = unit->pool->stages > 1 ? unit->pool->stages : 1, flight = unit->next;
    int64_t end = fleet->now + duration;
    if (stages > 1 && unit->under_way > 0 && end < unit->last + stage) end = unit->last + stage;
    unit->last = end;
    unit->free = stages > 1 ? fleet->now + stage : end;
    unit->next = (flight + 1) % stages;
    unit->under_way++;
    TPERF_TRY(tperf_event_push(&fleet->events, end, TPERF_STEP_ENDS, (int64_t)flight << 32 | number,
                               NULL, error));
    if (unit->under_way < stages) return call(fleet, unit, number, unit->free, error);
    unit->called = true; // the end of this batch starts the next
    return TPERF_OK;
}

tperf_status tperf_step_begin(tperf_fleet *fleet, int32_t number, tperf_error *error) {
    tperf_unit *unit = &fleet->units[number];
    unit->called = false;
    TPERF_TRY(tperf_coast(fleet, unit, error));
    int64_t longest = 0, longest_stage = 0;
    bool something = false;
    for (int32_t i = 0; i < unit->n; i++) {
        int64_t stage;
        TPERF_TRY(begin_lane(fleet, unit, unit->first + i, &stage, error));
        const tperf_step_record *record = &fleet->lanes[unit->first + i].record;
        something = something || did_something(record);
        if (record->duration > longest) longest = record->duration;
        if (stage > longest_stage) longest_stage = stage;
    }
    if (!something) return TPERF_OK;
    for (int32_t i = 0; i < unit->n; i++) {
        fleet->lanes[unit->first + i].record.duration = longest;
        TPERF_TRY(note_step(fleet, unit, &fleet->lanes[unit->first + i].record, error));
    }
    return launch(fleet, unit, number, longest, longest_stage, error);
}

// The number of verified drafts that are accepted.
static int32_t accept(const tperf_drafting *drafting, tperf_sequence *s, int32_t verified) {
    uint64_t v = (uint64_t)s->verifications++;
    if (drafting->n_accepted) {
        int32_t right = drafting->accepted[((uint64_t)s->request + v) % drafting->n_accepted];
        return right < verified ? right : verified;
    }
    tperf_random random = tperf_random_of(drafting->seed, TPERF_DRAW_ACCEPT, (uint64_t)s->request);
    random = tperf_random_of(tperf_random_bits(&random), TPERF_DRAW_ACCEPT, v);
    int32_t right = 0;
    while (right < verified && tperf_random_unit(&random) < drafting->acceptance)
        right++;
    return right;
}

static void note_tokens(tperf_lane *lane, tperf_sequence *s, int64_t now) {
    lane->fruitless = 0;
    if (s->first_token < 0)
        s->first_token = now;
    else if (now - s->last_token > s->detail.longest_gap)
        s->detail.longest_gap = now - s->last_token;
    s->last_token = now;
}

// Advances a sequence by the step's tokens; returns whether it has ended.
static bool advance(const tperf_fleet *fleet, tperf_lane *lane, tperf_sequence *s,
                    int32_t verified) {
    const tperf_drafting *drafting = &lane->replica.engine->drafting;
    int32_t right = verified > 0 ? accept(drafting, s, verified) : 0;
    s->computed -= verified - right;
    s->known = right + 1 < s->full - s->known ? s->known + right + 1 : s->full;
    s->drafts = drafting->method == TPERF_DRAFT_NONE ? 0 : drafting->tokens;
    note_tokens(lane, s, fleet->now);
    return s->known == s->full;
}

// Removes ended sequences, whose request is negative by now, from the running list.
static void close_ranks(tperf_replica *replica) {
    int32_t kept = 0;
    for (int32_t i = 0; i < replica->n_running; i++) {
        int32_t id = replica->running[i];
        if (replica->sequences[id].flying >= 0)
            replica->running[kept++] = id;
        else
            tperf_replica_end_sequence(replica, id);
    }
    replica->n_running = kept;
}

static tperf_status end_lane(tperf_fleet *fleet, int32_t number, int32_t flight,
                             tperf_error *error) {
    tperf_lane *lane = &fleet->lanes[number];
    tperf_replica *replica = &lane->replica;
    tperf_flight *f = &lane->flights[flight];
    bool ended = false;
    for (int32_t i = 0; i < f->n_chunks; i++)
        replica->sequences[f->chunks[i]].flying--;
    for (int32_t i = 0; i < f->n; i++) {
        tperf_sequence *s = &replica->sequences[f->members[i].sequence];
        s->flying--;
        if (!advance(fleet, lane, s, f->members[i].verifying)) continue;
        TPERF_TRY(tperf_fleet_finish(fleet, number, s, error));
        s->flying = -1;
        ended = true;
    }
    f->n = f->n_chunks = 0;
    if (ended) close_ranks(replica);
    assert(fleet->totals.steps % 16 != 0 || tperf_blocks_sound(&replica->blocks));
    return TPERF_OK;
}

tperf_status tperf_step_end(tperf_fleet *fleet, int32_t number, int32_t flight,
                            tperf_error *error) {
    tperf_unit *unit = &fleet->units[number];
    bool full = unit->under_way == (unit->pool->stages > 1 ? unit->pool->stages : 1);
    unit->under_way--;
    for (int32_t i = 0; i < unit->n; i++)
        TPERF_TRY(end_lane(fleet, unit->first + i, flight, error));
    if (!full && unit->called) return TPERF_OK;
    if (unit->free > fleet->now) return call(fleet, unit, number, unit->free, error);
    const tperf_event *next = tperf_event_first(&fleet->events);
    if (!next || next->time > fleet->now)
        return tperf_step_begin(fleet, number, error); // no event comes first
    return call(fleet, unit, number, fleet->now, error);
}
