// divisors.c: see divisors.h.
#include "search/divisors.h"

#include <stdlib.h>
#include <string.h>

int64_t tp_gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

size_t tp_divisors_index(const tp_divisors *d, int64_t value) {
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
static bool extend(tp_divisors *d, const tp_heap *heap, int64_t prime, size_t power) {
    size_t before = d->n, after = before * (power + 1);
    int64_t *grown = tp_heap_grow(heap, d->values, after, sizeof *grown);
    if (!grown) return false;
    for (size_t i = before; i < after; i++)
        grown[i] = grown[i - before] * prime;
    d->values = grown;
    d->n = after;
    return true;
}

static bool find_values(tp_divisors *d, const tp_heap *heap, int64_t number) {
    d->values = tp_heap_new(heap, 1, sizeof *d->values);
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

static bool find_splits(tp_divisors *d, const tp_heap *heap) {
    d->first = tp_heap_new(heap, d->n + 1, sizeof *d->first);
    if (!d->first) return false;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < d->n; i++) {
        d->first[i] = count;
        for (size_t left = 0; left <= i; left++) {
            if (d->values[i] % d->values[left] != 0) continue;
            if (count == capacity) {
                capacity = capacity ? 2 * capacity : 64;
                tp_split *grown = tp_heap_grow(heap, d->splits, capacity, sizeof *grown);
                if (!grown) return false;
                d->splits = grown;
            }
            size_t right = tp_divisors_index(d, d->values[i] / d->values[left]);
            d->splits[count++] = (tp_split){(uint32_t)left, (uint32_t)right};
        }
    }
    d->first[d->n] = count;
    return true;
}

bool tp_divisors_init(tp_divisors *divisors, const tp_heap *heap, int64_t number) {
    memset(divisors, 0, sizeof *divisors);
    if (find_values(divisors, heap, number) && find_splits(divisors, heap)) return true;
    tp_divisors_release(divisors);
    return false;
}

void tp_divisors_release(tp_divisors *divisors) {
    tp_heap_free(divisors->values);
    tp_heap_free(divisors->first);
    tp_heap_free(divisors->splits);
    memset(divisors, 0, sizeof *divisors);
}
