// waiting.h: the requests that wait for an engine: first come, first served, or by priority.
#ifndef TPERF_SERVE_WAITING_H
#define TPERF_SERVE_WAITING_H

#include "tperf/event.h"
#include "tperf/serve.h"

typedef struct tp_waiter {
    int32_t request;
    int32_t sequence; // -1: never ran
} tp_waiter;

// A zeroed one is empty, first come, first served, and may be released.
typedef struct tp_waiting {
    const tp_heap *heap;
    bool by_priority;
    size_t count;
    tp_waiter *ring; // [capacity], a power of two
    size_t head, capacity;
    tp_event_queue
        queue; // by (priority, arrival, request), as events are by (time, kind, sequence)
} tp_waiting;

void tp_waiting_reset(tp_waiting *waiting, bool by_priority, const tp_heap *heap);
void tp_waiting_release(tp_waiting *waiting);

// Behind all others, or in front of them (a preempted request); by priority both are the same.
tp_status tp_waiting_add(tp_waiting *waiting, tp_waiter waiter, const tp_requests *requests,
                         bool in_front, tp_error *error);

tp_waiter tp_waiting_first(const tp_waiting *waiting);            // count must not be 0
tp_waiter tp_waiting_at(const tp_waiting *waiting, size_t place); // not by priority
void tp_waiting_drop_first(tp_waiting *waiting);

#endif
