// pool.h: a fixed set of threads that share the jobs of one call.
#ifndef TPERF_POOL_H
#define TPERF_POOL_H

#include <stddef.h>

typedef struct tp_pool tp_pool;

// The caller of tp_pool_run is worker 0, so `threads` - 1 are started; fewer if the machine
// refuses. NULL when out of memory. threads >= 1.
tp_pool *tp_pool_new(int threads);
void tp_pool_free(tp_pool *pool); // NULL is fine
int tp_pool_threads(const tp_pool *pool);

// Calls job(context, index, worker) once for every index below n, on any worker (0 … threads-1),
// and returns when all are done. Jobs see what the caller wrote before; the caller sees what they
// wrote. One call at a time.
void tp_pool_run(tp_pool *pool, size_t n, void (*job)(void *context, size_t index, int worker),
                 void *context);

#endif
