// event.c: see tperf/event.h. A binary heap of whole keys, so that a comparison touches no other memory.
#include "tperf/event.h"

struct tp_event_node {
    tp_event event;
    uint32_t slot;
};

struct tp_event_slot {
    uint32_t at;         // in the heap; while spare, the next spare slot
    uint32_t generation; // odd while it has an event
};

enum { LEAST_CAPACITY = 16 };
static const size_t most_events = UINT32_MAX - 1;

void tp_event_queue_release(tp_event_queue *queue) {
    tp_heap_free(queue->nodes);
    tp_heap_free(queue->slots);
    *queue = (tp_event_queue){.heap = queue->heap};
}

// Spare slots from `first` on, before those that are spare already.
static void spare_slots(tp_event_queue *queue, size_t first) {
    for (size_t i = queue->capacity; i-- > first;) {
        queue->slots[i].at = queue->spare;
        queue->spare = (uint32_t)i;
    }
}

void tp_event_queue_clear(tp_event_queue *queue) {
    while (queue->count > 0) {
        tp_event_node *node = &queue->nodes[--queue->count];
        tp_event_slot *slot = &queue->slots[node->slot];
        slot->generation++;
        slot->at = queue->spare;
        queue->spare = node->slot;
    }
    queue->next_sequence = 0;
}

static tp_status grow(tp_event_queue *queue, tp_error *error) {
    size_t old = queue->capacity, capacity = old ? 2 * old : LEAST_CAPACITY;
    if (capacity > most_events) return tp_error_set(error, TP_NO_MEMORY, "too many events");
    tp_event_node *nodes = tp_heap_grow(queue->heap, queue->nodes, capacity, sizeof *nodes);
    if (nodes) queue->nodes = nodes;
    tp_event_slot *slots =
        nodes ? tp_heap_grow(queue->heap, queue->slots, capacity, sizeof *slots) : NULL;
    if (!slots) return tp_error_set(error, TP_NO_MEMORY, "not enough memory for events");
    queue->slots = slots;
    queue->capacity = capacity;
    for (size_t i = old; i < capacity; i++)
        slots[i].generation = 0;
    spare_slots(queue, old);
    return TP_OK;
}

// The one order of events.
static bool before(const tp_event *a, const tp_event *b) {
    if (a->time != b->time) return a->time < b->time;
    if (a->kind != b->kind) return a->kind < b->kind;
    return a->sequence < b->sequence;
}

static void put(tp_event_queue *queue, size_t at, const tp_event_node *node) {
    queue->nodes[at] = *node;
    queue->slots[node->slot].at = (uint32_t)at;
}

static void rise(tp_event_queue *queue, size_t at, tp_event_node node) {
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (!before(&node.event, &queue->nodes[parent].event)) break;
        put(queue, at, &queue->nodes[parent]);
        at = parent;
    }
    put(queue, at, &node);
}

static void sink(tp_event_queue *queue, size_t at, tp_event_node node) {
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= queue->count) break;
        if (child + 1 < queue->count &&
            before(&queue->nodes[child + 1].event, &queue->nodes[child].event))
            child++;
        if (!before(&queue->nodes[child].event, &node.event)) break;
        put(queue, at, &queue->nodes[child]);
        at = child;
    }
    put(queue, at, &node);
}

tp_status tp_event_insert(tp_event_queue *queue, tp_event event, tp_event_handle *handle,
                          tp_error *error) {
    if (queue->count == queue->capacity) TP_TRY(grow(queue, error));
    tp_event_node node = {.event = event, .slot = queue->spare};
    tp_event_slot *slot = &queue->slots[node.slot];
    queue->spare = slot->at;
    slot->generation++;
    if (handle) *handle = (uint64_t)slot->generation << 32 | node.slot;
    rise(queue, queue->count++, node);
    return TP_OK;
}

tp_status tp_event_push(tp_event_queue *queue, int64_t time, int64_t kind, int64_t data,
                        tp_event_handle *handle, tp_error *error) {
    tp_event event = {time, kind, queue->next_sequence, data};
    TP_TRY(tp_event_insert(queue, event, handle, error));
    queue->next_sequence++;
    return TP_OK;
}

const tp_event *tp_event_first(const tp_event_queue *queue) {
    return queue->count > 0 ? &queue->nodes[0].event : NULL;
}

// Fills the hole at `at` with the heap's last node, and gives the hole's slot back.
static void take_out(tp_event_queue *queue, size_t at) {
    uint32_t slot = queue->nodes[at].slot;
    queue->slots[slot].generation++;
    queue->slots[slot].at = queue->spare;
    queue->spare = slot;
    tp_event_node last = queue->nodes[--queue->count];
    if (at == queue->count) return;
    if (at > 0 && before(&last.event, &queue->nodes[(at - 1) / 2].event))
        rise(queue, at, last);
    else
        sink(queue, at, last);
}

bool tp_event_pop(tp_event_queue *queue, tp_event *out) {
    if (queue->count == 0) return false;
    *out = queue->nodes[0].event;
    take_out(queue, 0);
    return true;
}

bool tp_event_remove(tp_event_queue *queue, tp_event_handle handle) {
    uint32_t slot = (uint32_t)handle, generation = (uint32_t)(handle >> 32);
    if (slot >= queue->capacity || queue->slots[slot].generation != generation ||
        generation % 2 == 0)
        return false;
    take_out(queue, queue->slots[slot].at);
    return true;
}
