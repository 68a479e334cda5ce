// front_end.c: see front_end.h.
#include "serve/front_end.h"

#include "serve/ticks.h"
#include "tperf/heap.h"

tperf_status tperf_front_end_init(tperf_front_end *front, const tperf_serve_options *options,
                                  size_t requests, tperf_error *error) {
    *front = (tperf_front_end){
        .ticks_per_token = options->front_end_per_token,
        .n = (size_t)options->pool.replicas,
    };
    if (front->ticks_per_token == 0) return TPERF_OK;
    front->idle = tperf_heap_zeroed(options->heap, front->n, sizeof *front->idle);
    front->held = tperf_heap_zeroed(options->heap, requests + 1, sizeof *front->held);
    if (front->idle && front->held) return TPERF_OK;
    tperf_front_end_release(front);
    return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for %zu requests", requests);
}

void tperf_front_end_release(tperf_front_end *front) {
    tperf_heap_free(front->idle);
    tperf_heap_free(front->held);
    *front = (tperf_front_end){0};
}

tperf_status tperf_front_end_take(tperf_front_end *front, size_t number,
                                  const tperf_requests *requests, size_t request,
                                  tperf_error *error) {
    int64_t arrival = requests->arrival[request], *ready = &requests->arrival[request];
    if (!front->idle) return TPERF_OK;
    int64_t *idle = &front->idle[number % front->n];
    int64_t start = arrival > *idle ? arrival : *idle;
    double ticks = front->ticks_per_token * (double)requests->prompt[request];
    int64_t more = ticks < 0x1p62 ? (int64_t)(ticks + 0.5) : INT64_MAX;
    if (tperf_ticks_end(start, more))
        return tperf_error_set(error, TPERF_INVALID, "the clock ends before request %zu comes",
                               request + 1);
    *ready = *idle = start + more;
    front->held[request] = *ready - arrival;
    return TPERF_OK;
}
