// walk.h: what a walk of one shape has fixed so far. Private to src/search.
#ifndef TPERF_SEARCH_WALK_H
#define TPERF_SEARCH_WALK_H

#include "search/space.h"

typedef struct tperf_walk {
    tperf_search *search;
    int worker;
    const tperf_topic *topic;
    size_t topic_index;
    const tperf_shape *shape;
    const tperf_workload *network;
    size_t n_sections;
    tperf_job job;
    tperf_scratch *scratch;
    tperf_finds *finds;
    int64_t own_gpus, own_batch; // what the grid's own axes multiply to, and cut the batch into
    int64_t demanded[TPERF_AXES_MAX];
    bool folds;              // the grid has axes that fold over others
    tperf_candidate partial; // what the loops have fixed so far
    tperf_memory memory;
    size_t zero; // index of its ZeRO stage
    tperf_pace pace;
    const tperf_spot *spots; // of the sizes at hand
    size_t n_spots;
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

static inline tperf_atlas *tperf_walk_atlas(const tperf_walk *w) {
    return &w->scratch->atlases[w->topic->seat];
}

static inline tperf_book *tperf_walk_book(const tperf_walk *w) {
    return &w->scratch->books[w->topic->divisors - w->search->divisors];
}

// Every placement of the sizes, pipeline and ZeRO stage at hand. false: no memory.
bool tperf_walk_spots(tperf_walk *w);

#endif
