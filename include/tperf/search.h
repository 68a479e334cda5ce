// search.h: all ways to run a model on a machine, and the best of them.
//
// A search answers several questions (a system and a number of GPUs each) about one model at once. The caller lays out
// workloads, one per shape; the search walks the rest of each space: pipelines, data-parallel sizes, ZeRO stages,
// panels, and placements (docs/model.md section 7). Every candidate that fits in memory is evaluated unless a bound
// proves that it cannot be among the best; the counts are exact either way. The order is total (what the caller
// ranks by, throughput descending, memory ascending, candidate ascending), so the answer does not depend on the number
// of threads.
#ifndef TPERF_SEARCH_H
#define TPERF_SEARCH_H

#include <stdatomic.h>

#include "tperf/plan.h"
#include "tperf/pool.h"

typedef struct tperf_found {
    double throughput; // samples per second
    double memory;     // bytes on one GPU
    double rank;       // what ranks first, least first: see tperf_search_options.ranked
    bool feasible;     // memory <= the HBM's capacity less the reserve
    tperf_candidate candidate;
    const struct tperf_shape *shape; // of those walked; NULL: added by tperf_search_add
} tperf_found;

typedef struct tperf_question {
    tperf_system system;
    int64_t gpus;
    int64_t global_batch; // samples
    // Of an earlier search, whose listed candidates have been simulated: the last of them, after which to go on (NULL:
    // none), and the throughput of the worst that counts, samples per second. See tperf_search_options.by_least.
    const tperf_found *after;
    double reached;
} tperf_question;

// Whether to keep a candidate that qualifies, and, if `ranked`, its rank; called on the thread of tperf_search_walk.
typedef bool (*tperf_search_accept)(void *context, size_t question, tperf_found *found);

typedef enum tperf_by_least {
    TPERF_BY_TIME,
    TPERF_OPEN_BY_LEAST,
    TPERF_ALL_BY_LEAST
} tperf_by_least;

// What to keep and to list, a row for each setting (tperf/record.h). by_least: which candidates to list by
// tperf_iteration_least, for a caller that simulates them: those whose time no closed form tells, or all. The others
// compete for the best as ever, and rule out of the list what cannot be among them.
#define TPERF_MEMBER_BY_LEAST tperf_by_least
#define TPERF_TYPE_BY_LEAST   TPERF_TYPE_INT32
// clang-format off
#define TPERF_SEARCH(FIELD)                                                                        \
    FIELD(INTEGER, top, "top", NULL, TPERF_REQUIRED, 1, TPERF_ANY, "how many to keep per question") \
    FIELD(INTEGER, replicas_fast, "replicas_fast", NULL, 0, 0, TPERF_ANY,                          \
          "required placement of the replicas; 0: any")                                            \
    FIELD(INTEGER, stages_fast, "stages_fast", NULL, 0, 0, TPERF_ANY, "of the stages, likewise")   \
    FIELD(FLAG, keep_all, "keep_all", NULL, 0, 0, 1, "keep every candidate, feasible or not")      \
    FIELD(FLAG, infeasible_too, "infeasible_too", NULL, 0, 0, 1, "let candidates that do not fit compete") \
    FIELD(FLAG, no_pruning, "no_pruning", NULL, 0, 0, 1,                                           \
          "also evaluate what a bound rules out; never changes the answer")                        \
    FIELD(FLAG, ranked, "ranked", NULL, 0, 0, 1,                                                   \
          "rank by what `accept` sets, of every candidate that fits")                              \
    FIELD(BY_LEAST, by_least, "by_least", NULL, TPERF_BY_TIME, TPERF_BY_TIME, TPERF_ALL_BY_LEAST,  \
          "which candidates to list by a bound: 0: none, 1: those without a closed form, 2: all")  \
    FIELD(INTEGER, most_open, "most_open", NULL, 0, 0, TPERF_ANY, "how many to list per question") \
    FIELD(FLAG, memory_only, "memory_only", NULL, 0, 0, 1,                                         \
          "time nothing: count what fits, find the least memory")
// clang-format on

// The arrays are the caller's and must outlive the search.
typedef struct tperf_search_options {
    TPERF_SEARCH(TPERF_MEMBER)
    const tperf_heap *heap; // charged for the search and its results
    tperf_rules rules;
    tperf_software software;
    tperf_training training;
    const tperf_pipeline *pipelines; // to try
    size_t n_pipelines;
    const int *zero; // ZeRO stages to try
    size_t n_zero;
    const int64_t *dp; // allowed sizes; NULL for any
    size_t n_dp;
    tperf_search_accept accept; // NULL: keep all; otherwise the search uses one thread
    void *accept_context;
    const atomic_int *stop; // nonzero: stop early; may be NULL
} tperf_search_options;
extern const tperf_record tperf_search_record;

// A workload laid out for one shape.
typedef struct tperf_shape {
    int strategy, variant; // see tperf_candidate
    const tperf_workload *workload;
    int64_t micro_batch;   // samples
    const int64_t *panels; // the numbers of SUMMA panels to try, at least one
    size_t n_panels;
    int64_t fast[TPERF_AXES_MAX]; // required placements of the grid's own axes; 0: any
    tperf_rank_order order;       // only the placement that it implies; none: all
    bool cannot_fit; // known not to fit: only counted; workload may be a smaller micro-batch's
} tperf_shape;

typedef struct tperf_answer {
    int64_t candidates, feasible; // counted before `accept`
    int64_t evaluated;            // of these, timed; the rest are ruled out by memory or a bound
    size_t n_found;
    tperf_found *found; // best first; owned by the search
    size_t n_open;
    // Listed by bound, the fastest first, with its bound for throughput; likewise.
    tperf_found *open;
    // The candidate with the least memory, any placement; NULL without candidates.
    const tperf_found *least;
} tperf_answer;

typedef struct tperf_search tperf_search;

// Copies the options and the questions; borrows the pool. NULL, with *error filled, if an argument is invalid or memory
// is out.
tperf_search *tperf_search_new(const tperf_search_options *options, const tperf_question *questions,
                               size_t n_questions, tperf_pool *pool, tperf_error *error);
void tperf_search_free(tperf_search *search); // NULL is fine

// Whether no candidate of the shape, or of a larger micro-batch with the same sizes, can fit for any question: the
// weights and `times` the activations of the shape's workload, which may be a smaller micro-batch's, exceed the memory.
// The caller may then add these micro-batches with cannot_fit set. Not during a walk.
bool tperf_search_cannot_fit(const tperf_search *search, const tperf_shape *shape, double times);

// Micro-batches to try of a shape, ascending. growth: the part of what a layer keeps for its backward pass that surely
// grows with the micro-batch; fixed: growth is instead the part that surely stays, as of layers that nothing is known of.
typedef struct tperf_series {
    const int64_t *micro_batches;
    size_t n;
    double growth;
    bool fixed;
} tperf_series;

// Whether micro-batch i + 1 or a larger one of the series may fit, by the workload of micro-batch i. false: the caller
// need not lay them out, and adds them with cannot_fit set.
bool tperf_search_may_fit(const tperf_search *search, const tperf_series *series, size_t i,
                          const tperf_workload *workload);

// Walks the spaces of these shapes for every question that they suit. TPERF_INTERRUPTED if stopped.
tperf_status tperf_search_walk(tperf_search *search, const tperf_shape *shapes, size_t n_shapes,
                               tperf_error *error);

// Adds the results of another search for the same question among other shapes, with the same options.
tperf_status tperf_search_add(tperf_search *search, size_t question, const tperf_answer *part,
                              tperf_error *error);

// Sorts and returns the results of a question. No tperf_search_walk or tperf_search_add afterwards.
tperf_status tperf_search_answer(tperf_search *search, size_t question, tperf_answer *answer,
                                 tperf_error *error);

#endif
