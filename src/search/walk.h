// walk.h: what a walk of one shape has fixed so far. Private to src/search.
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
    size_t n_sections;
    tperf_job job;
    tperf_scratch *scratch;
    tperf_worker_result *result;
    int64_t own_gpus, own_batch; // what the grid's own axes multiply to, and cut the batch into
    int64_t demanded[TPERF_AXES_MAX];
    bool folds;              // the grid has axes that fold over others
    tperf_candidate partial; // what the loops have fixed so far
    tperf_memory memory;
    size_t zero; // index of its ZeRO stage
    tperf_pace pace;
    const tperf_placement_entry *placements; // of the sizes at hand
    size_t n_placements;
    bool feasible, worked_out;
    tperf_hop hop;
    int64_t hops_of;                         // stages of the pipeline walked last
    unsigned sections;                       // bit i: section i has ops
    size_t n_used, used[TPERF_SECTIONS_MAX]; // those sections
    bool simple;                             // see tperf_holding_exposure
    double buckets[TPERF_SECTIONS_MAX];      // tperf_layers_of_bucket of the sizes at hand
    tperf_exposure
        exposures[TPERF_SECTIONS_MAX]; // of the candidate at hand; 0 of sections without ops
    tperf_layer_cost bytes[TPERF_SECTIONS_MAX]; // no times
} tperf_walk;

static inline tperf_layout_cache *tperf_walk_layouts(const tperf_walk *w) {
    return &w->scratch->layout_caches[w->query->seat];
}

static inline tperf_placement_cache *tperf_walk_cached_placements(const tperf_walk *w) {
    return &w->scratch->placement_caches[w->query->divisors - w->search->divisors];
}

// Every placement of the sizes, pipeline and ZeRO stage at hand. false: no memory.
bool tperf_walk_placements(tperf_walk *w);

#endif
