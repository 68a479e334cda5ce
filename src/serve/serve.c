// serve.c: tp_serve_run: checks what it is given, and shares independent replicas among threads.
#include <math.h>

#include "serve/fleet.h"

// --- checks ---

static tp_status check_engine(const tp_engine *e, tp_error *error) {
    enum { MOST_BLOCK = 1 << 20, MOST_DRAFTS = 1024 };
    if (e->max_num_seqs < 1 || e->max_num_batched_tokens < 1)
        return tp_error_set(error, TP_INVALID,
                            "'max_num_seqs' and 'max_num_batched_tokens' must be at least 1");
    if (e->max_model_len < 2 || e->max_model_len > 2 * TP_LONGEST)
        return tp_error_set(error, TP_INVALID, "'max_model_len' must be from 2 to %d, got %d",
                            2 * TP_LONGEST, e->max_model_len);
    if (e->block_size < 1 || e->block_size > MOST_BLOCK)
        return tp_error_set(error, TP_INVALID, "'block_size' must be from 1 to %d, got %d",
                            MOST_BLOCK, e->block_size);
    if (e->num_blocks < 0 || e->num_blocks == 1 || e->num_blocks == INT32_MAX)
        return tp_error_set(error, TP_INVALID,
                            "'num_blocks' must be at least 2: one of them is never used");
    if (e->prefix_caching && e->num_blocks == 0)
        return tp_error_set(error, TP_INVALID, "'prefix_caching' needs 'num_blocks'");
    if (e->long_prefill_token_threshold < 0)
        return tp_error_set(error, TP_INVALID,
                            "'long_prefill_token_threshold' must not be negative");
    const tp_drafting *d = &e->drafting;
    if (d->method == TP_DRAFT_NONE) return TP_OK;
    if (d->tokens < 1 || d->tokens > MOST_DRAFTS)
        return tp_error_set(error, TP_INVALID, "speculation: 'tokens' must be from 1 to %d",
                            MOST_DRAFTS);
    if (d->n_accepted == 0 && !(d->acceptance >= 0 && d->acceptance <= 1))
        return tp_error_set(error, TP_INVALID, "speculation: 'acceptance' must be from 0 to 1");
    for (size_t i = 0; i < d->n_accepted; i++)
        if (d->accepted[i] < 0)
            return tp_error_set(error, TP_INVALID, "speculation: 'accepted' must not be negative");
    return TP_OK;
}

static tp_status check_segments(const tp_requests *r, size_t i, tp_error *error) {
    int64_t sum = 0;
    if (r->first_segment[i] == r->first_segment[i + 1]) return TP_OK;
    for (size_t k = r->first_segment[i]; k < r->first_segment[i + 1]; k++) {
        if (r->segments[k].tokens < 1 || r->segments[k].stream < 0)
            return tp_error_set(
                error, TP_INVALID,
                "request %zu: a segment needs a stream from 0 on and at least 1 token", i + 1);
        sum += r->segments[k].tokens;
    }
    if (sum != r->prompt[i])
        return tp_error_set(error, TP_INVALID,
                            "request %zu: its segments have %lld tokens, its prompt %d", i + 1,
                            (long long)sum, r->prompt[i]);
    return TP_OK;
}

// Without chunked prefill a prompt that is longer than a step's budget waits at the head of the queue for ever.
static tp_status check_whole(const tp_engine *e, const tp_requests *r, size_t i, tp_error *error) {
    bool whole = !e->chunked_prefill && !e->prefix_caching && e->long_prefill_token_threshold == 0;
    if (!whole || r->prompt[i] <= e->max_num_batched_tokens || r->prompt[i] >= e->max_model_len)
        return TP_OK;
    return tp_error_set(error, TP_INVALID,
                        "request %zu: without 'chunked_prefill' a step must take its prompt of %d "
                        "tokens whole, but "
                        "'max_num_batched_tokens' = %d",
                        i + 1, r->prompt[i], e->max_num_batched_tokens);
}

static tp_status check_requests(const tp_serve_options *o, const tp_requests *r, tp_error *error) {
    if (r->n >= INT32_MAX) return tp_error_set(error, TP_INVALID, "too many requests: %zu", r->n);
    for (size_t i = 0; i < r->n; i++) {
        if (r->prompt[i] < 1 || r->output[i] < 1 || r->prompt[i] > TP_LONGEST ||
            r->output[i] > TP_LONGEST)
            return tp_error_set(
                error, TP_INVALID,
                "request %zu: prompt and output must be from 1 to %d tokens, got %d and %d", i + 1,
                TP_LONGEST, r->prompt[i], r->output[i]);
        if (o->concurrency == 0 && r->arrival[i] < 0)
            return tp_error_set(error, TP_INVALID, "request %zu: arrives before the time 0", i + 1);
        if (r->first_segment) TP_TRY(check_segments(r, i, error));
        TP_TRY(check_whole(&o->pool.engine, r, i, error));
    }
    return TP_OK;
}

static tp_status check_pool(const tp_serve_pool *pool, tp_error *error) {
    enum { MOST = 1 << 20 };
    TP_TRY(check_engine(&pool->engine, error));
    if (pool->replicas < 1 || pool->replicas > MOST)
        return tp_error_set(error, TP_INVALID, "'replicas' must be from 1 to %d", MOST);
    if (pool->ranks < 0 || pool->ranks > MOST / pool->replicas)
        return tp_error_set(error, TP_INVALID, "replicas x ranks must be at most %d", MOST);
    if (pool->stages < 0 || pool->stages > TP_MOST_STAGES)
        return tp_error_set(error, TP_INVALID, "stages of a pipeline must be at most %d",
                            TP_MOST_STAGES);
    return TP_OK;
}

static tp_status check(const tp_serve_options *o, const tp_requests *r, tp_error *error) {
    TP_TRY(check_pool(&o->pool, error));
    if (o->prefill) {
        TP_TRY(check_pool(&o->prefill->pool, error));
        if (!(o->prefill->ticks >= 0 && o->prefill->ticks_per_token >= 0))
            return tp_error_set(error, TP_INVALID, "a transfer must not take less than no time");
        for (size_t i = 0; i < r->n; i++)
            TP_TRY(check_whole(&o->prefill->pool.engine, r, i, error));
    }
    if (o->concurrency < 0 || o->think < 0)
        return tp_error_set(error, TP_INVALID, "'concurrency' and 'think' must not be negative");
    if (!(o->front_end_per_token >= 0 && o->front_end_per_token < 1e12))
        return tp_error_set(error, TP_INVALID, "'front_end_token' is out of range");
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

// Requests by (arrival, number), by merging longer and longer runs; NULL in *order when they stand so already.
static tp_status sort_arrivals(const tp_requests *r, const tp_heap *heap, int32_t **order,
                               tp_error *error) {
    size_t sorted = 1;
    *order = NULL;
    while (sorted < r->n && r->arrival[sorted - 1] <= r->arrival[sorted])
        sorted++;
    if (sorted >= r->n) return TP_OK;
    int32_t *from = tp_heap_new(heap, r->n, sizeof *from);
    int32_t *to = tp_heap_new(heap, r->n, sizeof *to);
    if (!from || !to) {
        tp_heap_free(from);
        tp_heap_free(to);
        return tp_error_set(error, TP_NO_MEMORY, "not enough memory for the order of %zu arrivals",
                            r->n);
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
    tp_heap_free(to);
    *order = from;
    return TP_OK;
}

// --- replicas that know nothing of one another ---

typedef struct worker {
    tp_fleet fleet; // of one replica; its memory serves one after the other
    tp_serve_totals totals;
    tp_status status;
    size_t failed; // replica
    tp_error error;
} worker;

typedef struct farm {
    worker *workers;
    size_t stride;
} farm;

static void run_replica(void *context, size_t index, int number) {
    farm *f = context;
    worker *w = &f->workers[number];
    if (w->status != TP_OK && w->failed < index) return;
    tp_error error;
    tp_status status = tp_fleet_run(&w->fleet, index, f->stride, &w->totals, &error);
    if (status == TP_OK) return;
    w->status = status;
    w->failed = index;
    w->error = error;
}

// The sums of the workers, or the failure of the first replica that failed, whoever ran it.
static tp_status collect(const farm *f, int n_workers, tp_serve_totals *totals, tp_error *error) {
    const worker *failed = NULL;
    for (int i = 0; i < n_workers; i++) {
        const worker *w = &f->workers[i];
        if (w->status != TP_OK && (!failed || w->failed < failed->failed)) failed = w;
        tp_totals_add(totals, &w->totals);
    }
    if (!failed) return TP_OK;
    if (error) *error = failed->error;
    return failed->status;
}

static tp_status run_apart(const tp_serve_options *o, tp_requests *r, tp_pool *pool,
                           tp_served *served, const int32_t *order, tp_error *error) {
    int n_workers = pool ? tp_pool_threads(pool) : 1;
    farm f = {tp_heap_zeroed(o->heap, (size_t)n_workers, sizeof *f.workers),
              (size_t)o->pool.replicas};
    if (!f.workers)
        return tp_error_set(error, TP_NO_MEMORY, "not enough memory for %d threads", n_workers);
    tp_shared_heap shared; // what is kept is not from here
    tp_shared_heap_init(&shared, o->heap);
    tp_serve_options own = *o;
    own.heap = &shared.heap;
    tp_status status = TP_OK;
    for (int i = 0; i < n_workers && status == TP_OK; i++)
        status = tp_fleet_init(&f.workers[i].fleet, &own, r, served, order, 1, error);
    if (status == TP_OK) {
        if (pool) tp_pool_run(pool, f.stride, run_replica, &f);
        for (size_t i = 0; !pool && i < f.stride; i++)
            run_replica(&f, i, 0);
        status = collect(&f, n_workers, &served->totals, error);
    }
    for (int i = 0; i < n_workers; i++)
        tp_fleet_release(&f.workers[i].fleet);
    tp_heap_free(f.workers);
    tp_shared_heap_release(&shared);
    return status;
}

static tp_status run_together(const tp_serve_options *o, tp_requests *r, tp_served *served,
                              const int32_t *order, tp_error *error) {
    tp_fleet fleet;
    TP_TRY(tp_fleet_init(&fleet, o, r, served, order, o->pool.replicas, error));
    tp_status status = tp_fleet_run(&fleet, 0, 1, &served->totals, error);
    tp_fleet_release(&fleet);
    return status;
}

// --- the whole ---

static tp_status reserve(const tp_serve_options *o, size_t n, tp_served *served, tp_error *error) {
    *served = (tp_served){.n = n, .heap = o->heap};
    served->first_token = tp_heap_new(o->heap, n + 1, sizeof *served->first_token);
    served->last_token = tp_heap_new(o->heap, n + 1, sizeof *served->last_token);
    served->tokens = tp_heap_new(o->heap, n + 1, sizeof *served->tokens);
    bool enough = served->first_token && served->last_token && served->tokens;
    if (o->keep_requests) {
        served->details = tp_heap_new(o->heap, n + 1, sizeof *served->details);
        enough = enough && served->details;
    }
    return enough ? TP_OK
                  : tp_error_set(error, TP_NO_MEMORY, "not enough memory for %zu requests", n);
}

void tp_served_release(tp_served *served) {
    tp_heap_free(served->first_token);
    tp_heap_free(served->last_token);
    tp_heap_free(served->tokens);
    tp_heap_free(served->details);
    tp_heap_free(served->steps);
    *served = (tp_served){0};
}

// Adds to arrivals what the front end takes of each, or takes it off.
static tp_status hold_up(const tp_serve_options *o, tp_requests *r, int sign, tp_error *error) {
    for (size_t i = 0; i < r->n && o->front_end_per_token > 0; i++) {
        int64_t more = (int64_t)(o->front_end_per_token * r->prompt[i] + 0.5);
        if (sign > 0 && more > INT64_MAX - r->arrival[i])
            return tp_error_set(error, TP_INVALID, "the clock ends before request %zu comes",
                                i + 1);
        r->arrival[i] += sign * more;
    }
    return TP_OK;
}

// Whether replicas know nothing of one another, so that each may be simulated alone.
static bool are_apart(const tp_serve_options *o) {
    return o->pool.replicas > 1 && o->pool.ranks <= 1 && !o->prefill &&
           o->routing == TP_ROUTE_ROUND_ROBIN && o->concurrency == 0 && !o->keep_steps;
}

tp_status tp_serve_run(const tp_serve_options *options, tp_requests *requests, tp_pool *pool,
                       tp_served *served, tp_error *error) {
    *served = (tp_served){0};
    int32_t *order = NULL;
    TP_TRY(check(options, requests, error));
    bool open = options->concurrency == 0;
    if (open) TP_TRY(hold_up(options, requests, 1, error));
    tp_status status = open ? sort_arrivals(requests, options->heap, &order, error) : TP_OK;
    if (status == TP_OK) status = reserve(options, requests->n, served, error);
    if (status == TP_OK)
        status = are_apart(options) ? run_apart(options, requests, pool, served, order, error)
                                    : run_together(options, requests, served, order, error);
    tp_heap_free(order);
    if (open || status == TP_OK) hold_up(options, requests, -1, NULL);
    if (status != TP_OK) tp_served_release(served);
    return status;
}
