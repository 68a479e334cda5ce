// best.h: the best k of a stream of candidates, or all of them. Private to src/search.
#ifndef TPERF_SEARCH_BEST_H
#define TPERF_SEARCH_BEST_H

#include "tperf/search.h"

typedef struct tperf_best {
    const tperf_heap *heap;
    size_t limit; // how many to keep
    size_t n, capacity;
    tperf_found *found; // a heap with the worst at its root, until sorted
} tperf_best;

// Whether a needs less memory than b, or the same and comes first; a result without a pipeline needs the most.
bool tperf_needs_less(const tperf_found *a, const tperf_found *b);

// Whether a candidate with this throughput could still be kept.
static inline bool tperf_best_admits(const tperf_best *best, double throughput) {
    return best->n < best->limit || throughput >= best->found[0].throughput;
}
// Whether a comes after b in the order of what is kept.
bool tperf_best_after(const tperf_found *a, const tperf_found *b);

// Whether this candidate would be kept.
bool tperf_best_wants(const tperf_best *best, const tperf_found *found);

// Keeps it, replacing the worst if full; the caller has asked tperf_best_wants. False if out of memory.
bool tperf_best_keep(tperf_best *best, const tperf_found *found);
void tperf_best_sort(tperf_best *best);
void tperf_best_release(tperf_best *best);

#endif
