// fleet.c: see fleet.h.
#include "serve/fleet.h"

#include "base/always.h"
#include "serve/ticks.h"

enum { EVENTS_BETWEEN_STOPS = 4096 };

static int32_t at_least_one(int32_t n) {
    return n > 0 ? n : 1;
}

static int32_t lanes_of(const tperf_serve_pool *pool, int32_t replicas) {
    return replicas * at_least_one(pool->ranks);
}

// Adds units for `replicas` replicas of the pool, starting at lane *lane.
static void add_units(tperf_fleet *fleet, const tperf_serve_pool *pool, int32_t replicas,
                      bool prefills, int32_t *lane) {
    int32_t ranks = at_least_one(pool->ranks);
    for (int32_t i = 0; i < replicas; i++) {
        for (int32_t k = 0; k < ranks; k++)
            fleet->unit_of[*lane + k] = fleet->n_units;
        fleet->units[fleet->n_units++] =
            (tperf_unit){.pool = pool, .first = *lane, .n = ranks, .prefills = prefills};
        *lane += ranks;
    }
}

static bool reserve(tperf_fleet *fleet, const tperf_heap *heap, int32_t n_lanes) {
    fleet->lanes = tperf_heap_zeroed(heap, (size_t)n_lanes, sizeof *fleet->lanes);
    fleet->units = tperf_heap_zeroed(heap, (size_t)n_lanes, sizeof *fleet->units);
    fleet->unit_of = tperf_heap_zeroed(heap, (size_t)n_lanes, sizeof *fleet->unit_of);
    fleet->load = tperf_heap_zeroed(heap, (size_t)n_lanes, sizeof *fleet->load);
    if (!fleet->lanes || !fleet->units || !fleet->unit_of || !fleet->load) return false;
    fleet->n_lanes = n_lanes;
    return true;
}

static bool reserve_flights(tperf_fleet *fleet, const tperf_heap *heap) {
    for (int32_t i = 0; i < fleet->n_lanes; i++) {
        int32_t stages = at_least_one(fleet->units[fleet->unit_of[i]].pool->stages);
        fleet->lanes[i].flights =
            tperf_heap_zeroed(heap, (size_t)stages, sizeof *fleet->lanes[i].flights);
        if (!fleet->lanes[i].flights) return false;
    }
    return true;
}

tperf_status tperf_fleet_init(tperf_fleet *fleet, const tperf_serving *run, int32_t replicas,
                              tperf_error *error) {
    const tperf_serve_options *options = run->options;
    *fleet = (tperf_fleet){
        .options = options, .requests = run->requests, .served = run->served, .order = run->order};
    fleet->events.heap = options->heap;
    const tperf_prefill_pool *prefill = options->prefill;
    if (prefill) fleet->n_prefill = lanes_of(&prefill->pool, prefill->pool.replicas);
    int32_t n_lanes = fleet->n_prefill + lanes_of(&options->pool, replicas), lane = 0;
    bool enough = reserve(fleet, options->heap, n_lanes);
    if (enough && prefill) add_units(fleet, &prefill->pool, prefill->pool.replicas, true, &lane);
    if (enough) add_units(fleet, &options->pool, replicas, false, &lane);
    if (!enough || !reserve_flights(fleet, options->heap)) {
        tperf_fleet_release(fleet);
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for %d engines", n_lanes);
    }
    tperf_status status =
        tperf_front_ends_init(&fleet->fronts, options, replicas, run->requests->n, error);
    if (status != TPERF_OK) tperf_fleet_release(fleet);
    return status;
}

static void release_lane(const tperf_fleet *fleet, int32_t number) {
    tperf_lane *lane = &fleet->lanes[number];
    int32_t stages = at_least_one(fleet->units[fleet->unit_of[number]].pool->stages);
    for (int32_t k = 0; lane->flights && k < stages; k++) {
        tperf_heap_free(lane->flights[k].members);
        tperf_heap_free(lane->flights[k].chunks);
    }
    tperf_heap_free(lane->flights);
    tperf_replica_release(&lane->replica);
}

void tperf_fleet_release(tperf_fleet *fleet) {
    for (int32_t i = 0; i < fleet->n_lanes; i++)
        release_lane(fleet, i);
    tperf_heap_free(fleet->lanes);
    tperf_heap_free(fleet->units);
    tperf_heap_free(fleet->unit_of);
    tperf_heap_free(fleet->load);
    tperf_front_ends_release(&fleet->fronts);
    tperf_event_queue_release(&fleet->events);
    *fleet = (tperf_fleet){0};
}

// The number of preemptions without a token after which requests are considered to preempt each other forever. Under
// FCFS the first running request is never preempted and prefills one chunk per step, while each other one is preempted
// at most once per step; under priority others may precede the most urgent one for a while, hence the factor.
static int64_t patience_of(const tperf_fleet *fleet) {
    enum { FACTOR = 64, LEAST = 1000 };
    const tperf_engine *engine = &fleet->options->pool.engine;
    int64_t chunk = engine->max_num_batched_tokens, longest = 0;
    int64_t threshold = engine->long_prefill_token_threshold;
    if (threshold > 0 && threshold < chunk) chunk = threshold;
    for (size_t i = 0; i < fleet->requests->n; i++) {
        int64_t tokens = (int64_t)fleet->requests->prompt[i] + fleet->requests->output[i];
        if (tokens > longest) longest = tokens;
    }
    if (longest > engine->max_model_len) longest = engine->max_model_len;
    int64_t together = engine->max_num_seqs;
    if ((uint64_t)together > fleet->requests->n) together = (int64_t)fleet->requests->n;
    return LEAST + FACTOR * together * (longest / chunk + 2);
}

static void reset_lane(tperf_fleet *fleet, int32_t number) {
    tperf_lane *lane = &fleet->lanes[number];
    const tperf_unit *unit = &fleet->units[fleet->unit_of[number]];
    tperf_replica_reset(&lane->replica, &unit->pool->engine, fleet->requests, fleet->options->heap);
    lane->replica.prefills = unit->prefills;
    lane->replica.continues = fleet->n_prefill > 0 && !unit->prefills;
    lane->fruitless = 0;
    lane->has_preempted = false;
    lane->compiled = 0;
    for (int32_t k = 0; k < at_least_one(unit->pool->stages); k++)
        lane->flights[k].n = lane->flights[k].n_chunks = 0;
    fleet->load[number] = 0;
}

static void reset(tperf_fleet *fleet, size_t first, size_t stride) {
    for (int32_t i = 0; i < fleet->n_lanes; i++)
        reset_lane(fleet, i);
    for (int32_t i = 0; i < fleet->n_units; i++) {
        tperf_unit *unit = &fleet->units[i];
        unit->called = false;
        unit->next = unit->under_way = 0;
        unit->free = unit->last = 0;
    }
    tperf_event_queue_clear(&fleet->events);
    tperf_front_ends_reset(&fleet->fronts);
    fleet->next = first;
    fleet->stride = stride;
    fleet->now = 0;
    fleet->present = fleet->area = 0;
    fleet->arrived = 0;
    fleet->totals = (tperf_serve_totals){0};
    if (fleet->patience == 0) fleet->patience = patience_of(fleet);
}

// An event's data: a unit and one of its flights.
static int32_t flight_of(int64_t data) {
    return (int32_t)(data >> 32);
}

static tperf_status handle(tperf_fleet *fleet, const tperf_event *event, tperf_error *error) {
    switch ((tperf_serve_event)event->kind) {
    case TPERF_STEP_ENDS:
        return tperf_step_end(fleet, (int32_t)event->data, flight_of(event->data), error);
    case TPERF_COMES:
        return tperf_fleet_come(fleet, (size_t)event->data, error);
    case TPERF_TURN_ENDS:
        return tperf_fleet_turn(fleet, (size_t)event->data, error);
    case TPERF_ARRIVES:
        return tperf_fleet_arrive(fleet, (size_t)event->data, error);
    case TPERF_TRANSFERRED:
        return tperf_fleet_enqueue(fleet, (size_t)event->data,
                                   tperf_least_loaded(fleet, fleet->n_prefill, fleet->n_lanes),
                                   error);
    default: // TPERF_STEP_BEGINS
        return tperf_step_begin(fleet, (int32_t)event->data, error);
    }
}

// Every request has finished or been rejected, every block is free, and Little's law holds to the tick.
static tperf_status check_conservation(const tperf_fleet *fleet, size_t expected,
                                       tperf_error *error) {
    const tperf_serve_totals *totals = &fleet->totals;
    uint64_t left = (uint64_t)(totals->finished + totals->rejected);
    if (NEVER(left != expected || fleet->present != 0))
        return tperf_error_set(error, TPERF_INVALID,
                               "of %zu requests %llu left the simulation: a fault of tperf",
                               expected, (unsigned long long)left);
    for (int32_t i = 0; i < fleet->n_lanes; i++) {
        const tperf_replica *replica = &fleet->lanes[i].replica;
        const tperf_blocks *blocks = &replica->blocks;
        bool sound = tperf_blocks_sound(blocks);
        if (NEVER(!sound || replica->n_running > 0 || replica->waiting.count > 0 ||
                  blocks->free != blocks->usable))
            return tperf_error_set(
                error, TPERF_INVALID,
                "replica %d ends with requests or blocks in use: a fault of tperf", i + 1);
    }
    if (NEVER(fleet->area != totals->residence))
        return tperf_error_set(error, TPERF_INVALID,
                               "Little's law does not hold: a fault of tperf");
    return TPERF_OK;
}

void tperf_totals_add(tperf_serve_totals *sum, const tperf_serve_totals *t) {
    if (t->finished > 0) {
        bool none = sum->finished == 0;
        if (none || t->first_arrival < sum->first_arrival) sum->first_arrival = t->first_arrival;
        if (none || t->end > sum->end) sum->end = t->end;
    }
    sum->finished += t->finished;
    sum->rejected += t->rejected;
    sum->steps += t->steps;
    sum->preemptions += t->preemptions;
    sum->prompt_tokens += t->prompt_tokens;
    sum->output_tokens += t->output_tokens;
    sum->cached_tokens += t->cached_tokens;
    sum->scheduled_tokens += t->scheduled_tokens;
    tperf_tick_sum_join(&sum->busy, t->busy);
    tperf_tick_sum_join(&sum->prefill_busy, t->prefill_busy);
    sum->residence += t->residence;
}

static tperf_status run_events(tperf_fleet *fleet, tperf_error *error) {
    size_t n = fleet->requests->n;
    size_t at_once = fleet->options->concurrency > 0 ? (size_t)fleet->options->concurrency : 1;
    for (size_t i = 0; i < at_once && fleet->next < n; i++)
        TPERF_TRY(tperf_fleet_call_next(fleet, 0, error));
    const atomic_int *stop = fleet->options->stop;
    tperf_event event;
    for (int64_t count = 1; tperf_event_pop(&fleet->events, &event); count++) {
        if (count % EVENTS_BETWEEN_STOPS == 0 && stop && atomic_load(stop))
            return tperf_error_set(error, TPERF_INTERRUPTED, "interrupted");
        tperf_fleet_advance(fleet, event.time);
        TPERF_TRY(handle(fleet, &event, error));
    }
    return TPERF_OK;
}

// Sets arrivals back to when the requests came to the front ends.
static void set_back(tperf_fleet *fleet, size_t first, size_t stride) {
    for (size_t i = first; fleet->fronts.n > 0 && i < fleet->requests->n; i += stride) {
        size_t request = fleet->order ? (size_t)fleet->order[i] : i;
        int64_t *came = &fleet->fronts.came[request];
        if (*came >= 0) fleet->requests->arrival[request] = *came;
        *came = -1;
    }
}

tperf_status tperf_fleet_run(tperf_fleet *fleet, size_t first, size_t stride,
                             tperf_serve_totals *totals, tperf_error *error) {
    reset(fleet, first, stride);
    size_t n = fleet->requests->n, expected = first < n ? (n - first - 1) / stride + 1 : 0;
    tperf_status status = run_events(fleet, error);
    if (status == TPERF_OK) status = check_conservation(fleet, expected, error);
    set_back(fleet, first, stride);
    TPERF_TRY(status);
    tperf_totals_add(totals, &fleet->totals);
    return TPERF_OK;
}
