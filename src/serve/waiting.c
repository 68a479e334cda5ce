// waiting.c: see waiting.h.
#include "serve/waiting.h"

void tperf_waiting_reset(tperf_waiting *waiting, bool by_priority, const tperf_heap *heap) {
    waiting->heap = waiting->queue.heap = heap;
    waiting->by_priority = by_priority;
    waiting->count = waiting->head = 0;
    tperf_event_queue_clear(&waiting->queue);
}

void tperf_waiting_release(tperf_waiting *waiting) {
    tperf_heap_free(waiting->ring);
    tperf_event_queue_release(&waiting->queue);
    *waiting = (tperf_waiting){0};
}

static tperf_status grow(tperf_waiting *waiting, tperf_error *error) {
    size_t capacity = waiting->capacity ? 2 * waiting->capacity : 64;
    tperf_waiter *ring = tperf_heap_new(waiting->heap, capacity, sizeof *ring);
    if (!ring)
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for waiting requests");
    for (size_t i = 0; i < waiting->count; i++)
        ring[i] = waiting->ring[(waiting->head + i) & (waiting->capacity - 1)];
    tperf_heap_free(waiting->ring);
    waiting->ring = ring;
    waiting->head = 0;
    waiting->capacity = capacity;
    return TPERF_OK;
}

static tperf_status add_to_heap(tperf_waiting *waiting, tperf_waiter waiter,
                                const tperf_requests *requests, tperf_error *error) {
    tperf_event event = {
        .time = requests->priority ? requests->priority[waiter.request] : 0,
        .kind = requests->arrival[waiter.request],
        .sequence = waiter.request,
        .data = waiter.sequence,
    };
    TPERF_TRY(tperf_event_insert(&waiting->queue, event, NULL, error));
    waiting->count++;
    return TPERF_OK;
}

tperf_status tperf_waiting_add(tperf_waiting *waiting, tperf_waiter waiter,
                               const tperf_requests *requests, bool in_front, tperf_error *error) {
    if (waiting->by_priority) return add_to_heap(waiting, waiter, requests, error);
    if (waiting->count == waiting->capacity) TPERF_TRY(grow(waiting, error));
    size_t mask = waiting->capacity - 1;
    if (in_front) waiting->head = (waiting->head - 1) & mask;
    waiting->ring[in_front ? waiting->head : (waiting->head + waiting->count) & mask] = waiter;
    waiting->count++;
    return TPERF_OK;
}

tperf_waiter tperf_waiting_first(const tperf_waiting *waiting) {
    if (!waiting->by_priority) return waiting->ring[waiting->head];
    const tperf_event *first = tperf_event_first(&waiting->queue);
    return (tperf_waiter){(int32_t)first->sequence, (int32_t)first->data};
}

tperf_waiter tperf_waiting_at(const tperf_waiting *waiting, size_t place) {
    return waiting->ring[(waiting->head + place) & (waiting->capacity - 1)];
}

void tperf_waiting_drop_first(tperf_waiting *waiting) {
    tperf_event gone;
    if (waiting->by_priority)
        tperf_event_pop(&waiting->queue, &gone);
    else
        waiting->head = (waiting->head + 1) & (waiting->capacity - 1);
    waiting->count--;
}
