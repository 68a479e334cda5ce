// waiting.h: the queue of requests waiting for an engine, FCFS or by priority.
#ifndef TPERF_SERVE_WAITING_H
#define TPERF_SERVE_WAITING_H

#include "tperf/event.h"
#include "tperf/serve.h"

typedef struct tperf_waiter {
    int32_t request;
    int32_t sequence; // -1: never ran
} tperf_waiter;

// Empty and FCFS if zeroed; may then be released.
typedef struct tperf_waiting {
    const tperf_heap *heap;
    bool by_priority;
    size_t count;
    tperf_waiter *ring; // [capacity], a power of two
    size_t head, capacity;
    // By (priority, arrival, request), as events are by (time, kind, sequence).
    tperf_event_queue queue;
} tperf_waiting;

void tperf_waiting_reset(tperf_waiting *waiting, bool by_priority, const tperf_heap *heap);
void tperf_waiting_release(tperf_waiting *waiting);

// Adds behind all others, or in front (a preempted request); by priority there is no difference.
tperf_status tperf_waiting_add(tperf_waiting *waiting, tperf_waiter waiter,
                               const tperf_requests *requests, bool in_front, tperf_error *error);

tperf_waiter tperf_waiting_first(const tperf_waiting *waiting);            // count must not be 0
tperf_waiter tperf_waiting_at(const tperf_waiting *waiting, size_t place); // not by priority
void tperf_waiting_drop_first(tperf_waiting *waiting);

#endif
