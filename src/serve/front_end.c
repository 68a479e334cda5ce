// front_end.c: see front_end.h.
#include "serve/front_end.h"

#include "serve/ticks.h"
#include "tperf/heap.h"

static const tperf_line_of_requests EMPTY = {TPERF_NO_REQUEST, TPERF_NO_REQUEST};

void tperf_front_ends_reset(tperf_front_ends *fronts) {
    fronts->called = 0;
    for (size_t i = 0; i < fronts->n; i++)
        fronts->each[i] = (tperf_front_end){.waiting = EMPTY, .inside = EMPTY};
}

tperf_status tperf_front_ends_init(tperf_front_ends *fronts, const tperf_serve_options *options,
                                   int32_t replicas, size_t requests, tperf_error *error) {
    *fronts = (tperf_front_ends){.ticks = options->front_end,
                                 .ticks_per_token = options->front_end_per_token};
    if (fronts->ticks == 0 && fronts->ticks_per_token == 0) return TPERF_OK;
    size_t n = (size_t)replicas * (size_t)(options->front_ends > 0 ? options->front_ends : 1);
    fronts->each = tperf_heap_zeroed(options->heap, n, sizeof *fronts->each);
    fronts->after = tperf_heap_zeroed(options->heap, requests + 1, sizeof *fronts->after);
    fronts->came = tperf_heap_zeroed(options->heap, requests + 1, sizeof *fronts->came);
    fronts->read = tperf_heap_zeroed(options->heap, requests + 1, sizeof *fronts->read);
    if (!fronts->each || !fronts->after || !fronts->came || !fronts->read) {
        tperf_front_ends_release(fronts);
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for %zu requests",
                               requests);
    }
    for (size_t i = 0; i < requests; i++)
        fronts->came[i] = -1;
    fronts->n = n;
    tperf_front_ends_reset(fronts);
    return TPERF_OK;
}

void tperf_front_ends_release(tperf_front_ends *fronts) {
    tperf_heap_free(fronts->each);
    tperf_heap_free(fronts->after);
    tperf_heap_free(fronts->came);
    tperf_heap_free(fronts->read);
    *fronts = (tperf_front_ends){0};
}

size_t tperf_front_ends_add(tperf_front_ends *fronts, int32_t request, int64_t now) {
    size_t number = fronts->called++ % fronts->n;
    tperf_line_of_requests *line = &fronts->each[number].waiting;
    fronts->came[request] = now;
    fronts->after[request] = TPERF_NO_REQUEST;
    if (line->first == TPERF_NO_REQUEST)
        line->first = request;
    else
        fronts->after[line->last] = request;
    line->last = request;
    return number;
}

// The moment `ticks` after another, or INT64_MAX.
static int64_t later(int64_t moment, double ticks) {
    return tperf_ticks_both(moment, ticks < 0x1p62 ? (int64_t)(ticks + 0.5) : INT64_MAX);
}

tperf_status tperf_front_end_turn(tperf_front_ends *fronts, size_t number,
                                  const tperf_requests *requests, int64_t now, int64_t *end,
                                  tperf_error *error) {
    tperf_front_end *front = &fronts->each[number];
    front->inside = front->waiting;
    front->waiting = EMPTY;
    double ticks = 0;
    for (int32_t i = front->inside.first; i != TPERF_NO_REQUEST; i = fronts->after[i]) {
        int64_t handed = later(now, ticks += fronts->ticks);
        int64_t start = handed > front->idle ? handed : front->idle;
        front->idle = fronts->read[i] = later(start, fronts->ticks_per_token * requests->prompt[i]);
        if (fronts->read[i] == INT64_MAX)
            return tperf_error_set(error, TPERF_INVALID, "the clock ends before request %d comes",
                                   (int)i + 1);
    }
    *end = later(now, ticks);
    return TPERF_OK;
}

int32_t tperf_front_end_pass(tperf_front_ends *fronts, size_t number) {
    tperf_line_of_requests *line = &fronts->each[number].inside;
    int32_t request = line->first;
    if (request != TPERF_NO_REQUEST) line->first = fronts->after[request];
    return request;
}
