// queue.c: the event queue against a plain list, and without memory.
#include "base/test/unit.h"
#include "tperf/event.h"

enum { MOST = 500, ROUNDS = 200000 };

static unit_heap owner = {.allocations_left = -1};
static const tperf_heap heap = {unit_resize, &owner};

static unsigned long long state = 1;

static int64_t draw(int64_t n) {
    return unit_draw(&state, (long)n);
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
    CHECK(status == TPERF_OK);
}

static void take_first(tperf_event_queue *queue, kept *list, size_t *n) {
    size_t at = first_of(list, *n);
    tperf_event got;
    CHECK(tperf_event_first(queue)->sequence == list[at].event.sequence);
    CHECK(tperf_event_pop(queue, &got));
    CHECK(got.time == list[at].event.time && got.kind == list[at].event.kind &&
          got.sequence == list[at].event.sequence && got.data == list[at].event.data);
    CHECK(!tperf_event_remove(queue, list[at].handle));
    list[at] = list[--*n];
}

static void take_any(tperf_event_queue *queue, kept *list, size_t *n) {
    size_t at = (size_t)draw((int64_t)*n);
    CHECK(tperf_event_remove(queue, list[at].handle));
    CHECK(!tperf_event_remove(queue, list[at].handle));
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
        CHECK(queue.count == n);
    }
    tperf_event_queue_clear(&queue);
    CHECK(!tperf_event_pop(&queue, &event) && !tperf_event_first(&queue));
    tperf_event_queue_release(&queue);
    CHECK(!tperf_event_pop(&queue, &event) && !tperf_event_remove(&queue, 0));
}

static void run_out_of_memory(void) {
    for (int most = 0; most < 6; most++) {
        tperf_event_queue queue = {.heap = &heap};
        tperf_error error;
        int64_t pushed = 0;
        owner.allocations_left = most;
        while (tperf_event_push(&queue, -pushed, 0, pushed, NULL, &error) == TPERF_OK)
            pushed++;
        CHECK(queue.count == (size_t)pushed);
        tperf_event event;
        for (int64_t i = pushed; i-- > 0;)
            CHECK(tperf_event_pop(&queue, &event) && event.data == i);
        owner.allocations_left = -1;
        tperf_event_queue_release(&queue);
    }
}

UNIT_TESTS({"events leave in order, with removals", compare_with_a_list},
           {"a push that runs out of memory leaves the queue unchanged", run_out_of_memory})
