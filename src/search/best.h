// best.h: the best k of a stream of candidates, or all of them. Private to src/search.
#ifndef TPERF_SEARCH_BEST_H
#define TPERF_SEARCH_BEST_H

#include "tperf/search.h"

typedef struct tp_best {
    const tp_heap *heap;
    size_t limit; // how many to keep
    size_t n, capacity;
    tp_found *found; // a heap whose root is the worst, until sorted
} tp_best;

// Whether a needs less memory, or comes before b; nothing (no pipeline) needs most.
bool tp_needs_less(const tp_found *a, const tp_found *b);

// Whether a candidate of this throughput could still be kept.
static inline bool tp_best_admits(const tp_best *best, double throughput) {
    return best->n < best->limit || throughput >= best->found[0].throughput;
}
// Whether this candidate would be kept.
bool tp_best_wants(const tp_best *best, const tp_found *found);

// Keeps it, in place of the worst when full; the caller has asked tp_best_wants. false: no memory.
bool tp_best_keep(tp_best *best, const tp_found *found);
void tp_best_sort(tp_best *best);
void tp_best_release(tp_best *best);

#endif
