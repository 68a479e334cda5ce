// fleet.h: replicas behind a router on one clock. The only file that schedules events and counts (fleet.c),
// with the one that ends and begins a replica's steps (step.c).
#ifndef TPERF_SERVE_FLEET_H
#define TPERF_SERVE_FLEET_H

#include "serve/replica.h"

// What happens first within an instant; docs/serving.md has the list.
typedef enum tp_serve_event {
    TP_STEP_ENDS, // answers grow, blocks come free, and a closed loop's next requests are released
    TP_ARRIVES,   // a request joins a queue: also one that the end of a step has just released
    TP_STEP_BEGINS, // the batch is formed of all that has arrived
} tp_serve_event;

// A replica and the step that it is in.
typedef struct tp_lane {
    tp_replica replica;
    bool
        called; // the event of its next beginning or end is in the queue: there is never a second one
    int64_t fruitless; // preemptions since a token came out
} tp_lane;

typedef struct tp_fleet {
    const tp_serve_options *options;
    tp_requests *requests;
    tp_served *served;
    tp_lane *lanes; // [n_lanes]
    int32_t n_lanes;
    int32_t *load;        // [n_lanes] requests waiting and running
    const int32_t *order; // the requests by arrival; NULL: as they are
    size_t next,
        stride; // the place in that order of the next to arrive, and how far the one after it is
    tp_event_queue events;
    int64_t now, patience; // patience: fruitless preemptions until the run gives up
    size_t arrived;        // requests so far, rejected ones too
    uint64_t present,
        area; // requests in the system, and the time integral of their number modulo 2^64
    size_t steps_capacity;
    tp_serve_totals totals;
} tp_fleet;

tp_status tp_fleet_init(tp_fleet *fleet, const tp_serve_options *options, tp_requests *requests,
                        tp_served *served, const int32_t *order, int32_t n_lanes, tp_error *error);
void tp_fleet_release(tp_fleet *fleet);

// Runs every stride-th request of the order, from `first` on, and adds to *totals.
tp_status tp_fleet_run(tp_fleet *fleet, size_t first, size_t stride, tp_serve_totals *totals,
                       tp_error *error);

void tp_totals_add(tp_serve_totals *sum, const tp_serve_totals *totals);

// Chooses the replica of an arriving request.
tp_status tp_route(tp_fleet *fleet, size_t request, int32_t *lane, tp_error *error);

// --- for step.c ---

tp_status tp_step_begin(tp_fleet *fleet, int32_t lane, tp_error *error);
tp_status tp_step_end(tp_fleet *fleet, int32_t lane, tp_error *error);

// Takes note of an answered request. In a closed loop it releases the next one.
tp_status tp_fleet_finish(tp_fleet *fleet, int32_t lane, const tp_sequence *sequence,
                          tp_error *error);

#endif
