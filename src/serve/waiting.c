// waiting.c: see waiting.h.
#include "serve/waiting.h"

void tp_waiting_reset(tp_waiting *waiting, bool by_priority, const tp_heap *heap) {
    waiting->heap = waiting->queue.heap = heap;
    waiting->by_priority = by_priority;
    waiting->count = waiting->head = 0;
    tp_event_queue_clear(&waiting->queue);
}

void tp_waiting_release(tp_waiting *waiting) {
    tp_heap_free(waiting->ring);
    tp_event_queue_release(&waiting->queue);
    *waiting = (tp_waiting){0};
}

static tp_status grow(tp_waiting *waiting, tp_error *error) {
    size_t capacity = waiting->capacity ? 2 * waiting->capacity : 64;
    tp_waiter *ring = tp_heap_new(waiting->heap, capacity, sizeof *ring);
    if (!ring) return tp_error_set(error, TP_NO_MEMORY, "not enough memory for waiting requests");
    for (size_t i = 0; i < waiting->count; i++)
        ring[i] = waiting->ring[(waiting->head + i) & (waiting->capacity - 1)];
    tp_heap_free(waiting->ring);
    waiting->ring = ring;
    waiting->head = 0;
    waiting->capacity = capacity;
    return TP_OK;
}

static tp_status add_to_heap(tp_waiting *waiting, tp_waiter waiter, const tp_requests *requests,
                             tp_error *error) {
    tp_event event = {
        .time = requests->priority ? requests->priority[waiter.request] : 0,
        .kind = requests->arrival[waiter.request],
        .sequence = waiter.request,
        .data = waiter.sequence,
    };
    TP_TRY(tp_event_insert(&waiting->queue, event, NULL, error));
    waiting->count++;
    return TP_OK;
}

tp_status tp_waiting_add(tp_waiting *waiting, tp_waiter waiter, const tp_requests *requests,
                         bool in_front, tp_error *error) {
    if (waiting->by_priority) return add_to_heap(waiting, waiter, requests, error);
    if (waiting->count == waiting->capacity) TP_TRY(grow(waiting, error));
    size_t mask = waiting->capacity - 1;
    if (in_front) waiting->head = (waiting->head - 1) & mask;
    waiting->ring[in_front ? waiting->head : (waiting->head + waiting->count) & mask] = waiter;
    waiting->count++;
    return TP_OK;
}

tp_waiter tp_waiting_first(const tp_waiting *waiting) {
    if (!waiting->by_priority) return waiting->ring[waiting->head];
    const tp_event *first = tp_event_first(&waiting->queue);
    return (tp_waiter){(int32_t)first->sequence, (int32_t)first->data};
}

tp_waiter tp_waiting_at(const tp_waiting *waiting, size_t place) {
    return waiting->ring[(waiting->head + place) & (waiting->capacity - 1)];
}

void tp_waiting_drop_first(tp_waiting *waiting) {
    tp_event gone;
    if (waiting->by_priority)
        tp_event_pop(&waiting->queue, &gone);
    else
        waiting->head = (waiting->head + 1) & (waiting->capacity - 1);
    waiting->count--;
}
