// walk.h: the state of a walk through one shape's candidates. Private to src/search.
#ifndef TPERF_SEARCH_WALK_H
#define TPERF_SEARCH_WALK_H

#include "search/space.h"

typedef struct tperf_walk {
    tperf_search *search;
    int worker;
    const tperf_query *query;
    size_t query_index;
    const tperf_shape *shape;
    const tperf_workload *workload;
    size_t n_sections, n_queries; // queries: of the group
    tperf_job job;
    tperf_scratch *scratch;
    tperf_worker_result *result;
    int64_t own_gpus, own_batch; // the product of the own axes, and their share of the batch
    int64_t demanded[TPERF_AXES_MAX];
    int64_t
        replicas_fast; // placement of the replicas, if the workload is laid out for a number of them
    bool folds;        // tperf_grid_may_fold
    int64_t shards, expert_shards; // of a weight, for each replica; unless axes fold
    tperf_candidate partial;       // set by the loops so far
    tperf_sharing sharing;
    double memory; // of the fullest stage, bytes
    size_t zero;   // index of the candidate's ZeRO stage
    tperf_terms terms;
    const tperf_placement_list *list; // of the current sizes
    tperf_known_sums *sums;           // of the current pipeline, by placed and panels
    int64_t number;                   // of the shape, in all walks
    tperf_known_memory *memories;     // of the current query; NULL: not remembered
    double latest;                    // seconds of an iteration: a later one cannot be kept
    bool feasible, worked_out;
    bool shares_prices; // remembers the prices of blocks, for other shapes
    tperf_hop hop;
    size_t first_alike;         // index of the first pipeline with as many stages
    double tied[2];             // tperf_joint_time: ends in two domains, in one
    bool prepared, shared;      // for pipelines with as many stages
    tperf_layer_cost *bytes;    // the scratch's: without times
    tperf_section_set sections; // those with ops
    size_t n_used;              // how many they are
    // From here on by section, filled in where they are used.
    size_t used[TPERF_SECTIONS_MAX];    // those with ops
    double buckets[TPERF_SECTIONS_MAX]; // tperf_layers_of_bucket for the current sizes
} tperf_walk;

static inline tperf_layout_cache *tperf_walk_layouts(const tperf_walk *w) {
    return &w->scratch->layout_caches[w->query->seat];
}

static inline tperf_placement_cache *tperf_walk_cached_placements(const tperf_walk *w) {
    return &w->scratch->placement_caches[w->query->divisors - w->search->divisors];
}

static inline const struct tperf_content *tperf_walk_contents(const tperf_walk *w) {
    return tperf_search_contents(w->search, w->partial.pipeline);
}

// Evaluates every placement of the current sizes, pipeline and ZeRO stage. False if out of memory.
bool tperf_walk_placements(tperf_walk *w);

#endif
