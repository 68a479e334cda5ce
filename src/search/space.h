// space.h: a search and its parts. Private to src/search.
#ifndef TPERF_SEARCH_SPACE_H
#define TPERF_SEARCH_SPACE_H

#include <stdatomic.h>

#include "grid/placements.h"
#include "plan/exposure.h"
#include "search/best.h"

// A question, prepared.
typedef struct tperf_query {
    tperf_question question;
    bool one_domain; // the machine is no more than one fast domain, which holds all of it
    const tperf_divisors *divisors; // of the number of GPUs
    size_t
        seat; // queries in which own axes can be placed in the same ways, whatever the machine, have the same
} tperf_query;

// Neighbouring queries in which the axes of a workload can be placed in the same ways: what a shape's layouts cost
// is the same for all of them.
typedef struct tperf_query_group {
    size_t first, end;
} tperf_query_group;

// What depends on how many stages share a domain: as many as a divisor of all GPUs.
typedef struct tperf_cached_hop {
    double hop;      // tperf_hop_time
    int64_t hop_for; // the scratch's hop_stamp when it was timed
} tperf_cached_hop;

// The workload's costs in one placement of its axes; timed when first needed.
typedef struct tperf_costs {
    int64_t timed_for; // the scratch's shape_stamp
} tperf_costs;

// The pipeline's times with those costs, whatever the ZeRO stage; worked out when first needed.
typedef struct tperf_paced {
    int64_t paced_for; // the scratch's pace_stamp
    tperf_pipeline_time time;
} tperf_paced;

// What groups of replicas exchange at one ZeRO stage; timed when first needed.
typedef struct tperf_exchanged {
    int64_t timed_for; // the scratch's weights_stamp
    tperf_exchange sections[TPERF_SECTIONS_MAX];
} tperf_exchanged;

// Of one query: the groups of the known's x ZeRO stages.
typedef struct tperf_exchanges {
    size_t capacity;
    tperf_exchanged *of;
} tperf_exchanges;

// What the stages of all pipelines hold, in their order.
typedef struct tperf_holdings {
    int n_kinds;
    unsigned sections; // that count
    unsigned leading;  // that lead a stage
    tperf_holding *of;
} tperf_holdings;

// What one worker needs while it walks one shape for one place; grows, and is used again.
typedef struct tperf_scratch {
    size_t timed_capacity, costs_capacity, covers_capacity, works_capacity, hops_capacity,
        paced_capacity;
    tperf_costs *timed;                      // one a placement of the place's cache
    tperf_layer_cost *costs;                 // placements x n_panels x sections
    tperf_cover *covers;                     // likewise
    tperf_paced *paced;                      // placements x n_panels
    tperf_op_work *works;                    // n_panels x ops, once a placement has been timed
    tperf_cached_hop *hops;                  // one a divisor of all GPUs
    tperf_exchanges *exchanged;              // one a query
    tperf_layout_cache *layout_caches;       // one a seat
    tperf_placement_cache *placement_caches; // one a number of GPUs in domains as large
    tperf_holdings holdings;
    int64_t hop_stamp;     // changes with the shape, the place, the query and the number of stages
    int64_t shape_stamp;   // changes with the shape and the place
    int64_t pace_stamp;    // changes with these and the pipeline
    int64_t sizes_stamp;   // changes with the three below
    int64_t weights_stamp; // changes with these and the weights
    int strategy;          // of the shape walked last
    int64_t sizes[TPERF_AXES_MAX], demanded[TPERF_AXES_MAX]; // its sizes and placements
    tperf_weights weights[TPERF_SECTIONS_MAX], experts[TPERF_SECTIONS_MAX]; // its layers'
} tperf_scratch;

// What one worker has found for one question.
typedef struct tperf_worker_result {
    int64_t candidates, feasible, evaluated;
    tperf_best best;
    tperf_found least; // needs least memory of those laid out; no pipeline: none yet
} tperf_worker_result;

struct tperf_search {
    tperf_search_options options;
    tperf_shared_heap heap; // of everything below
    tperf_pool *pool;       // may go before the search does
    size_t n_workers, n_queries, n_query_groups, n_divisors;
    size_t n_stages; // of all pipelines
    tperf_query *queries;
    tperf_query_group *query_groups; // of all queries, in their order
    tperf_divisors *divisors;        // of every number of GPUs
    size_t *first_stage;             // of every pipeline, among the stages of all
    tperf_scratch *scratch;          // one a worker
    tperf_worker_result *results;    // workers x queries
    const tperf_shape *shapes;       // of the walk under way
    size_t n_shapes;
    atomic_bool out_of_memory;
};

static inline tperf_worker_result *tperf_search_result(tperf_search *search, int worker,
                                                       size_t query) {
    return &search->results[(size_t)worker * search->n_queries + query];
}

static inline bool tperf_search_stopped(const tperf_search *search) {
    return search->options.stop && atomic_load(search->options.stop);
}

// Walks one shape for the queries of one place. false: no memory.
bool tperf_walk_shape(tperf_search *search, const tperf_query_group *group,
                      const tperf_shape *shape, int worker);

#endif
