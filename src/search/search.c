// search.c: see tperf/search.h.
#include <string.h>

#include "search/space.h"

// Sizes beyond this are refused where they enter, so that products of two fit in 64 bits.
static const int64_t LARGEST = (int64_t)1 << 31;

static tp_status check_question(const tp_question *question, tp_error *error) {
    if (question->gpus < 1 || question->gpus > LARGEST)
        return tp_error_set(error, TP_INVALID, "'gpus' must be from 1 to 2^31, got %lld",
                            (long long)question->gpus);
    if (question->global_batch < 1 || question->global_batch > LARGEST)
        return tp_error_set(error, TP_INVALID, "'global_batch' must be from 1 to 2^31, got %lld",
                            (long long)question->global_batch);
    return tp_system_validate(&question->system, error);
}

// The divisors of a number of GPUs, shared by the topics that have as many in domains as large.
static const tp_divisors *share_divisors(tp_search *search, int64_t gpus, int64_t domain) {
    for (size_t i = 0; i < search->n_divisors; i++) {
        const tp_divisors *known = &search->divisors[i];
        if (known->number == gpus && known->domain == domain) return known;
    }
    tp_divisors *divisors = &search->divisors[search->n_divisors];
    if (!tp_divisors_init(divisors, &search->heap.heap, gpus, domain)) return NULL;
    search->n_divisors++;
    return divisors;
}

static bool prepare_topic(tp_search *search, tp_topic *topic, const tp_question *question) {
    int64_t gpus = question->gpus, domain = question->system.network.fast.domain;
    topic->question = *question;
    topic->one_domain = gpus <= domain;
    topic->divisors = share_divisors(search, gpus, domain);
    return topic->divisors != NULL;
}

static bool same_place(const tp_topic *a, const tp_topic *b) {
    return a->one_domain == b->one_domain &&
           memcmp(&a->question.system, &b->question.system, sizeof a->question.system) == 0;
}

static void prepare_places(tp_search *search) {
    const tp_topic *topics = search->topics;
    for (size_t i = 0; i < search->n_topics; i++) {
        if (i == 0 || !same_place(&topics[i - 1], &topics[i]))
            search->places[search->n_places++] = (tp_place){i, i};
        search->places[search->n_places - 1].end++;
    }
}

static bool prepare(tp_search *search, const tp_question *questions) {
    size_t workers = search->n_workers;
    const tp_heap *heap = &search->heap.heap;
    search->topics = tp_heap_zeroed(heap, search->n_topics, sizeof *search->topics);
    search->places = tp_heap_zeroed(heap, search->n_topics, sizeof *search->places);
    search->divisors = tp_heap_zeroed(heap, search->n_topics, sizeof *search->divisors);
    search->finds = tp_heap_zeroed(heap, workers * search->n_topics, sizeof *search->finds);
    search->scratch = tp_heap_zeroed(heap, workers, sizeof *search->scratch);
    if (!search->topics || !search->places || !search->divisors || !search->finds ||
        !search->scratch)
        return false;
    for (size_t i = 0; i < workers * search->n_topics; i++)
        search->finds[i].best = (tp_best){
            .heap = heap, .limit = search->options.keep_all ? SIZE_MAX : search->options.top};
    for (size_t i = 0; i < workers; i++) {
        search->scratch[i].books = tp_heap_zeroed(heap, search->n_topics, sizeof(tp_book));
        search->scratch[i].atlases = tp_heap_zeroed(heap, search->n_topics, sizeof(tp_atlas));
        if (!search->scratch[i].books || !search->scratch[i].atlases) return false;
    }
    for (size_t i = 0; i < search->n_topics; i++)
        if (!prepare_topic(search, &search->topics[i], &questions[i])) return false;
    prepare_places(search);
    return true;
}

tp_search *tp_search_new(const tp_search_options *options, const tp_question *questions,
                         size_t n_questions, tp_pool *pool, tp_error *error) {
    for (size_t i = 0; i < n_questions; i++)
        if (check_question(&questions[i], error) != TP_OK) return NULL;
    tp_search *search = tp_heap_zeroed(options->heap, 1, sizeof *search);
    if (search) {
        search->options = *options;
        tp_shared_heap_init(&search->heap, options->heap);
        search->pool = pool;
        search->n_workers = (size_t)tp_pool_threads(pool);
        search->n_topics = n_questions;
        if (prepare(search, questions)) return search;
    }
    tp_search_free(search);
    tp_error_set(error, TP_NO_MEMORY, "not enough memory for a search of %zu questions",
                 n_questions);
    return NULL;
}

static void release_scratch(tp_scratch *s, size_t n_topics) {
    for (size_t i = 0; s->books && i < n_topics; i++)
        tp_book_release(&s->books[i]);
    for (size_t i = 0; s->atlases && i < n_topics; i++)
        tp_atlas_release(&s->atlases[i]);
    tp_heap_free(s->books);
    tp_heap_free(s->atlases);
    tp_heap_free(s->timed);
    tp_heap_free(s->paced);
    tp_heap_free(s->exchanged);
    tp_heap_free(s->costs);
    tp_heap_free(s->works);
    tp_heap_free(s->slots);
}

void tp_search_free(tp_search *search) {
    if (!search) return;
    for (size_t i = 0; search->finds && i < search->n_workers * search->n_topics; i++)
        tp_best_release(&search->finds[i].best);
    for (size_t i = 0; search->scratch && i < search->n_workers; i++)
        release_scratch(&search->scratch[i], search->n_topics);
    for (size_t i = 0; i < search->n_divisors; i++)
        tp_divisors_release(&search->divisors[i]);
    tp_heap_free(search->topics);
    tp_heap_free(search->places);
    tp_heap_free(search->divisors);
    tp_heap_free(search->finds);
    tp_heap_free(search->scratch);
    tp_shared_heap_release(&search->heap);
    tp_heap_free(search);
}

static void walk_job(void *context, size_t index, int worker) {
    tp_search *search = context;
    if (tp_search_stopped(search) || atomic_load(&search->out_of_memory)) return;
    const tp_shape *shape = &search->shapes[index / search->n_places];
    if (!tp_walk_shape(search, &search->places[index % search->n_places], shape, worker))
        atomic_store(&search->out_of_memory, true);
}

tp_status tp_search_walk(tp_search *search, const tp_shape *shapes, size_t n_shapes,
                         tp_error *error) {
    search->shapes = shapes;
    size_t jobs = n_shapes * search->n_places;
    if (search->options.accept) { // calls back, so stays on the caller's thread
        for (size_t i = 0; i < jobs; i++)
            walk_job(search, i, 0);
    } else {
        tp_pool_run(search->pool, jobs, walk_job, search);
    }
    if (tp_search_stopped(search)) return tp_error_set(error, TP_INTERRUPTED, "interrupted");
    if (atomic_load(&search->out_of_memory))
        return tp_error_set(error, TP_NO_MEMORY, "not enough memory for what the search keeps");
    return TP_OK;
}

tp_status tp_search_answer(tp_search *search, size_t question, tp_answer *answer, tp_error *error) {
    tp_finds *all = tp_search_finds(search, 0, question);
    for (size_t worker = 1; worker < search->n_workers; worker++) {
        tp_finds *part = tp_search_finds(search, (int)worker, question);
        all->candidates += part->candidates;
        all->feasible += part->feasible;
        all->evaluated += part->evaluated;
        for (size_t i = 0; i < part->best.n; i++) {
            const tp_found *found = &part->best.found[i];
            if (tp_best_wants(&all->best, found) && !tp_best_keep(&all->best, found))
                return tp_error_set(error, TP_NO_MEMORY, "not enough memory for the results");
        }
        if (tp_needs_less(&part->least, &all->least)) all->least = part->least;
        tp_best_release(&part->best);
        *part = (tp_finds){0};
    }
    tp_best_sort(&all->best);
    *answer = (tp_answer){all->candidates, all->feasible,
                          all->evaluated,  all->best.n,
                          all->best.found, all->least.candidate.pipeline ? &all->least : NULL};
    return TP_OK;
}
