// pool.h: a fixed set of threads that share the jobs of one call.
#ifndef TPERF_POOL_H
#define TPERF_POOL_H

#include <stddef.h>

typedef struct tperf_pool tperf_pool;

// Starts `threads` - 1 threads, since the caller of tperf_pool_run is worker 0; fewer if the machine refuses. NULL if
// out of memory. threads >= 1.
tperf_pool *tperf_pool_new(int threads);
void tperf_pool_free(tperf_pool *pool); // NULL is fine
int tperf_pool_threads(const tperf_pool *pool);

// Calls job(context, index, worker) once for every index below n, on any worker (0 … threads-1),
// and returns when all are done. The caller's earlier writes are visible to the jobs, and theirs to the
// caller afterwards. One call at a time.
void tperf_pool_run(tperf_pool *pool, size_t n,
                    void (*job)(void *context, size_t index, int worker), void *context);

#endif
