// event.c: see tperf/event.h. A binary heap of complete keys, so that a comparison touches no other memory.
#include "tperf/event.h"

struct tperf_event_node {
    tperf_event event;
    uint32_t slot;
};

struct tperf_event_slot {
    uint32_t at;         // index in the heap; if free, the next free slot
    uint32_t generation; // odd while in use
};

enum { LEAST_CAPACITY = 16 };
static const size_t most_events = UINT32_MAX - 1;

void tperf_event_queue_release(tperf_event_queue *queue) {
    tperf_heap_free(queue->nodes);
    tperf_heap_free(queue->slots);
    *queue = (tperf_event_queue){.heap = queue->heap};
}

// Links the slots from `first` on into the free list.
static void spare_slots(tperf_event_queue *queue, size_t first) {
    for (size_t i = queue->capacity; i-- > first;) {
        queue->slots[i].at = queue->spare;
        queue->spare = (uint32_t)i;
    }
}

void tperf_event_queue_clear(tperf_event_queue *queue) {
    while (queue->count > 0) {
        tperf_event_node *node = &queue->nodes[--queue->count];
        tperf_event_slot *slot = &queue->slots[node->slot];
        slot->generation++;
        slot->at = queue->spare;
        queue->spare = node->slot;
    }
    queue->next_sequence = 0;
}

static tperf_status grow(tperf_event_queue *queue, tperf_error *error) {
    size_t old = queue->capacity, capacity = old ? 2 * old : LEAST_CAPACITY;
    if (capacity > most_events) return tperf_error_set(error, TPERF_NO_MEMORY, "too many events");
    tperf_event_node *nodes = tperf_heap_grow(queue->heap, queue->nodes, capacity, sizeof *nodes);
    if (nodes) queue->nodes = nodes;
    tperf_event_slot *slots =
        nodes ? tperf_heap_grow(queue->heap, queue->slots, capacity, sizeof *slots) : NULL;
    if (!slots) return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for events");
    queue->slots = slots;
    queue->capacity = capacity;
    for (size_t i = old; i < capacity; i++)
        slots[i].generation = 0;
    spare_slots(queue, old);
    return TPERF_OK;
}

// The one order of events.
static bool before(const tperf_event *a, const tperf_event *b) {
    if (a->time != b->time) return a->time < b->time;
    if (a->kind != b->kind) return a->kind < b->kind;
    return a->sequence < b->sequence;
}

static void put(tperf_event_queue *queue, size_t at, const tperf_event_node *node) {
    queue->nodes[at] = *node;
    queue->slots[node->slot].at = (uint32_t)at;
}

static void rise(tperf_event_queue *queue, size_t at, tperf_event_node node) {
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (!before(&node.event, &queue->nodes[parent].event)) break;
        put(queue, at, &queue->nodes[parent]);
        at = parent;
    }
    put(queue, at, &node);
}

static void sink(tperf_event_queue *queue, size_t at, tperf_event_node node) {
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

tperf_status tperf_event_insert(tperf_event_queue *queue, tperf_event event,
                                tperf_event_handle *handle, tperf_error *error) {
    if (queue->count == queue->capacity) TPERF_TRY(grow(queue, error));
    tperf_event_node node = {.event = event, .slot = queue->spare};
    tperf_event_slot *slot = &queue->slots[node.slot];
    queue->spare = slot->at;
    slot->generation++;
    if (handle) *handle = (uint64_t)slot->generation << 32 | node.slot;
    rise(queue, queue->count++, node);
    return TPERF_OK;
}

tperf_status tperf_event_push(tperf_event_queue *queue, int64_t time, int64_t kind, int64_t data,
                              tperf_event_handle *handle, tperf_error *error) {
    tperf_event event = {time, kind, queue->next_sequence, data};
    TPERF_TRY(tperf_event_insert(queue, event, handle, error));
    queue->next_sequence++;
    return TPERF_OK;
}

const tperf_event *tperf_event_first(const tperf_event_queue *queue) {
    return queue->count > 0 ? &queue->nodes[0].event : NULL;
}

// Moves the heap's last node into the hole at `at`, and frees the hole's slot.
static void take_out(tperf_event_queue *queue, size_t at) {
    uint32_t slot = queue->nodes[at].slot;
    queue->slots[slot].generation++;
    queue->slots[slot].at = queue->spare;
    queue->spare = slot;
    tperf_event_node last = queue->nodes[--queue->count];
    if (at == queue->count) return;
    if (at > 0 && before(&last.event, &queue->nodes[(at - 1) / 2].event))
        rise(queue, at, last);
    else
        sink(queue, at, last);
}

bool tperf_event_pop(tperf_event_queue *queue, tperf_event *out) {
    if (queue->count == 0) return false;
    *out = queue->nodes[0].event;
    take_out(queue, 0);
    return true;
}

bool tperf_event_remove(tperf_event_queue *queue, tperf_event_handle handle) {
    uint32_t slot = (uint32_t)handle, generation = (uint32_t)(handle >> 32);
    if (slot >= queue->capacity || queue->slots[slot].generation != generation ||
        generation % 2 == 0)
        return false;
    take_out(queue, queue->slots[slot].at);
    return true;
}
