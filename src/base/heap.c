// heap.c: see tperf/heap.h. Every block remembers its heap and its size, which the heap's owner wants back.
#include "tperf/heap.h"

#include <stdint.h>
#include <string.h>

typedef struct header {
    _Alignas(max_align_t) const tp_heap *heap;
    size_t size; // this header included
} header;

void *tp_heap_grow(const tp_heap *heap, void *block, size_t count, size_t size) {
    if (size > 0 && count > (SIZE_MAX / 2 - sizeof(header)) / size) return NULL;
    header *old = block ? (header *)block - 1 : NULL;
    size_t wanted = sizeof *old + count * size + 1;
    header *h = heap->resize(heap->owner, old, old ? old->size : 0, wanted);
    if (!h) return NULL;
    *h = (header){heap, wanted};
    return h + 1;
}

void *tp_heap_new(const tp_heap *heap, size_t count, size_t size) {
    return tp_heap_grow(heap, NULL, count, size);
}

void *tp_heap_zeroed(const tp_heap *heap, size_t count, size_t size) {
    void *block = tp_heap_new(heap, count, size);
    if (block) memset(block, 0, count * size);
    return block;
}

void tp_heap_free(void *block) {
    if (!block) return;
    header *h = (header *)block - 1;
    h->heap->resize(h->heap->owner, h, h->size, 0);
}

static void *resize_shared(void *owner, void *block, size_t old_size, size_t new_size) {
    tp_shared_heap *shared = owner;
    pthread_mutex_lock(&shared->lock);
    void *result = shared->source.resize(shared->source.owner, block, old_size, new_size);
    pthread_mutex_unlock(&shared->lock);
    return result;
}

void tp_shared_heap_init(tp_shared_heap *shared, const tp_heap *source) {
    shared->source = *source;
    shared->heap = (tp_heap){resize_shared, shared};
    pthread_mutex_init(&shared->lock, NULL);
}

void tp_shared_heap_release(tp_shared_heap *shared) {
    pthread_mutex_destroy(&shared->lock);
}
