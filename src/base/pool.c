// pool.c: see tperf/pool.h. Workers sleep between calls and share an atomic index.
#include "tperf/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct worker {
    tperf_pool *pool;
    pthread_t thread;
    int number;
} worker;

struct tperf_pool {
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    unsigned long round; // counts calls of tperf_pool_run
    int busy;            // workers that have not finished this round
    bool closing;
    void (*job)(void *context, size_t index, int worker);
    void *context;
    size_t n;
    atomic_size_t next;
    int threads;
    worker workers[]; // the first is the caller and has no thread
};

static void take_jobs(tperf_pool *pool, int number) {
    for (size_t i; (i = atomic_fetch_add(&pool->next, 1)) < pool->n;)
        pool->job(pool->context, i, number);
}

static void *work(void *argument) {
    worker *self = argument;
    tperf_pool *pool = self->pool;
    unsigned long seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->closing)
            pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->closing) break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->lock);
        take_jobs(pool, self->number);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0) pthread_cond_signal(&pool->idle);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

tperf_pool *tperf_pool_new(int threads) {
    tperf_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof pool->workers[0]);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->idle, NULL);
    pool->threads = 1;
    for (int i = 1; i < threads; i++) {
        worker *w = &pool->workers[i];
        *w = (worker){.pool = pool, .number = i};
        if (pthread_create(&w->thread, NULL, work, w) != 0) break;
        pool->threads++;
    }
    return pool;
}

void tperf_pool_free(tperf_pool *pool) {
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i < pool->threads; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->idle);
    free(pool);
}

int tperf_pool_threads(const tperf_pool *pool) {
    return pool->threads;
}

void tperf_pool_run(tperf_pool *pool, size_t n,
                    void (*job)(void *context, size_t index, int worker), void *context) {
    bool alone = n < 2 || pool->threads == 1;
    pthread_mutex_lock(&pool->lock);
    pool->job = job;
    pool->context = context;
    pool->n = n;
    atomic_store(&pool->next, 0);
    if (!alone) {
        pool->busy = pool->threads - 1;
        pool->round++;
        pthread_cond_broadcast(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
    take_jobs(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
