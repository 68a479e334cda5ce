// fleet.h: engines behind a router on one clock. The only file that schedules events and counts (fleet.c),
// with the one that ends and begins steps (step.c).
#ifndef TPERF_SERVE_FLEET_H
#define TPERF_SERVE_FLEET_H

#include "serve/replica.h"

// What happens first within an instant; docs/serving.md has the list.
typedef enum tperf_serve_event {
    TPERF_STEP_ENDS, // answers grow, blocks come free, and a closed loop's next requests are released
    TPERF_ARRIVES,   // a request joins a queue: also one that the end of a step has just released
    TPERF_TRANSFERRED, // a request's keys and values are where it decodes
    TPERF_STEP_BEGINS, // the batch is formed of all that has arrived
} tperf_serve_event;

enum { TPERF_MOST_STAGES = 64 };

// A sequence that gets a token, or several, at the end of a batch.
typedef struct tperf_member {
    int32_t sequence, verifying;
} tperf_member;

// What a lane has in a batch under way.
typedef struct tperf_flight {
    tperf_member *members; // [n of capacity], in the batch's order
    int32_t *chunks;       // [n_chunks of capacity] sequences whose prompt goes on after it
    int32_t n, n_chunks, capacity;
} tperf_flight;

// An engine with a queue and a cache of its own: a rank of a replica.
typedef struct tperf_lane {
    tperf_replica replica;
    tperf_flight *flights; // [stages of its pool]
    int64_t fruitless;     // preemptions since a token came out
    bool has_preempted;
    tperf_step_record record; // of the newest step
} tperf_lane;

// Lanes whose steps begin and end together.
typedef struct tperf_unit {
    const tperf_serve_pool *pool;
    int32_t first, n; // lanes
    bool
        called; // the event of its next beginning is in the queue, or without stages that of its end
    int32_t next, under_way; // flights: the next to begin, and how many have not ended
    int64_t free, last;      // ticks: when the first stage is free; when the newest batch ends
    bool prefills;           // of the prefill pool
} tperf_unit;

typedef struct tperf_fleet {
    const tperf_serve_options *options;
    tperf_requests *requests;
    tperf_served *served;
    tperf_lane *lanes;                   // [n_lanes], those of the prefill pool first
    tperf_unit *units;                   // [n_units]
    int32_t *unit_of;                    // [n_lanes]
    int32_t n_lanes, n_units, n_prefill; // n_prefill: lanes
    int32_t *load;                       // [n_lanes] requests waiting and running
    const int32_t *order;                // the requests by arrival; NULL: as they are
    size_t next,
        stride; // the place in that order of the next to arrive, and how far the one after it is
    tperf_event_queue events;
    int64_t now, patience; // patience: fruitless preemptions until the run gives up
    size_t arrived;        // requests so far, rejected ones too
    uint64_t present,
        area; // requests in the system, and the time integral of their number modulo 2^64
    size_t steps_capacity;
    tperf_serve_totals totals;
} tperf_fleet;

// replicas: of the options' pool that this fleet has.
tperf_status tperf_fleet_init(tperf_fleet *fleet, const tperf_serve_options *options,
                              tperf_requests *requests, tperf_served *served, const int32_t *order,
                              int32_t replicas, tperf_error *error);
void tperf_fleet_release(tperf_fleet *fleet);

// Runs every stride-th request of the order, from `first` on, and adds to *totals.
tperf_status tperf_fleet_run(tperf_fleet *fleet, size_t first, size_t stride,
                             tperf_serve_totals *totals, tperf_error *error);

void tperf_totals_add(tperf_serve_totals *sum, const tperf_serve_totals *totals);

// Chooses the lane of an arriving request, among those that prefill.
tperf_status tperf_route(tperf_fleet *fleet, size_t request, int32_t *lane, tperf_error *error);

// The least loaded of the lanes from `first` to `last` - 1; the first of several.
int32_t tperf_least_loaded(const tperf_fleet *fleet, int32_t first, int32_t last);

// --- for step.c ---

// Moves the clock on, and the time integral of the number of requests with it.
void tperf_fleet_advance(tperf_fleet *fleet, int64_t now);

// Takes the steps from now on in which nobody comes or goes and everybody gets a token, if there are any.
tperf_status tperf_coast(tperf_fleet *fleet, tperf_unit *unit, tperf_error *error);

tperf_status tperf_step_begin(tperf_fleet *fleet, int32_t unit, tperf_error *error);
tperf_status tperf_step_end(tperf_fleet *fleet, int32_t unit, int32_t flight, tperf_error *error);

// Takes note of an answered request, or sends one that the prefill pool is done with on. In a closed loop an answer
// releases the next request.
tperf_status tperf_fleet_finish(tperf_fleet *fleet, int32_t lane, const tperf_sequence *sequence,
                                tperf_error *error);

#endif
