// heap.h: where the core's arrays come from, so that whoever asked for them can be charged for them.
#ifndef TPERF_HEAP_H
#define TPERF_HEAP_H

#include <pthread.h>
#include <stddef.h>

// As lua_Alloc: a new_size of 0 frees; NULL means that there is no more. Must outlive its blocks.
typedef struct tp_heap {
    void *(*resize)(void *owner, void *block, size_t old_size, size_t new_size);
    void *owner;
} tp_heap;

// count x size bytes, at least one; zeroed or not. NULL: there is no more, or the product overflows.
void *tp_heap_new(const tp_heap *heap, size_t count, size_t size);
void *tp_heap_zeroed(const tp_heap *heap, size_t count, size_t size);

// The block (NULL: a new one) with room for so much; NULL leaves it as it was.
void *tp_heap_grow(const tp_heap *heap, void *block, size_t count, size_t size);
void tp_heap_free(void *block); // to the heap it is from; NULL is fine

// The same heap for several threads, while nobody else uses it.
typedef struct tp_shared_heap {
    tp_heap heap; // what the threads use
    tp_heap source;
    pthread_mutex_t lock;
} tp_shared_heap;

void tp_shared_heap_init(tp_shared_heap *shared, const tp_heap *source);
void tp_shared_heap_release(tp_shared_heap *shared); // when all its blocks are freed

#endif
