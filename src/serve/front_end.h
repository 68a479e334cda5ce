// front_end.h: what stands before the engines: processes that speak HTTP, each an event loop with a tokenizer beside it.
// A loop takes turns: what came while it was busy waits, is then handled together, and is passed on together; so a
// request that comes alone takes its own time, and of many that come at once each takes the time of all. The tokenizer
// reads one prompt after another, as the loop hands them over, while the loop goes on.
#ifndef TPERF_SERVE_FRONT_END_H
#define TPERF_SERVE_FRONT_END_H

#include "tperf/serve.h"

enum { TPERF_NO_REQUEST = -1 };

// Requests in the order in which they came, linked through tperf_front_ends's `after`; TPERF_NO_REQUEST: none.
typedef struct tperf_line_of_requests {
    int32_t first, last;
} tperf_line_of_requests;

typedef struct tperf_front_end {
    tperf_line_of_requests waiting, inside; // inside: those of the turn under way
    bool called;                            // an event for the end of a turn is queued
    int64_t idle;                           // ticks: when the tokenizer has read its last prompt
} tperf_front_end;

typedef struct tperf_front_ends {
    double ticks,
        ticks_per_token;   // of a request in the loop; of each token of its prompt in the tokenizer
    size_t n, called;      // called: requests that came so far, which go to the front ends in turn
    tperf_front_end *each; // [n]; none: requests reach the engines at once
    int32_t *after;        // [requests] the next in its line
    int64_t *came,
        *read; // [requests] ticks: when it came (-1: not yet), and when its prompt is read
} tperf_front_ends;

// Front ends of `replicas` replicas. Without times of requests there are none.
tperf_status tperf_front_ends_init(tperf_front_ends *fronts, const tperf_serve_options *options,
                                   int32_t replicas, size_t requests, tperf_error *error);
void tperf_front_ends_release(tperf_front_ends *fronts);
void tperf_front_ends_reset(tperf_front_ends *fronts);

// A request comes: returns the front end that it waits at.
size_t tperf_front_ends_add(tperf_front_ends *fronts, int32_t request, int64_t now);

// Begins the next turn with all that wait, after those of the last one have been passed on; *end: when it ends.
tperf_status tperf_front_end_turn(tperf_front_ends *fronts, size_t number,
                                  const tperf_requests *requests, int64_t now, int64_t *end,
                                  tperf_error *error);

// Takes the next request of the turn that has ended; TPERF_NO_REQUEST: none is left.
int32_t tperf_front_end_pass(tperf_front_ends *fronts, size_t number);

#endif
