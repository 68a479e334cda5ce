// divisors.h: a number's divisors, and which of them an axis may place in a fast domain. Private to src/grid and
// src/search.
#ifndef TPERF_GRID_DIVISORS_H
#define TPERF_GRID_DIVISORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tperf/heap.h"

// GPUs of one axis that share a fast domain.
typedef struct tperf_part {
    uint32_t gpus;
    uint32_t next; // the smallest multiple that also fits a domain; UINT32_MAX: none
} tperf_part;

typedef struct tperf_divisors {
    int64_t number, domain;
    size_t n;
    int64_t *values; // ascending
    // An axis of values[i] GPUs has parts[first[i]] … parts[first[i + 1] - 1], ascending.
    size_t *first;
    tperf_part *parts;
    size_t most_parts; // of any axis
} tperf_divisors;

// number >= 1; domain: GPUs of a fast domain. False if out of memory.
bool tperf_divisors_init(tperf_divisors *divisors, const tperf_heap *heap, int64_t number,
                         int64_t domain);
void tperf_divisors_release(tperf_divisors *divisors);

// The index of a divisor among the values.
size_t tperf_divisors_index(const tperf_divisors *divisors, int64_t divisor);

#endif
