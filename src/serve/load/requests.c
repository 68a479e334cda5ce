// requests.c: lists of requests and their prefixes, see tperf/serve.h.
#include <string.h>

#include "tperf/serve.h"

static tperf_status fail(const tperf_requests *requests, tperf_error *error) {
    return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for %zu requests",
                           requests->n);
}

tperf_status tperf_requests_init(tperf_requests *requests, const tperf_heap *heap, size_t n,
                                 tperf_error *error) {
    *requests = (tperf_requests){.n = n};
    requests->arrival = tperf_heap_zeroed(heap, n, sizeof *requests->arrival);
    requests->prompt = tperf_heap_zeroed(heap, n, sizeof *requests->prompt);
    requests->output = tperf_heap_zeroed(heap, n, sizeof *requests->output);
    if (requests->arrival && requests->prompt && requests->output) return TPERF_OK;
    tperf_status status = fail(requests, error);
    tperf_requests_release(requests);
    return status;
}

void tperf_requests_release(tperf_requests *requests) {
    tperf_heap_free(requests->arrival);
    tperf_heap_free(requests->prompt);
    tperf_heap_free(requests->output);
    tperf_heap_free(requests->priority);
    tperf_heap_free(requests->first_segment);
    tperf_heap_free(requests->segments);
    *requests = (tperf_requests){0};
}

tperf_status tperf_requests_share(tperf_requests *requests, const tperf_heap *heap, int32_t tokens,
                                  int64_t groups, tperf_error *error) {
    const int64_t own = INT64_C(1) << 40; // streams beyond all answers
    if (tokens < 1 || tokens > TPERF_LONGEST / 2 || groups < 1)
        return tperf_error_set(error, TPERF_INVALID,
                               "a prefix has 1 to %d tokens, and one group or more",
                               TPERF_LONGEST / 2);
    tperf_requests *r = requests;
    size_t *first = tperf_heap_new(heap, r->n + 1, sizeof *first);
    tperf_segment *segments = tperf_heap_new(heap, 2 * r->n, sizeof *segments);
    if (!first || !segments) {
        tperf_heap_free(first);
        tperf_heap_free(segments);
        return fail(r, error);
    }
    for (size_t i = 0; i < r->n; i++) {
        first[i] = 2 * i;
        segments[2 * i] = (tperf_segment){(int64_t)i % groups, tokens};
        segments[2 * i + 1] = (tperf_segment){own + (int64_t)i, r->prompt[i]};
        r->prompt[i] += tokens;
    }
    first[r->n] = 2 * r->n;
    tperf_heap_free(r->first_segment);
    tperf_heap_free(r->segments);
    r->first_segment = first;
    r->segments = segments;
    return TPERF_OK;
}
