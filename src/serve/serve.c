// serve.c: tperf_serve_run: checks its arguments and spreads independent replicas over threads.
#include <math.h>

#include "serve/fleet.h"

// --- checks ---

static tperf_status check_engine(const tperf_engine *e, tperf_error *error) {
    enum { MOST_BLOCK = 1 << 20, MOST_DRAFTS = 1024, MOST_GROUPS = 1 << 16 };
    if (e->max_num_seqs < 1 || e->max_num_batched_tokens < 1)
        return tperf_error_set(error, TPERF_INVALID,
                               "'max_num_seqs' and 'max_num_batched_tokens' must be at least 1");
    if (e->max_model_len < 2 || e->max_model_len > 2 * TPERF_LONGEST)
        return tperf_error_set(error, TPERF_INVALID, "'max_model_len' must be from 2 to %d, got %d",
                               2 * TPERF_LONGEST, e->max_model_len);
    if (e->block_size < 1 || e->block_size > MOST_BLOCK)
        return tperf_error_set(error, TPERF_INVALID, "'block_size' must be from 1 to %d, got %d",
                               MOST_BLOCK, e->block_size);
    if (e->num_blocks < 0 || e->num_blocks == 1 || e->num_blocks == INT32_MAX)
        return tperf_error_set(error, TPERF_INVALID,
                               "'num_blocks' must be at least 2: one of them is never used");
    if (e->prefix_caching && e->num_blocks == 0)
        return tperf_error_set(error, TPERF_INVALID, "'prefix_caching' needs 'num_blocks'");
    const tperf_pooled *p = &e->pooled;
    tperf_pooling pools = tperf_scheduler_of(e)->pools;
    bool shared = pools == TPERF_POOLS_SHARED, apart = pools == TPERF_POOLS_APART;
    if (!shared && (p->whole || p->states || p->window || (p->windowed && !(apart && p->apart))))
        return tperf_error_set(error, TPERF_INVALID, "pooled groups are vLLM's");
    if (!apart && p->apart)
        return tperf_error_set(error, TPERF_INVALID, "a pool of windows alone is SGLang's");
    if (p->whole < 0 || p->windowed < 0 || p->window_blocks < 0 || p->states < 0 || p->apart < 0 ||
        p->window < 0 || p->whole > MOST_GROUPS || p->windowed > MOST_GROUPS ||
        p->states > MOST_GROUPS)
        return tperf_error_set(error, TPERF_INVALID, "pooled groups must be from 0 to %d",
                               MOST_GROUPS);
    if (e->long_prefill_token_threshold < 0)
        return tperf_error_set(error, TPERF_INVALID,
                               "'long_prefill_token_threshold' must not be negative");
    const tperf_drafting *d = &e->drafting;
    if (d->method == TPERF_DRAFT_NONE) return TPERF_OK;
    if (d->tokens < 1 || d->tokens > MOST_DRAFTS)
        return tperf_error_set(error, TPERF_INVALID, "speculation: 'tokens' must be from 1 to %d",
                               MOST_DRAFTS);
    if (d->n_accepted == 0 && !(d->acceptance >= 0 && d->acceptance <= 1))
        return tperf_error_set(error, TPERF_INVALID,
                               "speculation: 'acceptance' must be from 0 to 1");
    for (size_t i = 0; i < d->n_accepted; i++)
        if (d->accepted[i] < 0)
            return tperf_error_set(error, TPERF_INVALID,
                                   "speculation: 'accepted' must not be negative");
    return TPERF_OK;
}

static tperf_status check_segments(const tperf_requests *r, size_t i, tperf_error *error) {
    int64_t sum = 0;
    if (r->first_segment[i] == r->first_segment[i + 1]) return TPERF_OK;
    for (size_t k = r->first_segment[i]; k < r->first_segment[i + 1]; k++) {
        if (r->segments[k].tokens < 1 || r->segments[k].stream < 0)
            return tperf_error_set(
                error, TPERF_INVALID,
                "request %zu: a segment needs a stream from 0 on and at least 1 token", i + 1);
        sum += r->segments[k].tokens;
    }
    if (sum != r->prompt[i])
        return tperf_error_set(error, TPERF_INVALID,
                               "request %zu: its segments have %lld tokens, its prompt %d", i + 1,
                               (long long)sum, r->prompt[i]);
    return TPERF_OK;
}

// Without chunked prefill a prompt longer than a step's budget would wait at the head of the queue forever, unless a
// part of it may be cached.
static tperf_status check_whole(const tperf_engine *e, const tperf_requests *r, size_t i,
                                tperf_error *error) {
    bool known =
        e->prefix_caching && r->first_segment && r->first_segment[i] < r->first_segment[i + 1];
    bool whole = !e->chunked_prefill && !known && e->long_prefill_token_threshold == 0;
    if (!whole || r->prompt[i] <= e->max_num_batched_tokens || r->prompt[i] >= e->max_model_len)
        return TPERF_OK;
    return tperf_error_set(
        error, TPERF_INVALID,
        "request %zu: without 'chunked_prefill' a step must take its prompt of %d "
        "tokens whole, but "
        "'max_num_batched_tokens' = %d",
        i + 1, r->prompt[i], e->max_num_batched_tokens);
}

static tperf_status check_requests(const tperf_serve_options *o, const tperf_requests *r,
                                   tperf_error *error) {
    if (r->n >= INT32_MAX)
        return tperf_error_set(error, TPERF_INVALID, "too many requests: %zu", r->n);
    for (size_t i = 0; i < r->n; i++) {
        if (r->prompt[i] < 1 || r->output[i] < 1 || r->prompt[i] > TPERF_LONGEST ||
            r->output[i] > TPERF_LONGEST)
            return tperf_error_set(
                error, TPERF_INVALID,
                "request %zu: prompt and output must be from 1 to %d tokens, got %d and %d", i + 1,
                TPERF_LONGEST, r->prompt[i], r->output[i]);
        if (o->concurrency == 0 && r->arrival[i] < 0)
            return tperf_error_set(error, TPERF_INVALID, "request %zu: arrives before the time 0",
                                   i + 1);
        if (r->first_segment) TPERF_TRY(check_segments(r, i, error));
        TPERF_TRY(check_whole(&o->pool.engine, r, i, error));
    }
    return TPERF_OK;
}

static tperf_status check_pool(const tperf_serve_pool *pool, tperf_error *error) {
    enum { MOST = 1 << 20 };
    TPERF_TRY(check_engine(&pool->engine, error));
    if (pool->replicas < 1 || pool->replicas > MOST)
        return tperf_error_set(error, TPERF_INVALID, "'replicas' must be from 1 to %d", MOST);
    if (pool->ranks < 0 || pool->ranks > MOST / pool->replicas)
        return tperf_error_set(error, TPERF_INVALID, "replicas x ranks must be at most %d", MOST);
    if (pool->stages < 0 || pool->stages > TPERF_MOST_STAGES)
        return tperf_error_set(error, TPERF_INVALID, "stages of a pipeline must be at most %d",
                               TPERF_MOST_STAGES);
    return TPERF_OK;
}

static tperf_status check(const tperf_serve_options *o, const tperf_requests *r,
                          tperf_error *error) {
    TPERF_TRY(check_pool(&o->pool, error));
    if (o->prefill) {
        TPERF_TRY(check_pool(&o->prefill->pool, error));
        if (!(o->prefill->ticks >= 0 && o->prefill->ticks_per_token >= 0))
            return tperf_error_set(error, TPERF_INVALID,
                                   "a transfer must not take less than no time");
        for (size_t i = 0; i < r->n; i++)
            TPERF_TRY(check_whole(&o->prefill->pool.engine, r, i, error));
    }
    if (o->concurrency < 0 || o->think < 0)
        return tperf_error_set(error, TPERF_INVALID,
                               "'concurrency' and 'think' must not be negative");
    if (!(o->front_end >= 0 && o->front_end < 0x1p62))
        return tperf_error_set(error, TPERF_INVALID, "'front_end' is out of range");
    if (!(o->front_end_per_token >= 0 && o->front_end_per_token < 1e12))
        return tperf_error_set(error, TPERF_INVALID, "'front_end_token' is out of range");
    enum { MOST_FRONT_ENDS = 1 << 10 };
    if (o->front_ends < 0 || o->front_ends > MOST_FRONT_ENDS)
        return tperf_error_set(error, TPERF_INVALID, "'front_ends' must be at most %d",
                               MOST_FRONT_ENDS);
    return check_requests(o, r, error);
}

// --- the order of arrivals ---

static void merge(const int64_t *arrival, const int32_t *from, int32_t *to, size_t low,
                  size_t middle, size_t high) {
    size_t a = low, b = middle;
    for (size_t i = low; i < high; i++)
        to[i] = a < middle && (b >= high || arrival[from[a]] <= arrival[from[b]]) ? from[a++]
                                                                                  : from[b++];
}

// Sorts requests by (arrival, number) with a merge sort; *order is NULL if they are sorted already.
static tperf_status sort_arrivals(const tperf_requests *r, const tperf_heap *heap, int32_t **order,
                                  tperf_error *error) {
    size_t sorted = 1;
    *order = NULL;
    while (sorted < r->n && r->arrival[sorted - 1] <= r->arrival[sorted])
        sorted++;
    if (sorted >= r->n) return TPERF_OK;
    int32_t *from = tperf_heap_new(heap, r->n, sizeof *from);
    int32_t *to = tperf_heap_new(heap, r->n, sizeof *to);
    if (!from || !to) {
        tperf_heap_free(from);
        tperf_heap_free(to);
        return tperf_error_set(error, TPERF_NO_MEMORY,
                               "not enough memory for the order of %zu arrivals", r->n);
    }
    for (size_t i = 0; i < r->n; i++)
        from[i] = (int32_t)i;
    for (size_t width = 1; width < r->n; width *= 2) {
        for (size_t low = 0; low < r->n; low += 2 * width) {
            size_t middle = low + width < r->n ? low + width : r->n;
            size_t high = middle + width < r->n ? middle + width : r->n;
            merge(r->arrival, from, to, low, middle, high);
        }
        int32_t *swap = from;
        from = to;
        to = swap;
    }
    tperf_heap_free(to);
    *order = from;
    return TPERF_OK;
}

// --- independent replicas ---

typedef struct worker {
    tperf_fleet fleet; // of one replica; its memory is reused for the next
    tperf_serve_totals totals;
    tperf_status status;
    size_t failed; // replica
    tperf_error error;
} worker;

typedef struct farm {
    worker *workers;
    size_t stride;
} farm;

static void run_replica(void *context, size_t index, int number) {
    farm *f = context;
    worker *w = &f->workers[number];
    if (w->status != TPERF_OK && w->failed < index) return;
    tperf_error error;
    tperf_status status = tperf_fleet_run(&w->fleet, index, f->stride, &w->totals, &error);
    if (status == TPERF_OK) return;
    w->status = status;
    w->failed = index;
    w->error = error;
}

// Sums the workers' totals, or returns the failure of the first replica that failed, whichever worker ran it.
static tperf_status collect(const farm *f, int n_workers, tperf_serve_totals *totals,
                            tperf_error *error) {
    const worker *failed = NULL;
    for (int i = 0; i < n_workers; i++) {
        const worker *w = &f->workers[i];
        if (w->status != TPERF_OK && (!failed || w->failed < failed->failed)) failed = w;
        tperf_totals_add(totals, &w->totals);
    }
    if (!failed) return TPERF_OK;
    if (error) *error = failed->error;
    return failed->status;
}

static tperf_status run_apart(const tperf_serve_options *o, tperf_requests *r, tperf_pool *pool,
                              tperf_served *served, const int32_t *order, tperf_error *error) {
    int n_workers = pool ? tperf_pool_threads(pool) : 1;
    farm f = {tperf_heap_zeroed(o->heap, (size_t)n_workers, sizeof *f.workers),
              (size_t)o->pool.replicas};
    if (!f.workers)
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for %d threads",
                               n_workers);
    tperf_shared_heap shared; // results come from another heap
    tperf_shared_heap_init(&shared, o->heap);
    tperf_serve_options own = *o;
    own.heap = &shared.heap;
    const tperf_serving run = {&own, r, served, order};
    tperf_status status = TPERF_OK;
    for (int i = 0; i < n_workers && status == TPERF_OK; i++)
        status = tperf_fleet_init(&f.workers[i].fleet, &run, 1, error);
    if (status == TPERF_OK) {
        if (pool) tperf_pool_run(pool, f.stride, run_replica, &f);
        for (size_t i = 0; !pool && i < f.stride; i++)
            run_replica(&f, i, 0);
        status = collect(&f, n_workers, &served->totals, error);
    }
    for (int i = 0; i < n_workers; i++)
        tperf_fleet_release(&f.workers[i].fleet);
    tperf_heap_free(f.workers);
    tperf_shared_heap_release(&shared);
    return status;
}

static tperf_status run_together(const tperf_serve_options *o, tperf_requests *r,
                                 tperf_served *served, const int32_t *order, tperf_error *error) {
    tperf_fleet fleet;
    const tperf_serving run = {o, r, served, order};
    TPERF_TRY(tperf_fleet_init(&fleet, &run, o->pool.replicas, error));
    tperf_status status = tperf_fleet_run(&fleet, 0, 1, &served->totals, error);
    tperf_fleet_release(&fleet);
    return status;
}

// --- the run ---

static tperf_status reserve(const tperf_serve_options *o, size_t n, tperf_served *served,
                            tperf_error *error) {
    *served = (tperf_served){.n = n, .heap = o->heap};
    served->first_token = tperf_heap_new(o->heap, n + 1, sizeof *served->first_token);
    served->last_token = tperf_heap_new(o->heap, n + 1, sizeof *served->last_token);
    served->tokens = tperf_heap_new(o->heap, n + 1, sizeof *served->tokens);
    bool enough = served->first_token && served->last_token && served->tokens;
    if (o->keep_requests) {
        served->details = tperf_heap_new(o->heap, n + 1, sizeof *served->details);
        enough = enough && served->details;
    }
    return enough
               ? TPERF_OK
               : tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for %zu requests", n);
}

void tperf_served_release(tperf_served *served) {
    tperf_heap_free(served->first_token);
    tperf_heap_free(served->last_token);
    tperf_heap_free(served->tokens);
    tperf_heap_free(served->details);
    tperf_heap_free(served->steps);
    *served = (tperf_served){0};
}

// The run begins when the front end gets the first request, not when it passes it on.
static void begin(const tperf_requests *r, tperf_served *served) {
    tperf_serve_totals *totals = &served->totals;
    for (size_t i = 0; i < r->n; i++)
        if (served->tokens[i] > 0 && r->arrival[i] < totals->first_arrival)
            totals->first_arrival = r->arrival[i];
}

// Whether replicas are independent, so that each can be simulated separately.
static bool are_apart(const tperf_serve_options *o) {
    return o->pool.replicas > 1 && o->pool.ranks <= 1 && !o->prefill &&
           o->routing == TPERF_ROUTE_ROUND_ROBIN && o->concurrency == 0 && !o->keep_steps;
}

static tperf_status run(const tperf_serve_options *options, tperf_requests *requests,
                        tperf_pool *pool, tperf_served *served, tperf_error *error) {
    int32_t *order = NULL;
    bool open = options->concurrency == 0;
    tperf_status status = open ? sort_arrivals(requests, options->heap, &order, error) : TPERF_OK;
    if (status == TPERF_OK) status = reserve(options, requests->n, served, error);
    if (status == TPERF_OK)
        status = are_apart(options) ? run_apart(options, requests, pool, served, order, error)
                                    : run_together(options, requests, served, order, error);
    tperf_heap_free(order);
    if (status == TPERF_OK) begin(requests, served);
    return status;
}

tperf_status tperf_serve_run(const tperf_serve_options *options, tperf_requests *requests,
                             tperf_pool *pool, tperf_served *served, tperf_error *error) {
    *served = (tperf_served){0};
    TPERF_TRY(check(options, requests, error));
    tperf_status status = run(options, requests, pool, served, error);
    if (status != TPERF_OK) tperf_served_release(served);
    return status;
}
