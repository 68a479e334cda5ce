// small.h: small blocks of memory for a caller who knows their sizes, as Lua does.
#ifndef TPERF_SMALL_H
#define TPERF_SMALL_H

#include <stdbool.h>
#include <stddef.h>

enum { TPERF_SMALL_UNIT = 16, TPERF_SMALL_UNITS = 2048 }; // bytes; units of the largest small block

// Zeroed at first. Not for several threads at once.
typedef struct tperf_small {
    char *start, *next, *end;
    void *freed[TPERF_SMALL_UNITS + 1]; // by units; each block begins with the next one's address
    bool asked;
} tperf_small;

// Like realloc; new_size is at least 1. A block is resized and freed with the size that it has.
void *tperf_small_resize(tperf_small *s, void *block, size_t old_size, size_t new_size);
void tperf_small_free(tperf_small *s, void *block, size_t size);

#endif
