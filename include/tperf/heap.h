// heap.h: the allocator of the core's arrays, so that the caller is charged for them.
#ifndef TPERF_HEAP_H
#define TPERF_HEAP_H

#include <pthread.h>
#include <stddef.h>

// Like lua_Alloc: new_size 0 frees; NULL means out of memory. Must outlive its blocks.
typedef struct tperf_heap {
    void *(*resize)(void *owner, void *block, size_t old_size, size_t new_size);
    void *owner;
} tperf_heap;

extern const tperf_heap tperf_heap_standard; // the C library's, which charges nobody

// Allocates count x size bytes, at least one; zeroed or not. NULL if out of memory or if the product overflows.
void *tperf_heap_new(const tperf_heap *heap, size_t count, size_t size);
void *tperf_heap_zeroed(const tperf_heap *heap, size_t count, size_t size);

// Resizes a block (NULL: allocates one) to count x size bytes; on NULL the block is unchanged.
void *tperf_heap_grow(const tperf_heap *heap, void *block, size_t count, size_t size);
void tperf_heap_free(void *block); // to the heap that it came from; NULL is fine

// Shares a heap among threads; the source must not be used directly meanwhile.
typedef struct tperf_shared_heap {
    tperf_heap heap; // for the threads
    tperf_heap source;
    pthread_mutex_t lock;
} tperf_shared_heap;

void tperf_shared_heap_init(tperf_shared_heap *shared, const tperf_heap *source);
void tperf_shared_heap_release(tperf_shared_heap *shared); // after all its blocks have been freed

#endif
