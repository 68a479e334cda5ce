// traffic.c: requests come to a fleet and go, see fleet.h.
#include "serve/fleet.h"
#include "serve/ticks.h"

void tperf_fleet_advance(tperf_fleet *fleet, int64_t now) {
    fleet->area += fleet->present * (uint64_t)(now - fleet->now);
    fleet->now = now;
}

tperf_status tperf_fleet_call_next(tperf_fleet *fleet, int64_t release, tperf_error *error) {
    if (fleet->next >= fleet->requests->n) return TPERF_OK;
    size_t request = fleet->order ? (size_t)fleet->order[fleet->next] : fleet->next;
    if (fleet->options->concurrency > 0) fleet->requests->arrival[request] = release;
    fleet->next += fleet->stride;
    tperf_serve_event kind = fleet->fronts.n > 0 ? TPERF_COMES : TPERF_ARRIVES;
    return tperf_event_push(&fleet->events, fleet->requests->arrival[request], kind,
                            (int64_t)request, NULL, error);
}

// In a closed loop the client thinks, then sends its next request.
static tperf_status release_next(tperf_fleet *fleet, tperf_error *error) {
    if (fleet->options->concurrency == 0) return TPERF_OK;
    if (tperf_ticks_end(fleet->now, fleet->options->think))
        return tperf_error_set(error, TPERF_INVALID,
                               "a think time ends after the clock does, at 2^63 ticks");
    return tperf_fleet_call_next(fleet, fleet->now + fleet->options->think, error);
}

// Of `own` blocks for a request's tokens, those that its first group's layers see at a time, in the largest step.
static int64_t most_seen(const tperf_engine *engine, int64_t own) {
    int32_t window = engine->pooled.window, size = engine->block_size;
    if (window == 0) return own;
    int64_t tokens = (int64_t)window - 1 + engine->max_num_batched_tokens;
    int64_t most = (tokens + size - 1) / size + 1;
    return own < most ? own : most;
}

// Whether an engine could serve the request by itself: vLLM's rule for prompts, and room in an empty cache for all
// tokens except the last, with drafts and lookahead slots.
static bool fits(const tperf_engine *engine, int64_t prompt, int64_t output) {
    if (prompt >= engine->max_model_len) return false;
    if (engine->num_blocks == 0) return true;
    int64_t drafts =
        engine->drafting.method == TPERF_DRAFT_NONE ? 0 : 2 * (int64_t)engine->drafting.tokens;
    int64_t tokens = prompt + output - 1 + drafts;
    if (tokens > engine->max_model_len) tokens = engine->max_model_len;
    int64_t own = (tokens + engine->block_size - 1) / engine->block_size;
    tperf_need beside = tperf_blocks_beside(engine, own);
    int64_t seen = most_seen(engine, own);
    return seen + beside.pool <= engine->num_blocks - 1 && beside.apart <= engine->pooled.apart;
}

static bool all_fit(const tperf_fleet *fleet, size_t request) {
    const tperf_serve_options *o = fleet->options;
    int64_t prompt = fleet->requests->prompt[request], output = fleet->requests->output[request];
    return fits(&o->pool.engine, prompt, output) &&
           (!o->prefill || fits(&o->prefill->pool.engine, prompt, 1));
}

static tperf_status reject(tperf_fleet *fleet, size_t request, tperf_error *error) {
    fleet->served->first_token[request] = fleet->served->last_token[request] = -1;
    fleet->served->tokens[request] = 0;
    if (fleet->served->details)
        fleet->served->details[request] = (tperf_request_detail){.first_scheduled = -1};
    fleet->totals.rejected++;
    return release_next(fleet, error);
}

// Queues the request in the lane, and schedules a step of its unit.
tperf_status tperf_fleet_enqueue(tperf_fleet *fleet, size_t request, int32_t number,
                                 tperf_error *error) {
    tperf_lane *lane = &fleet->lanes[number];
    tperf_unit *unit = &fleet->units[fleet->unit_of[number]];
    fleet->load[number]++;
    tperf_waiter waiter = {(int32_t)request, -1};
    TPERF_TRY(tperf_waiting_add(&lane->replica.waiting, waiter, fleet->requests, false, error));
    if (unit->called) return TPERF_OK;
    unit->called = true;
    int64_t start = unit->free > fleet->now ? unit->free : fleet->now;
    return tperf_event_push(&fleet->events, start, TPERF_STEP_BEGINS, fleet->unit_of[number], NULL,
                            error);
}

static tperf_status accept(tperf_fleet *fleet, size_t request, tperf_error *error) {
    if (fleet->present == 0 && fleet->totals.finished == 0)
        fleet->totals.first_arrival = fleet->now;
    fleet->present++;
    int32_t number = 0;
    TPERF_TRY(tperf_route(fleet, request, &number, error));
    return tperf_fleet_enqueue(fleet, request, number, error);
}

// In an open loop the next request comes whenever it will.
static tperf_status call_after(tperf_fleet *fleet, tperf_error *error) {
    return fleet->options->concurrency == 0 ? tperf_fleet_call_next(fleet, 0, error) : TPERF_OK;
}

static tperf_status admit(tperf_fleet *fleet, size_t request, tperf_error *error) {
    fleet->arrived++;
    return all_fit(fleet, request) ? accept(fleet, request, error) : reject(fleet, request, error);
}

tperf_status tperf_fleet_arrive(tperf_fleet *fleet, size_t request, tperf_error *error) {
    if (fleet->fronts.n == 0) TPERF_TRY(call_after(fleet, error));
    fleet->requests->arrival[request] = fleet->now; // later than at the front end
    return admit(fleet, request, error);
}

tperf_status tperf_fleet_come(tperf_fleet *fleet, size_t request, tperf_error *error) {
    TPERF_TRY(call_after(fleet, error));
    size_t number = tperf_front_ends_add(&fleet->fronts, (int32_t)request, fleet->now);
    tperf_front_end *front = &fleet->fronts.each[number];
    if (front->called) return TPERF_OK;
    front->called = true; // the turn begins when all that come in this instant are there
    return tperf_event_push(&fleet->events, fleet->now, TPERF_TURN_ENDS, (int64_t)number, NULL,
                            error);
}

tperf_status tperf_fleet_turn(tperf_fleet *fleet, size_t number, tperf_error *error) {
    tperf_front_ends *fronts = &fleet->fronts;
    tperf_front_end *front = &fronts->each[number];
    for (int32_t i = 0; (i = tperf_front_end_pass(fronts, number)) != TPERF_NO_REQUEST;) {
        int64_t ready = fronts->read[i] > fleet->now ? fronts->read[i] : fleet->now;
        TPERF_TRY(tperf_event_push(&fleet->events, ready, TPERF_ARRIVES, i, NULL, error));
    }
    front->called = front->waiting.first != TPERF_NO_REQUEST;
    if (!front->called) return TPERF_OK;
    int64_t end = 0;
    TPERF_TRY(tperf_front_end_turn(fronts, number, fleet->requests, fleet->now, &end, error));
    return tperf_event_push(&fleet->events, end, TPERF_TURN_ENDS, (int64_t)number, NULL, error);
}

// The prompt is computed: sends its KV cache to the lane that is least loaded on arrival.
static tperf_status transfer(tperf_fleet *fleet, const tperf_sequence *s, tperf_error *error) {
    const tperf_prefill_pool *prefill = fleet->options->prefill;
    double ticks = prefill->ticks + prefill->ticks_per_token * s->prompt;
    int64_t whole = ticks < 0x1p62 ? (int64_t)(ticks + 0.5) : INT64_MAX;
    if (tperf_ticks_end(fleet->now, whole))
        return tperf_error_set(error, TPERF_INVALID, "a transfer ends after the clock does");
    return tperf_event_push(&fleet->events, fleet->now + whole, TPERF_TRANSFERRED, s->request, NULL,
                            error);
}

tperf_status tperf_fleet_finish(tperf_fleet *fleet, int32_t lane, const tperf_sequence *s,
                                tperf_error *error) {
    tperf_served *served = fleet->served;
    tperf_serve_totals *totals = &fleet->totals;
    served->first_token[s->request] = s->first_token;
    served->last_token[s->request] = s->last_token;
    served->tokens[s->request] = s->known - s->prompt;
    if (served->details) served->details[s->request] = s->detail;
    fleet->load[lane]--;
    if (lane < fleet->n_prefill) totals->cached_tokens += s->detail.cached_tokens;
    if (lane < fleet->n_prefill && fleet->requests->output[s->request] > 1)
        return transfer(fleet, s, error);
    totals->finished++;
    totals->prompt_tokens += s->prompt;
    totals->output_tokens += s->known - s->prompt;
    if (fleet->n_prefill == 0) totals->cached_tokens += s->detail.cached_tokens;
    totals->residence += (uint64_t)(s->last_token - fleet->requests->arrival[s->request]);
    totals->end = s->last_token;
    fleet->present--;
    return release_next(fleet, error);
}
