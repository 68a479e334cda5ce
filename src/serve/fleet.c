// fleet.c: see fleet.h.
#include "serve/fleet.h"

enum { EVENTS_BETWEEN_STOPS = 4096 };

// --- requests come and go ---

// Brings the time integral of the number of requests up to date.
static void advance_clock(tp_fleet *fleet, int64_t now) {
    fleet->area += fleet->present * (uint64_t)(now - fleet->now);
    fleet->now = now;
}

// The request's arrival as an event, when there is one left. Its time is that of the order, or `release` in
// a closed loop.
static tp_status call_next(tp_fleet *fleet, int64_t release, tp_error *error) {
    if (fleet->next >= fleet->requests->n) return TP_OK;
    size_t request = fleet->order ? (size_t)fleet->order[fleet->next] : fleet->next;
    fleet->next += fleet->stride;
    if (fleet->options->concurrency > 0) fleet->requests->arrival[request] = release;
    return tp_event_push(&fleet->events, fleet->requests->arrival[request], TP_ARRIVES,
                         (int64_t)request, NULL, error);
}

// A closed loop's client thinks, then sends its next request.
static tp_status release_next(tp_fleet *fleet, tp_error *error) {
    if (fleet->options->concurrency == 0) return TP_OK;
    if (fleet->options->think > INT64_MAX - fleet->now)
        return tp_error_set(error, TP_INVALID,
                            "a think time ends after the clock does, at 2^63 ticks");
    return call_next(fleet, fleet->now + fleet->options->think, error);
}

// Whether the engine can serve the request alone: vLLM's rule for prompts, and room in an empty cache for
// all its tokens but the last, with drafts and the slots ahead of them.
static bool fits(const tp_fleet *fleet, size_t request) {
    const tp_engine *engine = &fleet->options->engine;
    int64_t prompt = fleet->requests->prompt[request], output = fleet->requests->output[request];
    if (prompt >= engine->max_model_len) return false;
    if (engine->num_blocks == 0) return true;
    int64_t drafts =
        engine->drafting.method == TP_DRAFT_NONE ? 0 : 2 * (int64_t)engine->drafting.tokens;
    int64_t tokens = prompt + output - 1 + drafts;
    if (tokens > engine->max_model_len) tokens = engine->max_model_len;
    return (tokens + engine->block_size - 1) / engine->block_size <= engine->num_blocks - 1;
}

static tp_status reject(tp_fleet *fleet, size_t request, tp_error *error) {
    fleet->served->first_token[request] = fleet->served->last_token[request] = -1;
    fleet->served->tokens[request] = 0;
    if (fleet->served->details)
        fleet->served->details[request] = (tp_request_detail){.first_scheduled = -1};
    fleet->totals.rejected++;
    return release_next(fleet, error);
}

static tp_status accept(tp_fleet *fleet, size_t request, tp_error *error) {
    if (fleet->present == 0 && fleet->totals.finished == 0)
        fleet->totals.first_arrival = fleet->now;
    fleet->present++;
    int32_t number = 0;
    TP_TRY(tp_route(fleet, request, &number, error));
    tp_lane *lane = &fleet->lanes[number];
    fleet->load[number]++;
    tp_waiter waiter = {(int32_t)request, -1};
    TP_TRY(tp_waiting_add(&lane->replica.waiting, waiter, fleet->requests, false, error));
    if (lane->called) return TP_OK;
    lane->called = true;
    return tp_event_push(&fleet->events, fleet->now, TP_STEP_BEGINS, number, NULL, error);
}

static tp_status arrive(tp_fleet *fleet, size_t request, tp_error *error) {
    if (fleet->options->concurrency == 0) TP_TRY(call_next(fleet, 0, error));
    fleet->arrived++;
    return fits(fleet, request) ? accept(fleet, request, error) : reject(fleet, request, error);
}

tp_status tp_fleet_finish(tp_fleet *fleet, int32_t lane, const tp_sequence *s, tp_error *error) {
    tp_served *served = fleet->served;
    tp_serve_totals *totals = &fleet->totals;
    served->first_token[s->request] = s->first_token;
    served->last_token[s->request] = s->last_token;
    served->tokens[s->request] = s->known - s->prompt;
    if (served->details) served->details[s->request] = s->detail;
    totals->finished++;
    totals->prompt_tokens += s->prompt;
    totals->output_tokens += s->known - s->prompt;
    totals->cached_tokens += s->detail.cached_tokens;
    totals->residence += (uint64_t)(s->last_token - fleet->requests->arrival[s->request]);
    totals->end = s->last_token;
    fleet->present--;
    fleet->load[lane]--;
    return release_next(fleet, error);
}

// --- a run ---

tp_status tp_fleet_init(tp_fleet *fleet, const tp_serve_options *options, tp_requests *requests,
                        tp_served *served, const int32_t *order, int32_t n_lanes, tp_error *error) {
    *fleet = (tp_fleet){.options = options, .requests = requests, .served = served, .order = order};
    fleet->events.heap = options->heap;
    fleet->lanes = tp_heap_zeroed(options->heap, (size_t)n_lanes, sizeof *fleet->lanes);
    fleet->load = tp_heap_zeroed(options->heap, (size_t)n_lanes, sizeof *fleet->load);
    if (!fleet->lanes || !fleet->load) {
        tp_fleet_release(fleet);
        return tp_error_set(error, TP_NO_MEMORY, "not enough memory for %d replicas", n_lanes);
    }
    fleet->n_lanes = n_lanes;
    return TP_OK;
}

void tp_fleet_release(tp_fleet *fleet) {
    for (int32_t i = 0; i < fleet->n_lanes; i++)
        tp_replica_release(&fleet->lanes[i].replica);
    tp_heap_free(fleet->lanes);
    tp_heap_free(fleet->load);
    tp_event_queue_release(&fleet->events);
    *fleet = (tp_fleet){0};
}

// Beyond these preemptions without a token requests do so for ever. In the order of arrival the first
// running request is never preempted and prefills a chunk a step, while each other one is preempted at most
// once a step; by priority others may be ahead of the most urgent one for a while, hence the factor.
static int64_t patience_of(const tp_fleet *fleet) {
    enum { FACTOR = 64, LEAST = 1000 };
    const tp_engine *engine = &fleet->options->engine;
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

static void reset(tp_fleet *fleet, size_t first, size_t stride) {
    for (int32_t i = 0; i < fleet->n_lanes; i++) {
        tp_lane *lane = &fleet->lanes[i];
        tp_replica_reset(&lane->replica, &fleet->options->engine, fleet->requests,
                         fleet->options->heap);
        lane->called = false;
        lane->fruitless = 0;
        fleet->load[i] = 0;
    }
    tp_event_queue_clear(&fleet->events);
    fleet->next = first;
    fleet->stride = stride;
    fleet->now = 0;
    fleet->present = fleet->area = 0;
    fleet->arrived = 0;
    fleet->totals = (tp_serve_totals){0};
    if (fleet->patience == 0) fleet->patience = patience_of(fleet);
}

static tp_status handle(tp_fleet *fleet, const tp_event *event, tp_error *error) {
    switch ((tp_serve_event)event->kind) {
    case TP_STEP_ENDS:
        return tp_step_end(fleet, (int32_t)event->data, error);
    case TP_ARRIVES:
        return arrive(fleet, (size_t)event->data, error);
    case TP_STEP_BEGINS:
        break;
    }
    return tp_step_begin(fleet, (int32_t)event->data, error);
}

// Every request has left, by the one way or the other; every block is free; and Little's law holds to the tick.
static tp_status check_conservation(const tp_fleet *fleet, size_t expected, tp_error *error) {
    const tp_serve_totals *totals = &fleet->totals;
    uint64_t left = (uint64_t)(totals->finished + totals->rejected);
    if (left != expected || fleet->present != 0)
        return tp_error_set(error, TP_INVALID,
                            "of %zu requests %llu left the simulation: a fault of tperf", expected,
                            (unsigned long long)left);
    for (int32_t i = 0; i < fleet->n_lanes; i++) {
        const tp_replica *replica = &fleet->lanes[i].replica;
        const tp_blocks *blocks = &replica->blocks;
        bool empty = replica->n_running == 0 && replica->waiting.count == 0 &&
                     blocks->free == blocks->usable;
        if (!empty || !tp_blocks_sound(blocks))
            return tp_error_set(error, TP_INVALID,
                                "replica %d ends with requests or blocks in use: a fault of tperf",
                                i + 1);
    }
    if (fleet->area != totals->residence)
        return tp_error_set(error, TP_INVALID, "Little's law does not hold: a fault of tperf");
    return TP_OK;
}

void tp_totals_add(tp_serve_totals *sum, const tp_serve_totals *t) {
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
    sum->busy += t->busy;
    sum->residence += t->residence;
}

tp_status tp_fleet_run(tp_fleet *fleet, size_t first, size_t stride, tp_serve_totals *totals,
                       tp_error *error) {
    reset(fleet, first, stride);
    size_t n = fleet->requests->n, expected = first < n ? (n - first - 1) / stride + 1 : 0;
    size_t at_once = fleet->options->concurrency > 0 ? (size_t)fleet->options->concurrency : 1;
    for (size_t i = 0; i < at_once && fleet->next < n; i++)
        TP_TRY(call_next(fleet, 0, error));
    const atomic_int *stop = fleet->options->stop;
    tp_event event;
    for (int64_t count = 1; tp_event_pop(&fleet->events, &event); count++) {
        if (count % EVENTS_BETWEEN_STOPS == 0 && stop && atomic_load(stop))
            return tp_error_set(error, TP_INTERRUPTED, "interrupted");
        advance_clock(fleet, event.time);
        TP_TRY(handle(fleet, &event, error));
    }
    TP_TRY(check_conservation(fleet, expected, error));
    tp_totals_add(totals, &fleet->totals);
    return TP_OK;
}
