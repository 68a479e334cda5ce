// front_end.h: what stands before the engines. Each replica has one, whose tokenizer takes prompts one after another.
#ifndef TPERF_SERVE_FRONT_END_H
#define TPERF_SERVE_FRONT_END_H

#include "tperf/serve.h"

typedef struct tperf_front_end {
    double ticks_per_token;
    size_t n;      // replicas; prompts go to their front ends in turn
    int64_t *idle; // [n] ticks: when each is done with its last prompt
    int64_t *held; // [requests] ticks from a request's arrival to when an engine gets it
} tperf_front_end;

// Without a time per token there is nothing to keep.
tperf_status tperf_front_end_init(tperf_front_end *front, const tperf_serve_options *options,
                                  size_t requests, tperf_error *error);
void tperf_front_end_release(tperf_front_end *front);

// Changes the arrival of a request, the `number`-th to arrive, from when it reaches the front end to when an engine gets
// it.
tperf_status tperf_front_end_take(tperf_front_end *front, size_t number,
                                  const tperf_requests *requests, size_t request,
                                  tperf_error *error);

#endif
