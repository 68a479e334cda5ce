// search.c: see tperf/search.h.
#include <string.h>

#include "search/space.h"

// Sizes beyond this are refused where they enter, so that products of two fit in 64 bits.
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

// The divisors of a number of GPUs, shared by the topics that have as many in domains as large.
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

static bool prepare_topic(tperf_search *search, tperf_topic *topic,
                          const tperf_question *question) {
    int64_t gpus = question->gpus, domain = question->system.network.fast.domain;
    topic->question = *question;
    topic->one_domain = gpus <= domain;
    topic->divisors = share_divisors(search, gpus, domain);
    return topic->divisors != NULL;
}

static bool same_place(const tperf_topic *a, const tperf_topic *b) {
    return a->one_domain == b->one_domain &&
           memcmp(&a->question.system, &b->question.system, sizeof a->question.system) == 0;
}

// The first topic whose own axes can be placed in the same ways.
static size_t seat_of(const tperf_topic *topics, size_t i) {
    size_t seat = 0;
    while (topics[seat].one_domain != topics[i].one_domain ||
           topics[seat].divisors->domain != topics[i].divisors->domain)
        seat++;
    return seat;
}

static void prepare_places(tperf_search *search) {
    tperf_topic *topics = search->topics;
    for (size_t i = 0; i < search->n_topics; i++) {
        topics[i].seat = seat_of(topics, i);
        if (i == 0 || !same_place(&topics[i - 1], &topics[i]))
            search->places[search->n_places++] = (tperf_place){i, i};
        search->places[search->n_places - 1].end++;
    }
}

static bool count_stages(tperf_search *search) {
    const tperf_search_options *o = &search->options;
    search->first_stage =
        tperf_heap_new(&search->heap.heap, o->n_pipelines + 1, sizeof *search->first_stage);
    for (size_t i = 0; search->first_stage && i < o->n_pipelines; i++) {
        search->first_stage[i] = search->n_stages;
        search->n_stages += o->pipelines[i].n_stages;
    }
    return search->first_stage != NULL;
}

static bool prepare_scratch(const tperf_search *search, tperf_scratch *s) {
    const tperf_heap *heap = &search->heap.heap;
    s->books = tperf_heap_zeroed(heap, search->n_topics, sizeof *s->books);
    s->atlases = tperf_heap_zeroed(heap, search->n_topics, sizeof *s->atlases);
    s->exchanged = tperf_heap_zeroed(heap, search->n_topics, sizeof *s->exchanged);
    s->holdings.of = tperf_heap_zeroed(heap, search->n_stages + 1, sizeof *s->holdings.of);
    return s->books && s->atlases && s->exchanged && s->holdings.of;
}

static bool prepare(tperf_search *search, const tperf_question *questions) {
    size_t workers = search->n_workers;
    const tperf_heap *heap = &search->heap.heap;
    search->topics = tperf_heap_zeroed(heap, search->n_topics, sizeof *search->topics);
    search->places = tperf_heap_zeroed(heap, search->n_topics, sizeof *search->places);
    search->divisors = tperf_heap_zeroed(heap, search->n_topics, sizeof *search->divisors);
    search->finds = tperf_heap_zeroed(heap, workers * search->n_topics, sizeof *search->finds);
    search->scratch = tperf_heap_zeroed(heap, workers, sizeof *search->scratch);
    if (!search->topics || !search->places || !search->divisors || !search->finds ||
        !search->scratch)
        return false;
    for (size_t i = 0; i < workers * search->n_topics; i++)
        search->finds[i].best = (tperf_best){
            .heap = heap, .limit = search->options.keep_all ? SIZE_MAX : search->options.top};
    if (!count_stages(search)) return false;
    for (size_t i = 0; i < workers; i++)
        if (!prepare_scratch(search, &search->scratch[i])) return false;
    for (size_t i = 0; i < search->n_topics; i++)
        if (!prepare_topic(search, &search->topics[i], &questions[i])) return false;
    prepare_places(search);
    return true;
}

tperf_search *tperf_search_new(const tperf_search_options *options, const tperf_question *questions,
                               size_t n_questions, tperf_pool *pool, tperf_error *error) {
    for (size_t i = 0; i < n_questions; i++)
        if (check_question(&questions[i], error) != TPERF_OK) return NULL;
    tperf_search *search = tperf_heap_zeroed(options->heap, 1, sizeof *search);
    if (search) {
        search->options = *options;
        tperf_shared_heap_init(&search->heap, options->heap);
        search->pool = pool;
        search->n_workers = (size_t)tperf_pool_threads(pool);
        search->n_topics = n_questions;
        if (prepare(search, questions)) return search;
    }
    tperf_search_free(search);
    tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for a search of %zu questions",
                    n_questions);
    return NULL;
}

static void release_scratch(tperf_scratch *s, size_t n_topics) {
    for (size_t i = 0; s->books && i < n_topics; i++)
        tperf_book_release(&s->books[i]);
    for (size_t i = 0; s->atlases && i < n_topics; i++)
        tperf_atlas_release(&s->atlases[i]);
    for (size_t i = 0; s->exchanged && i < n_topics; i++)
        tperf_heap_free(s->exchanged[i].of);
    tperf_heap_free(s->holdings.of);
    tperf_heap_free(s->covers);
    tperf_heap_free(s->books);
    tperf_heap_free(s->atlases);
    tperf_heap_free(s->timed);
    tperf_heap_free(s->paced);
    tperf_heap_free(s->exchanged);
    tperf_heap_free(s->costs);
    tperf_heap_free(s->works);
    tperf_heap_free(s->slots);
}

void tperf_search_free(tperf_search *search) {
    if (!search) return;
    for (size_t i = 0; search->finds && i < search->n_workers * search->n_topics; i++)
        tperf_best_release(&search->finds[i].best);
    for (size_t i = 0; search->scratch && i < search->n_workers; i++)
        release_scratch(&search->scratch[i], search->n_topics);
    for (size_t i = 0; i < search->n_divisors; i++)
        tperf_divisors_release(&search->divisors[i]);
    tperf_heap_free(search->topics);
    tperf_heap_free(search->places);
    tperf_heap_free(search->divisors);
    tperf_heap_free(search->first_stage);
    tperf_heap_free(search->finds);
    tperf_heap_free(search->scratch);
    tperf_shared_heap_release(&search->heap);
    tperf_heap_free(search);
}

static void walk_job(void *context, size_t index, int worker) {
    tperf_search *search = context;
    if (tperf_search_stopped(search) || atomic_load(&search->out_of_memory)) return;
    const tperf_shape *shape = &search->shapes[index / search->n_places];
    if (!tperf_walk_shape(search, &search->places[index % search->n_places], shape, worker))
        atomic_store(&search->out_of_memory, true);
}

tperf_status tperf_search_walk(tperf_search *search, const tperf_shape *shapes, size_t n_shapes,
                               tperf_error *error) {
    search->shapes = shapes;
    size_t jobs = n_shapes * search->n_places;
    if (search->options.accept) { // calls back, so stays on the caller's thread
        for (size_t i = 0; i < jobs; i++)
            walk_job(search, i, 0);
    } else {
        tperf_pool_run(search->pool, jobs, walk_job, search);
    }
    if (tperf_search_stopped(search))
        return tperf_error_set(error, TPERF_INTERRUPTED, "interrupted");
    if (atomic_load(&search->out_of_memory))
        return tperf_error_set(error, TPERF_NO_MEMORY,
                               "not enough memory for what the search keeps");
    return TPERF_OK;
}

static tperf_status add(tperf_finds *all, const tperf_answer *part, tperf_error *error) {
    all->candidates += part->candidates;
    all->feasible += part->feasible;
    all->evaluated += part->evaluated;
    for (size_t i = 0; i < part->n_found; i++) {
        const tperf_found *found = &part->found[i];
        if (tperf_best_wants(&all->best, found) && !tperf_best_keep(&all->best, found))
            return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for the results");
    }
    if (part->least && tperf_needs_less(part->least, &all->least)) all->least = *part->least;
    return TPERF_OK;
}

tperf_status tperf_search_add(tperf_search *search, size_t question, const tperf_answer *part,
                              tperf_error *error) {
    return add(tperf_search_finds(search, 0, question), part, error);
}

static tperf_answer answer_of(const tperf_finds *finds) {
    return (tperf_answer){
        finds->candidates, finds->feasible,
        finds->evaluated,  finds->best.n,
        finds->best.found, finds->least.candidate.pipeline ? &finds->least : NULL};
}

tperf_status tperf_search_answer(tperf_search *search, size_t question, tperf_answer *answer,
                                 tperf_error *error) {
    tperf_finds *all = tperf_search_finds(search, 0, question);
    for (size_t worker = 1; worker < search->n_workers; worker++) {
        tperf_finds *finds = tperf_search_finds(search, (int)worker, question);
        tperf_answer part = answer_of(finds);
        tperf_status status = add(all, &part, error);
        if (status != TPERF_OK) return status;
        tperf_best_release(&finds->best);
        *finds = (tperf_finds){0};
    }
    tperf_best_sort(&all->best);
    *answer = answer_of(all);
    return TPERF_OK;
}
