// event.h: a queue of events in one total order, for simulators.
// Time is a whole number of ticks (a nanosecond, unless the caller says otherwise), so sums are exact in any order. The
// queue knows nothing of tasks, resources or requests: an event carries a number for the caller.
#ifndef TPERF_EVENT_H
#define TPERF_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tperf/error.h"
#include "tperf/heap.h"

// Events are ordered by (time, kind, sequence), smallest first. The caller's kinds are one enum, in the order in which
// they happen within an instant.
typedef struct tperf_event {
    int64_t time; // ticks
    int64_t kind;
    int64_t sequence; // push order, which breaks ties
    int64_t data;     // the caller's
} tperf_event;

typedef struct tperf_event_node tperf_event_node;
typedef struct tperf_event_slot tperf_event_slot;

// A zeroed queue with a heap is empty and may be released.
typedef struct tperf_event_queue {
    const tperf_heap *heap;  // the caller's allocator, charged for the queue
    tperf_event_node *nodes; // [capacity] a binary heap of `count` events
    tperf_event_slot *slots; // [capacity] each event's index in the heap, for removal by handle
    size_t count, capacity;
    uint32_t spare;        // the first free slot
    int64_t next_sequence; // of the next event pushed
} tperf_event_queue;

// Identifies an event until it leaves the queue; a slot's handles repeat only after 2^32 events.
typedef uint64_t tperf_event_handle;

void tperf_event_queue_release(tperf_event_queue *queue); // does not release the heap
void tperf_event_queue_clear(tperf_event_queue *queue);   // empties it; keeps its memory

// Adds an event after all equal ones. handle may be NULL. On failure the queue is unchanged.
tperf_status tperf_event_push(tperf_event_queue *queue, int64_t time, int64_t kind, int64_t data,
                              tperf_event_handle *handle, tperf_error *error);

// Adds an event with the caller's sequence number; no two events may compare equal.
tperf_status tperf_event_insert(tperf_event_queue *queue, tperf_event event,
                                tperf_event_handle *handle, tperf_error *error);

const tperf_event *tperf_event_first(const tperf_event_queue *queue); // NULL when empty
bool tperf_event_pop(tperf_event_queue *queue, tperf_event *out);     // false when empty

// Removes an event from anywhere in the queue; false if it has left. O(log n), like push and pop.
bool tperf_event_remove(tperf_event_queue *queue, tperf_event_handle handle);

#endif
