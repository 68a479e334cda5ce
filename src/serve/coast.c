// coast.c: fast-forwards through steps in which every running request gets a token and nothing else happens, exactly as
// step.c would take them one by one, to the tick.
#include "serve/fleet.h"
#include "serve/ticks.h"

// A stretch of uneventful steps.
typedef struct stretch {
    int64_t steps;    // before the step in which the first answer ends
    int64_t context;  // keys read in the first of them
    int64_t longest;  // the most that a request reads in it
    int64_t end;      // ticks: every step must end before
    int64_t last_gap; // ticks of the longest step except the first
    int64_t first_end, now;
} stretch;

// Whether blocks are interchangeable: no request will ever look up their content.
static bool are_alike(const tperf_lane *lane) {
    const tperf_replica *replica = &lane->replica;
    return !replica->engine->prefix_caching ||
           (!replica->requests->first_segment && !lane->has_preempted);
}

static bool may_coast(const tperf_fleet *fleet, const tperf_unit *unit, const tperf_lane *lane) {
    const tperf_replica *replica = &lane->replica;
    const tperf_engine *engine = replica->engine;
    bool nobody_comes = replica->waiting.count == 0 || replica->n_running == engine->max_num_seqs;
    return unit->n == 1 && unit->pool->stages <= 1 && !fleet->options->keep_steps &&
           engine->drafting.method == TPERF_DRAFT_NONE && nobody_comes && replica->n_running > 0 &&
           replica->n_running <= engine->max_num_batched_tokens && are_alike(lane);
}

// The blocks that a running request's tokens take after so many steps.
static int64_t own_after(const tperf_replica *replica, const tperf_sequence *s, int64_t steps) {
    int64_t size = replica->engine->block_size;
    return (s->known + steps - 1 + size - 1) / size;
}

// Blocks that the running requests' next `steps` tokens need.
static tperf_need blocks_for(const tperf_replica *replica, int64_t steps) {
    tperf_need sum = {0, 0};
    for (int32_t i = 0; i < replica->n_running; i++) {
        const tperf_sequence *s = &replica->sequences[replica->running[i]];
        tperf_need lacks = tperf_sequence_lacks(replica, s, own_after(replica, s, steps));
        sum.pool += lacks.pool;
        sum.apart += lacks.apart;
    }
    return sum;
}

// Counts the steps before any answer ends. 0 if a request does not decode, or if the keys that it sees grow with every
// step in some layers but no longer in others.
static void measure(const tperf_replica *replica, int32_t window, stretch *ahead) {
    ahead->steps = INT64_MAX;
    for (int32_t i = 0; i < replica->n_running; i++) {
        const tperf_sequence *s = &replica->sequences[replica->running[i]];
        bool decodes = s->computed == s->known - 1 && s->known > s->prompt && s->first_token >= 0;
        if (!decodes || (window > 0 && s->known < window)) {
            ahead->steps = 0;
            return;
        }
        int64_t left = s->full - s->known - 1;
        if (left < ahead->steps) ahead->steps = left;
        ahead->context += s->known;
        if (s->known > ahead->longest) ahead->longest = s->known;
    }
}

// Takes the steps one by one while they end before any other event; returns their number.
static int64_t run(tperf_fleet *fleet, const tperf_unit *unit, tperf_replica *replica,
                   stretch *ahead) {
    const tperf_step_time *time = &unit->pool->step_time;
    int64_t n = replica->n_running, taken = 0;
    tperf_step_work work = {.decodes = replica->n_running,
                            .decode_tokens = n,
                            .decode_context = ahead->context,
                            .decode_window = n * time->window,
                            .decode_longest = ahead->longest};
    for (; taken < ahead->steps; taken++) {
        int64_t ticks = time->ticks(time->context, &work, replica->chunks);
        if (ticks < 0) break;
        if (ticks == 0) ticks = 1;
        if (ticks >= ahead->end - ahead->now) break;
        fleet->now = ahead->now; // counts requests that arrive before the step begins
        tperf_replica_receive(replica, ahead->now);
        ahead->now += ticks;
        if (taken == 0)
            ahead->first_end = ahead->now;
        else if (ticks > ahead->last_gap)
            ahead->last_gap = ticks;
        work.decode_context += n;
        work.decode_longest++;
    }
    return taken;
}

static tperf_status give_tokens(tperf_replica *replica, const stretch *ahead, int64_t steps,
                                tperf_error *error) {
    for (int32_t i = 0; i < replica->n_running; i++) {
        tperf_sequence *s = &replica->sequences[replica->running[i]];
        TPERF_TRY(tperf_sequence_hold(replica, s, own_after(replica, s, steps), error));
        int64_t gap = ahead->first_end - s->last_token;
        if (ahead->last_gap > gap) gap = ahead->last_gap;
        if (gap > s->detail.longest_gap) s->detail.longest_gap = gap;
        s->known += (int32_t)steps;
        s->computed += (int32_t)steps;
        tperf_sequence_slide(replica, s, s->computed - 1); // before the last of the steps
        if (replica->engine->prefix_caching) s->cacheable = s->computed;
        s->detail.steps += (int32_t)steps;
        s->last_token = ahead->now;
    }
    return TPERF_OK;
}

tperf_status tperf_coast(tperf_fleet *fleet, tperf_unit *unit, tperf_error *error) {
    tperf_lane *lane = &fleet->lanes[unit->first];
    tperf_replica *replica = &lane->replica;
    if (!may_coast(fleet, unit, lane)) return TPERF_OK;
    const tperf_step_time *time = &unit->pool->step_time;
    if (time->n_shapes > 0 && lane->replica.n_running > time->shapes[0]) return TPERF_OK;
    int64_t start = fleet->now;
    const tperf_event *next = tperf_event_first(&fleet->events);
    stretch ahead = {.now = start, .end = next ? next->time : INT64_MAX};
    measure(replica, unit->pool->step_time.window, &ahead);
    if (ahead.steps < 1 || ahead.end <= start) return TPERF_OK;
    if (!tperf_blocks_have(&replica->blocks, blocks_for(replica, ahead.steps))) return TPERF_OK;
    int64_t steps = run(fleet, unit, replica, &ahead);
    fleet->now = start;
    if (steps == 0) return TPERF_OK;
    TPERF_TRY(give_tokens(replica, &ahead, steps, error));
    tperf_replica_decoded(replica, steps);
    lane->fruitless = 0;
    fleet->totals.steps += steps;
    fleet->totals.scheduled_tokens += steps * replica->n_running;
    tperf_tick_sum_add(&fleet->totals.busy, ahead.now - start);
    if (unit->prefills) tperf_tick_sum_add(&fleet->totals.prefill_busy, ahead.now - start);
    tperf_fleet_advance(fleet, ahead.now);
    return TPERF_OK;
}
