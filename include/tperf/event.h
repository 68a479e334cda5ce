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
typedef struct tperf_event {
    int64_t time; // ticks
    int64_t kind;
    int64_t
        sequence; // tperf_event_push numbers events as they come: equal ones leave in that order
    int64_t data; // the caller's
} tperf_event;

typedef struct tperf_event_node tperf_event_node;
typedef struct tperf_event_slot tperf_event_slot;

// A queue of a heap and zeroes is empty and may be released.
typedef struct tperf_event_queue {
    const tperf_heap *heap;  // the caller's: pays for the queue
    tperf_event_node *nodes; // [capacity] a binary heap of `count`
    tperf_event_slot *slots; // [capacity] where each event is in the heap, for removal by handle
    size_t count, capacity;
    uint32_t spare;        // the first slot without an event
    int64_t next_sequence; // of the next event pushed
} tperf_event_queue;

// Names an event until it leaves the queue; never reused for another one (of 2^32 in its slot).
typedef uint64_t tperf_event_handle;

void tperf_event_queue_release(tperf_event_queue *queue); // its heap stays
void tperf_event_queue_clear(tperf_event_queue *queue);   // empty again; keeps its memory

// Adds an event after all equal ones. handle may be NULL. On failure the queue is as it was.
tperf_status tperf_event_push(tperf_event_queue *queue, int64_t time, int64_t kind, int64_t data,
                              tperf_event_handle *handle, tperf_error *error);

// Adds an event whose sequence the caller has chosen; no two events may have the same order.
tperf_status tperf_event_insert(tperf_event_queue *queue, tperf_event event,
                                tperf_event_handle *handle, tperf_error *error);

const tperf_event *tperf_event_first(const tperf_event_queue *queue); // NULL when empty
bool tperf_event_pop(tperf_event_queue *queue, tperf_event *out);     // false when empty

// Takes an event out of the middle; false when it has left already. O(log n), as push and pop are.
bool tperf_event_remove(tperf_event_queue *queue, tperf_event_handle handle);

#endif
