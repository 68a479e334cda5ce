// heap.h: where the core's arrays come from, so that whoever asked for them can be charged for them.
#ifndef TPERF_HEAP_H
#define TPERF_HEAP_H

#include <pthread.h>
#include <stddef.h>

// As lua_Alloc: a new_size of 0 frees; NULL means that there is no more. Must outlive its blocks.
typedef struct tperf_heap {
    void *(*resize)(void *owner, void *block, size_t old_size, size_t new_size);
    void *owner;
} tperf_heap;

// count x size bytes, at least one; zeroed or not. NULL: there is no more, or the product overflows.
void *tperf_heap_new(const tperf_heap *heap, size_t count, size_t size);
void *tperf_heap_zeroed(const tperf_heap *heap, size_t count, size_t size);

// The block (NULL: a new one) with room for so much; NULL leaves it as it was.
void *tperf_heap_grow(const tperf_heap *heap, void *block, size_t count, size_t size);
void tperf_heap_free(void *block); // to the heap it is from; NULL is fine

// The same heap for several threads, while nobody else uses it.
typedef struct tperf_shared_heap {
    tperf_heap heap; // what the threads use
    tperf_heap source;
    pthread_mutex_t lock;
} tperf_shared_heap;

void tperf_shared_heap_init(tperf_shared_heap *shared, const tperf_heap *source);
void tperf_shared_heap_release(tperf_shared_heap *shared); // when all its blocks are freed

#endif
