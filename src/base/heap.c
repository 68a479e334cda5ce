// heap.c: see tperf/heap.h. Every block records its heap and its size, which the heap's owner needs on release.
#include "tperf/heap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *resize_standard(void *owner, void *block, size_t old_size, size_t new_size) {
    (void)owner;
    (void)old_size;
    if (new_size > 0) return realloc(block, new_size);
    free(block);
    return NULL;
}

const tperf_heap tperf_heap_standard = {resize_standard, NULL};

typedef struct header {
    _Alignas(max_align_t) const tperf_heap *heap;
    size_t size; // this header included
} header;

void *tperf_heap_grow(const tperf_heap *heap, void *block, size_t count, size_t size) {
    if (size > 0 && count > (SIZE_MAX / 2 - sizeof(header)) / size) return NULL;
    header *old = block ? (header *)block - 1 : NULL;
    size_t wanted = sizeof *old + count * size + 1;
    header *h = heap->resize(heap->owner, old, old ? old->size : 0, wanted);
    if (!h) return NULL;
    *h = (header){heap, wanted};
    return h + 1;
}

void *tperf_heap_new(const tperf_heap *heap, size_t count, size_t size) {
    return tperf_heap_grow(heap, NULL, count, size);
}

void *tperf_heap_zeroed(const tperf_heap *heap, size_t count, size_t size) {
    void *block = tperf_heap_new(heap, count, size);
    if (block) memset(block, 0, count * size);
    return block;
}

void tperf_heap_free(void *block) {
    if (!block) return;
    header *h = (header *)block - 1;
    h->heap->resize(h->heap->owner, h, h->size, 0);
}

static void *resize_shared(void *owner, void *block, size_t old_size, size_t new_size) {
    tperf_shared_heap *shared = owner;
    pthread_mutex_lock(&shared->lock);
    void *result = shared->source.resize(shared->source.owner, block, old_size, new_size);
    pthread_mutex_unlock(&shared->lock);
    return result;
}

void tperf_shared_heap_init(tperf_shared_heap *shared, const tperf_heap *source) {
    shared->source = *source;
    shared->heap = (tperf_heap){resize_shared, shared};
    pthread_mutex_init(&shared->lock, NULL);
}

void tperf_shared_heap_release(tperf_shared_heap *shared) {
    pthread_mutex_destroy(&shared->lock);
}
