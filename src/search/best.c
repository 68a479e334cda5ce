// best.c: see best.h.
#include "search/best.h"

#include <stdlib.h>

static int compare_sizes(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

// Axes absent from a grid have size and placement 0.
static int compare_own(const int64_t *a, const int64_t *b) {
    int order = 0;
    for (int i = TPERF_AXIS_OWN; !order && i < TPERF_AXES_MAX; i++)
        order = compare_sizes(a[i], b[i]);
    return order;
}

static int compare_candidates(const tperf_candidate *a, const tperf_candidate *b) {
    int order = compare_sizes(a->strategy, b->strategy);
    if (!order) order = compare_sizes(a->sizes[TPERF_AXIS_REPLICAS], b->sizes[TPERF_AXIS_REPLICAS]);
    if (!order) order = compare_own(a->sizes, b->sizes);
    if (!order) order = compare_sizes(a->pipeline->pp, b->pipeline->pp);
    if (!order) order = compare_sizes(a->micro_batch, b->micro_batch);
    if (!order) order = compare_sizes(a->variant, b->variant);
    if (!order) order = compare_sizes(a->zero, b->zero);
    if (!order) order = compare_sizes(a->pipeline->schedule, b->pipeline->schedule);
    if (!order) order = compare_sizes(a->pipeline->virtual_stages, b->pipeline->virtual_stages);
    if (!order) order = compare_sizes(a->placement.panels, b->placement.panels);
    const int64_t *x = a->placement.fast, *y = b->placement.fast;
    if (!order) order = compare_own(x, y);
    if (!order) order = compare_sizes(x[TPERF_AXIS_REPLICAS], y[TPERF_AXIS_REPLICAS]);
    return order ? order : compare_sizes(x[TPERF_AXIS_STAGES], y[TPERF_AXIS_STAGES]);
}

// The total order: rank ascending, throughput descending, memory ascending, candidate ascending.
// Negative when a comes before b; 0 only for the same candidate.
static int total_order(const tperf_found *a, const tperf_found *b) {
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->throughput != b->throughput) return a->throughput > b->throughput ? -1 : 1;
    if (a->memory != b->memory) return a->memory < b->memory ? -1 : 1;
    return compare_candidates(&a->candidate, &b->candidate);
}

bool tperf_needs_less(const tperf_found *a, const tperf_found *b) {
    if (!a->candidate.pipeline || !b->candidate.pipeline) return a->candidate.pipeline;
    if (a->memory != b->memory) return a->memory < b->memory;
    return compare_candidates(&a->candidate, &b->candidate) < 0;
}

bool tperf_best_after(const tperf_found *a, const tperf_found *b) {
    return total_order(a, b) > 0;
}

bool tperf_best_wants(const tperf_best *best, const tperf_found *found) {
    return best->n < best->limit || total_order(found, &best->found[0]) < 0;
}

static void swap(tperf_found *a, tperf_found *b) {
    tperf_found other = *a;
    *a = *b;
    *b = other;
}

static void sift_up(tperf_best *best, size_t i) {
    for (; i > 0; i = (i - 1) / 2) {
        tperf_found *parent = &best->found[(i - 1) / 2];
        if (total_order(&best->found[i], parent) <= 0) return;
        swap(&best->found[i], parent);
    }
}

static void sift_down(tperf_best *best) {
    for (size_t i = 0, child; (child = 2 * i + 1) < best->n; i = child) {
        if (child + 1 < best->n && total_order(&best->found[child + 1], &best->found[child]) > 0)
            child++;
        if (total_order(&best->found[child], &best->found[i]) <= 0) return;
        swap(&best->found[i], &best->found[child]);
    }
}

bool tperf_best_keep(tperf_best *best, const tperf_found *found) {
    if (best->n == best->limit) {
        best->found[0] = *found;
        sift_down(best);
        return true;
    }
    if (best->n == best->capacity) {
        size_t capacity = best->capacity ? 2 * best->capacity : 16;
        tperf_found *grown = tperf_heap_grow(best->heap, best->found, capacity, sizeof *grown);
        if (!grown) return false;
        best->found = grown;
        best->capacity = capacity;
    }
    best->found[best->n++] = *found;
    sift_up(best, best->n - 1);
    return true;
}

static int compare_found(const void *a, const void *b) {
    return total_order(a, b);
}

void tperf_best_sort(tperf_best *best) {
    if (best->n > 1) qsort(best->found, best->n, sizeof *best->found, compare_found);
}

void tperf_best_release(tperf_best *best) {
    tperf_heap_free(best->found);
    *best = (tperf_best){0};
}
