// fleet.h: engines behind a router on one clock. Only fleet.c, and step.c for the ends and beginnings of steps,
// schedule events and keep counts.
#ifndef TPERF_SERVE_FLEET_H
#define TPERF_SERVE_FLEET_H

#include "serve/front_end.h"
#include "serve/replica.h"

// Event kinds, in their order within an instant; docs/serving.md has the list.
typedef enum tperf_serve_event {
    TPERF_STEP_ENDS,   // answers grow, blocks are freed, a closed loop releases its next requests
    TPERF_COMES,       // a request reaches a front end, even one released in this instant
    TPERF_TURN_ENDS,   // a front end passes requests on, and turns to those that came meanwhile
    TPERF_ARRIVES,     // a request reaches the engines, and joins a queue
    TPERF_TRANSFERRED, // a request's KV cache has reached the decode pool
    TPERF_STEP_BEGINS, // the batch is formed of all arrivals so far
} tperf_serve_event;

enum { TPERF_MOST_STAGES = 64 };

// A sequence that gets tokens at the end of a batch.
typedef struct tperf_member {
    int32_t sequence, verifying;
} tperf_member;

// A lane's part of a batch in flight.
typedef struct tperf_flight {
    tperf_member *members; // [n of capacity], in the batch's order
    int32_t *chunks;       // [n_chunks of capacity] sequences with more of their prompt left
    int32_t n, n_chunks, capacity;
} tperf_flight;

// An engine with its own queue and cache: a rank of a replica.
typedef struct tperf_lane {
    tperf_replica replica;
    tperf_flight *flights; // [stages of its pool]
    int64_t fruitless;     // preemptions since the last token
    bool has_preempted;
    uint64_t compiled;        // bits: pieces of the pool's shapes that steps have met, two for each
    tperf_step_record record; // of the latest step
} tperf_lane;

// Lanes that step together.
typedef struct tperf_unit {
    const tperf_serve_pool *pool;
    int32_t first, n; // lanes
    // An event for its next step is queued, or (without stages) for the end of the current one.
    bool called;
    int32_t next, under_way; // flights: the next to begin, and the number in flight
    int64_t free, last;      // ticks: when the first stage is free; when the latest batch ends
    bool prefills;           // belongs to the prefill pool
} tperf_unit;

typedef struct tperf_fleet {
    const tperf_serve_options *options;
    tperf_requests *requests;
    tperf_served *served;
    tperf_front_ends fronts;
    tperf_lane *lanes;                   // [n_lanes], the prefill pool's first
    tperf_unit *units;                   // [n_units]
    int32_t *unit_of;                    // [n_lanes]
    int32_t n_lanes, n_units, n_prefill; // n_prefill: lanes
    int32_t *load;                       // [n_lanes] requests waiting and running
    const int32_t *order;                // the requests by arrival; NULL: already sorted
    // Position of the next arrival in that order, and the distance to the one after it.
    size_t next, stride;
    tperf_event_queue events;
    int64_t now, patience; // patience: fruitless preemptions before the run gives up
    size_t arrived;        // requests so far, including rejected ones
    // Requests in the system, and the time integral of their number modulo 2^64.
    uint64_t present, area;
    size_t steps_capacity;
    tperf_serve_totals totals;
} tperf_fleet;

// A run: what is served, and where its results go.
typedef struct tperf_serving {
    const tperf_serve_options *options;
    tperf_requests *requests;
    tperf_served *served;
    const int32_t *order; // tperf_fleet's
} tperf_serving;

// replicas: how many of the options' pool belong to this fleet.
tperf_status tperf_fleet_init(tperf_fleet *fleet, const tperf_serving *run, int32_t replicas,
                              tperf_error *error);
void tperf_fleet_release(tperf_fleet *fleet);

// Runs every stride-th request of the order from `first` on, and adds to *totals.
tperf_status tperf_fleet_run(tperf_fleet *fleet, size_t first, size_t stride,
                             tperf_serve_totals *totals, tperf_error *error);

void tperf_totals_add(tperf_serve_totals *sum, const tperf_serve_totals *totals);

// Chooses an arriving request's lane among those that prefill.
tperf_status tperf_route(tperf_fleet *fleet, size_t request, int32_t *lane, tperf_error *error);

// The least loaded lane from `first` to `last` - 1; ties: the first.
int32_t tperf_least_loaded(const tperf_fleet *fleet, int32_t first, int32_t last);

// --- traffic.c, for the files beside it ---

// Pushes the next request's coming as an event, if one is left: at its own arrival time, or at `release` in a closed
// loop.
tperf_status tperf_fleet_call_next(tperf_fleet *fleet, int64_t release, tperf_error *error);
// A request comes to a front end.
tperf_status tperf_fleet_come(tperf_fleet *fleet, size_t request, tperf_error *error);
// A front end's turn ends: its requests arrive, as soon as their prompts are read.
tperf_status tperf_fleet_turn(tperf_fleet *fleet, size_t front, tperf_error *error);
// A request arrives: it is rejected, or waits in a lane.
tperf_status tperf_fleet_arrive(tperf_fleet *fleet, size_t request, tperf_error *error);
tperf_status tperf_fleet_enqueue(tperf_fleet *fleet, size_t request, int32_t lane,
                                 tperf_error *error);

// Advances the clock, and the time integral of the number of requests.
void tperf_fleet_advance(tperf_fleet *fleet, int64_t now);

// Records an answered request, or passes one from the prefill pool on. In a closed loop an answer releases the next
// request.
tperf_status tperf_fleet_finish(tperf_fleet *fleet, int32_t lane, const tperf_sequence *sequence,
                                tperf_error *error);

// --- step.c and coast.c ---

// Fast-forwards through steps in which every request gets a token and no request comes or goes.
tperf_status tperf_coast(tperf_fleet *fleet, tperf_unit *unit, tperf_error *error);

tperf_status tperf_step_begin(tperf_fleet *fleet, int32_t unit, tperf_error *error);
tperf_status tperf_step_end(tperf_fleet *fleet, int32_t unit, int32_t flight, tperf_error *error);

#endif
