// unit.h: unit tests of the core in C. A test is a function of a file in src/ROOM/test:
//
//     static void send(void) { NEAR(5e-6 + 1e9 / 45e9, seconds, 1e-12); }
//     UNIT_TESTS({"a send takes a latency and its bytes", send})
//
// spec/unit_spec.lua builds each file with the core's objects, and with sanitizers where they have them, and runs its
// tests one by one: PROGRAM NAME. A failed check is told with its place; the test goes on.
#ifndef TPERF_UNIT_H
#define TPERF_UNIT_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tperf/error.h"
#include "tperf/heap.h"

typedef struct unit_test {
    const char *name;
    void (*run)(void);
} unit_test;

static long unit_checks, unit_failures;

// Whether it holds.
static inline bool unit_check(bool held, const char *file, int line, const char *what) {
    unit_checks++;
    if (held) return true;
    unit_failures++;
    printf("%s:%d: %s\n", file, line, what);
    return false;
}

static inline void unit_equal(double expected, double got, double part, const char *at[2],
                              int line) {
    bool same = expected == got || fabs(got - expected) <= part * fabs(expected);
    if (!unit_check(same, at[0], line, at[1]))
        printf("    expected %.17g, got %.17g\n", expected, got);
}

static inline void unit_says(const char *expected, const char *got, const char *file, int line) {
    if (!unit_check(strstr(got, expected) != NULL, file, line, "another text"))
        printf("    expected one with: %s\n    got: %s\n", expected, got);
}

#define CHECK(condition) unit_check(condition, __FILE__, __LINE__, #condition)
#define NEAR(expected, got, part)                                                                  \
    unit_equal((double)(expected), (double)(got), part, (const char *[2]){__FILE__, #got}, __LINE__)
#define SAME(expected, got)    NEAR(expected, got, 0)
#define SAYS(expected, got)    unit_says(expected, got, __FILE__, __LINE__)
#define REFUSES(text, attempt) (CHECK((attempt) == TPERF_INVALID), SAYS(text, error.message))

// A heap that counts what is allocated, and can run out: allocations_left below 0: never.
typedef struct unit_heap {
    long allocations_left, held; // bytes
} unit_heap;

static inline void *unit_resize(void *owner, void *block, size_t old_size, size_t new_size) {
    unit_heap *heap = owner;
    if (new_size > 0 && heap->allocations_left == 0) return NULL;
    if (new_size > 0 && heap->allocations_left > 0) heap->allocations_left--;
    heap->held += (long)new_size - (long)old_size;
    if (new_size > 0) return realloc(block, new_size);
    free(block);
    return NULL;
}

// Knuth's generator, modulo 2^64: a number from 0 to n - 1.
static inline long unit_draw(unsigned long long *state, long n) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (long)((*state >> 33) % (unsigned long long)n);
}

static inline int unit_main(int argc, char **argv, const unit_test *tests, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (argc < 2 || strcmp(argv[1], tests[i].name) == 0) tests[i].run();
    printf("%ld checks, %ld failed\n", unit_checks, unit_failures);
    return unit_failures > 0 || unit_checks == 0;
}

#define UNIT_TESTS(...)                                                                            \
    int main(int argc, char **argv) {                                                              \
        static const unit_test tests[] = {__VA_ARGS__};                                            \
        return unit_main(argc, argv, tests, sizeof tests / sizeof *tests);                         \
    }

#endif
