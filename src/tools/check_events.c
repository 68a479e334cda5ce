// check_events.c: checks the event queue against a plain list, and without memory. spec/serve_core_spec.lua builds and
// runs it with sanitizers.
#include <stdio.h>
#include <stdlib.h>

#include "tperf/event.h"

enum { MOST = 500, ROUNDS = 200000 };

static int allocations_left = -1; // below 0: no limit

static void *resize(void *owner, void *block, size_t old_size, size_t new_size) {
    (void)owner;
    (void)old_size;
    if (new_size > 0 && allocations_left == 0) return NULL;
    if (new_size > 0 && allocations_left > 0) allocations_left--;
    if (new_size > 0) return realloc(block, new_size);
    free(block);
    return NULL;
}

static const tperf_heap heap = {resize, NULL};

static void demand(int held, const char *what) {
    if (held) return;
    printf("failed: %s\n", what);
    exit(1);
}

static uint64_t state = 1;

static int64_t draw(int64_t n) { // Knuth's generator, modulo 2^64
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

typedef struct kept {
    tperf_event event;
    tperf_event_handle handle;
} kept;

static size_t first_of(const kept *list, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        const tperf_event *a = &list[i].event, *b = &list[best].event;
        if (a->time < b->time || (a->time == b->time && a->kind < b->kind) ||
            (a->time == b->time && a->kind == b->kind && a->sequence < b->sequence))
            best = i;
    }
    return best;
}

// Few distinct times and kinds, so that most events tie.
static void add(tperf_event_queue *queue, kept *list, size_t *n) {
    kept *k = &list[(*n)++];
    k->event =
        (tperf_event){draw(10) * (INT64_MAX / 10), draw(3) - 1, queue->next_sequence, draw(1000)};
    tperf_status status =
        tperf_event_push(queue, k->event.time, k->event.kind, k->event.data, &k->handle, NULL);
    demand(status == TPERF_OK, "a push with memory");
}

static void take_first(tperf_event_queue *queue, kept *list, size_t *n) {
    size_t at = first_of(list, *n);
    tperf_event got;
    demand(tperf_event_first(queue)->sequence == list[at].event.sequence, "the first event");
    demand(tperf_event_pop(queue, &got), "a pop");
    demand(got.time == list[at].event.time && got.kind == list[at].event.kind &&
               got.sequence == list[at].event.sequence && got.data == list[at].event.data,
           "the event popped");
    demand(!tperf_event_remove(queue, list[at].handle), "a handle of an event that has left");
    list[at] = list[--*n];
}

static void take_any(tperf_event_queue *queue, kept *list, size_t *n) {
    size_t at = (size_t)draw((int64_t)*n);
    demand(tperf_event_remove(queue, list[at].handle), "a removal");
    demand(!tperf_event_remove(queue, list[at].handle), "a second removal");
    list[at] = list[--*n];
}

static void compare_with_a_list(void) {
    static kept list[MOST];
    tperf_event_queue queue = {.heap = &heap};
    tperf_event event;
    size_t n = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t what = draw(round / 1000 % 2 ? 5 : 3); // alternately grows and shrinks
        if (what == 0 && n < MOST)
            add(&queue, list, &n);
        else if (what <= 1 && n > 0)
            take_any(&queue, list, &n);
        else if (n > 0)
            take_first(&queue, list, &n);
        else
            add(&queue, list, &n);
        while (round / 1000 % 2 == 0 && n < 300)
            add(&queue, list, &n);
        demand(queue.count == n, "the number of events");
    }
    tperf_event_queue_clear(&queue);
    demand(!tperf_event_pop(&queue, &event) && !tperf_event_first(&queue),
           "a queue that was cleared");
    tperf_event_queue_release(&queue);
    demand(!tperf_event_pop(&queue, &event) && !tperf_event_remove(&queue, 0),
           "a queue that was released");
}

// A push that runs out of memory leaves the queue unchanged.
static void run_out_of_memory(void) {
    for (int most = 0; most < 6; most++) {
        tperf_event_queue queue = {.heap = &heap};
        tperf_error error;
        int64_t pushed = 0;
        allocations_left = most;
        while (tperf_event_push(&queue, -pushed, 0, pushed, NULL, &error) == TPERF_OK)
            pushed++;
        demand(queue.count == (size_t)pushed, "the number of events after a failure");
        tperf_event event;
        for (int64_t i = pushed; i-- > 0;)
            demand(tperf_event_pop(&queue, &event) && event.data == i, "an event after a failure");
        allocations_left = -1;
        tperf_event_queue_release(&queue);
    }
}

int main(void) {
    compare_with_a_list();
    run_out_of_memory();
    puts("events are in order");
    return 0;
}
