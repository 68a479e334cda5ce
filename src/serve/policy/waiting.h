// waiting.h: the requests that wait for an engine: first come, first served, or by priority.
#ifndef TPERF_SERVE_WAITING_H
#define TPERF_SERVE_WAITING_H

#include "tperf/event.h"
#include "tperf/serve.h"

typedef struct tperf_waiter {
    int32_t request;
    int32_t sequence; // -1: never ran
} tperf_waiter;

// A zeroed one is empty, first come, first served, and may be released.
typedef struct tperf_waiting {
    const tperf_heap *heap;
    bool by_priority;
    size_t count;
    tperf_waiter *ring; // [capacity], a power of two
    size_t head, capacity;
    tperf_event_queue
        queue; // by (priority, arrival, request), as events are by (time, kind, sequence)
} tperf_waiting;

void tperf_waiting_reset(tperf_waiting *waiting, bool by_priority, const tperf_heap *heap);
void tperf_waiting_release(tperf_waiting *waiting);

// Behind all others, or in front of them (a preempted request); by priority both are the same.
tperf_status tperf_waiting_add(tperf_waiting *waiting, tperf_waiter waiter,
                               const tperf_requests *requests, bool in_front, tperf_error *error);

tperf_waiter tperf_waiting_first(const tperf_waiting *waiting);            // count must not be 0
tperf_waiter tperf_waiting_at(const tperf_waiting *waiting, size_t place); // not by priority
void tperf_waiting_drop_first(tperf_waiting *waiting);

#endif
