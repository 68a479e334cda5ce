// event.h: a queue of events in one total order, for simulators.
// Time is a whole number of ticks (a nanosecond, unless the caller says otherwise), so that sums are
// exact in any order. The queue knows no task, resource or request: it carries a number for its caller.
#ifndef TPERF_EVENT_H
#define TPERF_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tperf/error.h"
#include "tperf/heap.h"

// Events come out by (time, kind, sequence), each the smaller first. The caller's kinds are one enum whose
// order says what happens first within an instant.
typedef struct tp_event {
    int64_t time; // ticks
    int64_t kind;
    int64_t sequence; // tp_event_push numbers events as they come: equal ones leave in that order
    int64_t data;     // the caller's
} tp_event;

typedef struct tp_event_node tp_event_node;
typedef struct tp_event_slot tp_event_slot;

// A queue of a heap and zeroes is empty and may be released.
typedef struct tp_event_queue {
    const tp_heap *heap;  // the caller's: pays for the queue
    tp_event_node *nodes; // [capacity] a binary heap of `count`
    tp_event_slot *slots; // [capacity] where each event is in the heap, for removal by handle
    size_t count, capacity;
    uint32_t spare;        // the first slot without an event
    int64_t next_sequence; // of the next event pushed
} tp_event_queue;

// Names an event until it leaves the queue; never reused for another one (of 2^32 in its slot).
typedef uint64_t tp_event_handle;

void tp_event_queue_release(tp_event_queue *queue); // its heap stays
void tp_event_queue_clear(tp_event_queue *queue);   // empty again; keeps its memory

// Adds an event after all equal ones. handle may be NULL. On failure the queue is as it was.
tp_status tp_event_push(tp_event_queue *queue, int64_t time, int64_t kind, int64_t data,
                        tp_event_handle *handle, tp_error *error);

// Adds an event whose sequence the caller has chosen; no two events may have the same order.
tp_status tp_event_insert(tp_event_queue *queue, tp_event event, tp_event_handle *handle,
                          tp_error *error);

const tp_event *tp_event_first(const tp_event_queue *queue); // NULL when empty
bool tp_event_pop(tp_event_queue *queue, tp_event *out);     // false when empty

// Takes an event out of the middle; false when it has left already. O(log n), as push and pop are.
bool tp_event_remove(tp_event_queue *queue, tp_event_handle handle);

#endif
