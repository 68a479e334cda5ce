// divisors.c: see divisors.h.
#include "grid/divisors.h"

#include <stdlib.h>

size_t tperf_divisors_index(const tperf_divisors *d, int64_t value) {
    size_t low = 0, high = d->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (d->values[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Extends the divisors of x to those of x * prime^power.
static bool extend(tperf_divisors *d, const tperf_heap *heap, int64_t prime, size_t power) {
    size_t before = d->n, after = before * (power + 1);
    int64_t *grown = tperf_heap_grow(heap, d->values, after, sizeof *grown);
    if (!grown) return false;
    for (size_t i = before; i < after; i++)
        grown[i] = grown[i - before] * prime;
    d->values = grown;
    d->n = after;
    return true;
}

static bool find_values(tperf_divisors *d, const tperf_heap *heap, int64_t number) {
    d->values = tperf_heap_new(heap, 1, sizeof *d->values);
    if (!d->values) return false;
    d->values[d->n++] = 1;
    for (int64_t prime = 2; prime <= number / prime; prime++) {
        size_t power = 0;
        for (; number % prime == 0; number /= prime)
            power++;
        if (power && !extend(d, heap, prime, power)) return false;
    }
    if (number > 1 && !extend(d, heap, number, 1)) return false;
    qsort(d->values, d->n, sizeof *d->values, ascending);
    return true;
}

// Lists the parts of values[whole] among the divisors, up to `limit`; returns their number.
static size_t parts_of(const tperf_divisors *d, size_t whole, size_t limit, tperf_part *parts) {
    size_t n = 0;
    for (size_t i = 0; i < limit && i <= whole; i++) {
        if (d->values[whole] % d->values[i] != 0) continue;
        uint32_t gpus = (uint32_t)d->values[i];
        for (size_t j = 0; j < n; j++)
            if (parts[j].next == UINT32_MAX && gpus % parts[j].gpus == 0) parts[j].next = gpus;
        parts[n++] = (tperf_part){gpus, UINT32_MAX};
    }
    return n;
}

static bool find_parts(tperf_divisors *d, const tperf_heap *heap) {
    size_t limit = 0, count = 0, capacity = 0;
    while (limit < d->n && d->values[limit] <= d->domain)
        limit++;
    d->first = tperf_heap_new(heap, d->n + 1, sizeof *d->first);
    if (!d->first) return false;
    for (size_t i = 0; i < d->n; i++) {
        if (count + limit > capacity) {
            capacity = 2 * (count + limit);
            tperf_part *grown = tperf_heap_grow(heap, d->parts, capacity, sizeof *grown);
            if (!grown) return false;
            d->parts = grown;
        }
        d->first[i] = count;
        count += parts_of(d, i, limit, d->parts + count);
        if (count - d->first[i] > d->most_parts) d->most_parts = count - d->first[i];
    }
    d->first[d->n] = count;
    return true;
}

bool tperf_divisors_init(tperf_divisors *divisors, const tperf_heap *heap, int64_t number,
                         int64_t domain) {
    *divisors = (tperf_divisors){.number = number, .domain = domain};
    if (find_values(divisors, heap, number) && find_parts(divisors, heap)) return true;
    tperf_divisors_release(divisors);
    return false;
}

void tperf_divisors_release(tperf_divisors *divisors) {
    tperf_heap_free(divisors->values);
    tperf_heap_free(divisors->first);
    tperf_heap_free(divisors->parts);
    *divisors = (tperf_divisors){0};
}
