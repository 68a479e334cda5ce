// search.c: see tperf/search.h.
#include <stddef.h>
#include <string.h>

#include "search/space.h"

// Larger sizes are refused on entry, so that the product of two fits in 64 bits.
static const int64_t LARGEST = (int64_t)1 << 31;

static tperf_status check_question(const tperf_question *question, tperf_error *error) {
    if (question->gpus < 1 || question->gpus > LARGEST)
        return tperf_error_set(error, TPERF_INVALID, "'gpus' must be from 1 to 2^31, got %lld",
                               (long long)question->gpus);
    if (question->global_batch < 1 || question->global_batch > LARGEST)
        return tperf_error_set(error, TPERF_INVALID,
                               "'global_batch' must be from 1 to 2^31, got %lld",
                               (long long)question->global_batch);
    return tperf_system_validate(&question->system, error);
}

// The divisors for a number of GPUs, shared by queries with the same number and domain size.
static const tperf_divisors *share_divisors(tperf_search *search, int64_t gpus, int64_t domain) {
    for (size_t i = 0; i < search->n_divisors; i++) {
        const tperf_divisors *known = &search->divisors[i];
        if (known->number == gpus && known->domain == domain) return known;
    }
    tperf_divisors *divisors = &search->divisors[search->n_divisors];
    if (!tperf_divisors_init(divisors, &search->heap.heap, gpus, domain)) return NULL;
    search->n_divisors++;
    return divisors;
}

static bool prepare_query(tperf_search *search, tperf_query *query,
                          const tperf_question *question) {
    int64_t gpus = question->gpus, domain = question->system.network.fast.domain;
    query->question = *question;
    query->one_domain = gpus <= domain;
    query->divisors = share_divisors(search, gpus, domain);
    if (query->divisors && query->divisors->most_parts > search->most_parts)
        search->most_parts = query->divisors->most_parts;
    return query->divisors != NULL;
}

static bool same_placements(const tperf_query *a, const tperf_query *b) {
    return a->one_domain == b->one_domain &&
           memcmp(&a->question.system, &b->question.system, sizeof a->question.system) == 0;
}

static bool tiered(const tperf_query *query) {
    return query->question.system.network.n_tiers > 0;
}

// The first query whose own axes can be placed in the same ways.
static size_t seat_of(const tperf_query *queries, size_t i) {
    size_t seat = 0;
    while (queries[seat].one_domain != queries[i].one_domain ||
           tiered(&queries[seat]) != tiered(&queries[i]) ||
           queries[seat].divisors->domain != queries[i].divisors->domain)
        seat++;
    return seat;
}

// Whether machines differ at most in how many GPUs share a domain, which decides where ops may be placed, but not what
// they cost there; in a mesh, it also decides how many links there are, and of further tiers, how many domains they join.
static bool price_alike(const tperf_system *a, const tperf_system *b) {
    size_t domain = offsetof(tperf_system, network.fast.domain);
    size_t after = domain + sizeof a->network.fast.domain;
    bool counts = a->network.fast.mesh || a->network.n_tiers > 0;
    return (!counts || a->network.fast.domain == b->network.fast.domain) &&
           memcmp(a, b, domain) == 0 &&
           memcmp((const char *)a + after, (const char *)b + after, sizeof *a - after) == 0;
}

enum { RECENT = 64 }; // queries before one that are looked at

static const tperf_system *priced_as(const tperf_query *queries, size_t i) {
    const tperf_system *own = &queries[i].question.system, *last = NULL;
    for (size_t j = i; j-- > 0 && i - j <= RECENT;) {
        const tperf_system *other = queries[j].priced_as;
        if (other != last && price_alike(other, own)) return other;
        last = other;
    }
    return own;
}

// The count of an earlier query with as many GPUs and samples, or the next one.
static size_t count_of(tperf_search *search, size_t i) {
    const tperf_question *own = &search->queries[i].question;
    for (size_t j = i; j-- > 0 && i - j <= RECENT;) {
        const tperf_question *other = &search->queries[j].question;
        if (other->gpus == own->gpus && other->global_batch == own->global_batch)
            return search->queries[j].count;
    }
    return search->n_counts++;
}

static void group_queries(tperf_search *search) {
    tperf_query *queries = search->queries;
    for (size_t i = 0; i < search->n_queries; i++) {
        queries[i].seat = seat_of(queries, i);
        queries[i].count = count_of(search, i);
        queries[i].priced_as = priced_as(queries, i);
        if (i == 0 || !same_placements(&queries[i - 1], &queries[i]))
            search->query_groups[search->n_query_groups++] = (tperf_query_group){i, i};
        search->query_groups[search->n_query_groups - 1].end++;
    }
}

// Whether two pipelines have the same layers on the same number of stages, and overlap no passes: their passes take
// equally long.
static bool alike(const tperf_pipeline *a, const tperf_pipeline *b) {
    if (a->pp != b->pp || a->n_stages != b->n_stages) return false;
    if (a->pairs != 0 || a->pairs_each != 0 || b->pairs != 0 || b->pairs_each != 0) return false;
    for (size_t i = 0; i < a->n_stages; i++) {
        const tperf_stage *x = &a->stages[i], *y = &b->stages[i];
        if (memcmp(x->layers, y->layers, sizeof x->layers) != 0 || x->first != y->first ||
            x->last != y->last || x->repeats != y->repeats)
            return false;
    }
    return true;
}

static bool count_stages(tperf_search *search) {
    const tperf_search_options *o = &search->options;
    const tperf_heap *heap = &search->heap.heap;
    search->first_stage = tperf_heap_new(heap, o->n_pipelines + 1, sizeof *search->first_stage);
    search->alike = tperf_heap_new(heap, o->n_pipelines + 1, sizeof *search->alike);
    if (!search->first_stage || !search->alike) return false;
    for (size_t i = 0; i < o->n_pipelines; i++) {
        bool same = i > 0 && alike(&o->pipelines[i - 1], &o->pipelines[i]);
        search->alike[i] = same ? search->n_alike - 1 : search->n_alike++;
        search->first_stage[i] = search->n_stages;
        search->n_stages += o->pipelines[i].n_stages;
    }
    return true;
}

enum { MEMORIES = 1 << 16 }; // remembered by a worker: 1 MiB

static bool prepare_scratch(const tperf_search *search, tperf_scratch *s) {
    const tperf_heap *heap = &search->heap.heap;
    size_t each = search->options.n_pipelines * search->options.n_zero + 1;
    if (search->n_counts < search->n_queries && search->n_counts <= MEMORIES / each) {
        s->memories = tperf_heap_zeroed(heap, search->n_counts * each, sizeof *s->memories);
        if (!s->memories) return false;
    }
    s->placement_caches = tperf_heap_zeroed(heap, search->n_queries, sizeof *s->placement_caches);
    s->layout_caches = tperf_heap_zeroed(heap, search->n_queries, sizeof *s->layout_caches);
    s->exchanged = tperf_heap_zeroed(heap, search->n_queries, sizeof *s->exchanged);
    s->layer_counts.of = tperf_heap_zeroed(heap, search->n_stages + 1, sizeof *s->layer_counts.of);
    size_t pipelines = search->options.n_pipelines + 1;
    s->hops = tperf_heap_new(heap, pipelines * search->most_parts, sizeof *s->hops);
    s->hops_for = tperf_heap_zeroed(heap, pipelines, sizeof *s->hops_for);
    return s->hops && s->hops_for && s->placement_caches && s->layout_caches && s->exchanged &&
           s->layer_counts.of && tperf_stock_init(&s->stock, heap, &search->contents);
}

static bool prepare(tperf_search *search, const tperf_question *questions) {
    size_t workers = search->n_workers;
    const tperf_heap *heap = &search->heap.heap;
    search->queries = tperf_heap_zeroed(heap, search->n_queries, sizeof *search->queries);
    search->query_groups = tperf_heap_zeroed(heap, search->n_queries, sizeof *search->query_groups);
    search->divisors = tperf_heap_zeroed(heap, search->n_queries, sizeof *search->divisors);
    search->results = tperf_heap_zeroed(heap, workers * search->n_queries, sizeof *search->results);
    search->scratch = tperf_heap_zeroed(heap, workers, sizeof *search->scratch);
    if (!search->queries || !search->query_groups || !search->divisors || !search->results ||
        !search->scratch)
        return false;
    const tperf_search_options *o = &search->options;
    for (size_t i = 0; i < workers * search->n_queries; i++) {
        search->results[i].best =
            (tperf_best){.heap = heap, .limit = o->keep_all ? SIZE_MAX : (size_t)o->top};
        search->results[i].open = (tperf_best){.heap = heap, .limit = (size_t)o->most_open};
    }
    if (!count_stages(search) || !tperf_contents_init(&search->contents, heap, o->pipelines,
                                                      o->n_pipelines, search->n_stages))
        return false;
    for (size_t i = 0; i < search->n_queries; i++)
        if (!prepare_query(search, &search->queries[i], &questions[i])) return false;
    group_queries(search);
    for (size_t i = 0; i < workers; i++)
        if (!prepare_scratch(search, &search->scratch[i])) return false;
    return true;
}

tperf_search *tperf_search_new(const tperf_search_options *options, const tperf_question *questions,
                               size_t n_questions, tperf_pool *pool, tperf_error *error) {
    if (tperf_record_check(&tperf_search_record, options, error) != TPERF_OK) return NULL;
    for (size_t i = 0; i < n_questions; i++)
        if (check_question(&questions[i], error) != TPERF_OK) return NULL;
    tperf_search *search = tperf_heap_zeroed(options->heap, 1, sizeof *search);
    if (search) {
        search->options = *options;
        tperf_shared_heap_init(&search->heap, options->heap);
        search->pool = pool;
        search->n_workers = (size_t)tperf_pool_threads(pool);
        search->n_queries = n_questions;
        if (prepare(search, questions)) return search;
    }
    tperf_search_free(search);
    tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for a search of %zu questions",
                    n_questions);
    return NULL;
}

static void release_scratch(tperf_scratch *s, size_t n_queries) {
    for (size_t i = 0; s->placement_caches && i < n_queries; i++)
        tperf_placement_cache_release(&s->placement_caches[i]);
    for (size_t i = 0; s->layout_caches && i < n_queries; i++)
        tperf_layout_cache_release(&s->layout_caches[i]);
    for (size_t i = 0; s->exchanged && i < n_queries; i++) {
        tperf_heap_free(s->exchanged[i].of);
        tperf_heap_free(s->exchanged[i].timed_for);
    }
    tperf_heap_free(s->layer_counts.of);
    tperf_stock_release(&s->stock);
    tperf_heap_free(s->layers);
    tperf_heap_free(s->covers);
    tperf_heap_free(s->placement_caches);
    tperf_heap_free(s->layout_caches);
    tperf_heap_free(s->timed);
    tperf_heap_free(s->sums);
    tperf_heap_free(s->exchanged);
    tperf_heap_free(s->costs);
    tperf_heap_free(s->works);
    tperf_prices_release(&s->prices);
    tperf_heap_free(s->memories);
    tperf_heap_free(s->hops);
    tperf_heap_free(s->hops_for);
}

static void release_result(tperf_worker_result *result) {
    tperf_best_release(&result->best);
    tperf_best_release(&result->open);
}

void tperf_search_free(tperf_search *search) {
    if (!search) return;
    for (size_t i = 0; search->results && i < search->n_workers * search->n_queries; i++)
        release_result(&search->results[i]);
    for (size_t i = 0; search->scratch && i < search->n_workers; i++)
        release_scratch(&search->scratch[i], search->n_queries);
    for (size_t i = 0; i < search->n_divisors; i++)
        tperf_divisors_release(&search->divisors[i]);
    tperf_heap_free(search->queries);
    tperf_heap_free(search->query_groups);
    tperf_heap_free(search->divisors);
    tperf_heap_free(search->first_stage);
    tperf_heap_free(search->alike);
    tperf_contents_release(&search->contents);
    tperf_heap_free(search->results);
    tperf_heap_free(search->scratch);
    tperf_shared_heap_release(&search->heap);
    tperf_heap_free(search);
}

static void walk_job(void *context, size_t index, int worker) {
    tperf_search *search = context;
    if (tperf_search_stopped(search) || atomic_load(&search->out_of_memory)) return;
    const tperf_shape *shape = &search->shapes[index / search->n_query_groups];
    if (!tperf_walk_shape(search, &search->query_groups[index % search->n_query_groups], shape,
                          worker))
        atomic_store(&search->out_of_memory, true);
}

tperf_status tperf_search_walk(tperf_search *search, const tperf_shape *shapes, size_t n_shapes,
                               tperf_error *error) {
    search->shapes = shapes;
    search->n_shapes = n_shapes;
    size_t jobs = n_shapes * search->n_query_groups;
    if (search->options.accept) { // calls back, so stays on the caller's thread
        for (size_t i = 0; i < jobs; i++)
            walk_job(search, i, 0);
    } else {
        tperf_pool_run(search->pool, jobs, walk_job, search);
    }
    search->n_walked += (int64_t)n_shapes;
    if (tperf_search_stopped(search))
        return tperf_error_set(error, TPERF_INTERRUPTED, "interrupted");
    if (atomic_load(&search->out_of_memory))
        return tperf_error_set(error, TPERF_NO_MEMORY,
                               "not enough memory for what the search keeps");
    return TPERF_OK;
}

static bool merge(tperf_best *all, const tperf_found *found, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tperf_best_wants(all, &found[i]) && !tperf_best_keep(all, &found[i])) return false;
    return true;
}

static tperf_status add(tperf_worker_result *all, const tperf_answer *part, tperf_error *error) {
    all->candidates += part->candidates;
    all->feasible += part->feasible;
    all->evaluated += part->evaluated;
    if (!merge(&all->best, part->found, part->n_found) ||
        !merge(&all->open, part->open, part->n_open))
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for the results");
    if (part->least && tperf_needs_less(part->least, &all->least)) all->least = *part->least;
    return TPERF_OK;
}

tperf_status tperf_search_add(tperf_search *search, size_t question, const tperf_answer *part,
                              tperf_error *error) {
    return add(tperf_search_result(search, 0, question), part, error);
}

static tperf_answer answer_of(const tperf_worker_result *result) {
    return (tperf_answer){
        .candidates = result->candidates,
        .feasible = result->feasible,
        .evaluated = result->evaluated,
        .n_found = result->best.n,
        .found = result->best.found,
        .n_open = result->open.n,
        .open = result->open.found,
        .least = result->least.candidate.pipeline ? &result->least : NULL,
    };
}

tperf_status tperf_search_answer(tperf_search *search, size_t question, tperf_answer *answer,
                                 tperf_error *error) {
    tperf_worker_result *all = tperf_search_result(search, 0, question);
    for (size_t worker = 1; worker < search->n_workers; worker++) {
        tperf_worker_result *result = tperf_search_result(search, (int)worker, question);
        tperf_answer part = answer_of(result);
        tperf_status status = add(all, &part, error);
        if (status != TPERF_OK) return status;
        release_result(result);
        *result = (tperf_worker_result){0};
    }
    tperf_best_sort(&all->best);
    tperf_best_sort(&all->open);
    *answer = answer_of(all);
    return TPERF_OK;
}
