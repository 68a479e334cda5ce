// small.c: blocks without headers, and without a search for a free one: each size has a list of them. They come from
// one region of limited size, so that a script that needs first one size and then another holds little more than it is
// charged for. What the region has no room for, and larger blocks, come from malloc.
//
// Builds that look for faults of memory (sanitizers, failing allocations) leave all of it to malloc.
#include "base/small.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined NDEBUG && !defined TPERF_FAULTS

enum { REGION = 32 << 20, HUGE_PAGE = 2 << 20 }; // bytes; pages that are never touched cost nothing

static size_t units_of(size_t size) {
    return (size + TPERF_SMALL_UNIT - 1) / TPERF_SMALL_UNIT;
}

static bool is_inside(const tperf_small *s, const void *block) {
    return (uintptr_t)block - (uintptr_t)s->start < (uintptr_t)s->end - (uintptr_t)s->start;
}

// In pages of 4 KiB, a sixth of a short process would be the kernel's handing them out.
static void ask_for_region(tperf_small *s) {
    s->asked = true;
    s->start = s->next = aligned_alloc(HUGE_PAGE, REGION);
    s->end = s->start ? s->start + REGION : NULL;
#ifdef MADV_HUGEPAGE
    if (s->start) madvise(s->start, REGION, MADV_HUGEPAGE); // on failure, pages are small
#endif
}

static void *take(tperf_small *s, size_t size) {
    size_t units = units_of(size);
    if (units > TPERF_SMALL_UNITS) return malloc(size);
    if (!s->asked) ask_for_region(s);
    void *block = s->freed[units];
    if (block) {
        memcpy(&s->freed[units], block, sizeof(void *));
        return block;
    }
    if ((size_t)(s->end - s->next) < units * TPERF_SMALL_UNIT) return malloc(size);
    block = s->next;
    s->next += units * TPERF_SMALL_UNIT;
    return block;
}

static void give_back(tperf_small *s, void *block, size_t size) {
    size_t units = units_of(size);
    memcpy(block, &s->freed[units], sizeof(void *));
    s->freed[units] = block;
}

void *tperf_small_resize(tperf_small *s, void *block, size_t old_size, size_t new_size) {
    if (!block) return take(s, new_size);
    if (!is_inside(s, block)) return realloc(block, new_size);
    if (units_of(new_size) == units_of(old_size)) return block;
    void *moved = take(s, new_size);
    if (!moved) return NULL;
    memcpy(moved, block, old_size < new_size ? old_size : new_size);
    give_back(s, block, old_size);
    return moved;
}

void tperf_small_free(tperf_small *s, void *block, size_t size) {
    if (!block) return;
    if (is_inside(s, block))
        give_back(s, block, size);
    else
        free(block);
}

#else

void *tperf_small_resize(tperf_small *s, void *block, size_t old_size, size_t new_size) {
    (void)s, (void)old_size;
    return realloc(block, new_size);
}

void tperf_small_free(tperf_small *s, void *block, size_t size) {
    (void)s, (void)size;
    free(block);
}

#endif
