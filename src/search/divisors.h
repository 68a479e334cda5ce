// divisors.h: the divisors of a number, and how each splits into two. Private to src/search.
#ifndef TPERF_SEARCH_DIVISORS_H
#define TPERF_SEARCH_DIVISORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tperf/heap.h"

typedef struct tp_split {
    uint32_t left, right; // indices of two divisors
} tp_split;

typedef struct tp_divisors {
    size_t n;
    int64_t *values; // ascending
    size_t
        *first; // values[i] splits into splits[first[i]] … splits[first[i + 1] - 1], left ascending
    tp_split *splits;
} tp_divisors;

// number >= 1. false when out of memory.
bool tp_divisors_init(tp_divisors *divisors, const tp_heap *heap, int64_t number);
void tp_divisors_release(tp_divisors *divisors);

// The place of a divisor among the values.
size_t tp_divisors_index(const tp_divisors *divisors, int64_t divisor);

int64_t tp_gcd(int64_t a, int64_t b);

#endif
