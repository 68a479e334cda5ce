// space.h: the state of a search. Private to src/search.
#ifndef TPERF_SEARCH_SPACE_H
#define TPERF_SEARCH_SPACE_H

#include <stdatomic.h>

#include "grid/placements.h"
#include "plan/exposure.h"
#include "search/best.h"
#include "search/prices.h"
#include "search/stock.h"

// A question and values derived from it.
typedef struct tperf_query {
    tperf_question question;
    bool one_domain;                // all GPUs are in one fast domain
    const tperf_divisors *divisors; // of the number of GPUs
    // A machine on which ops cost the same, placed the same: the question's, or an earlier one's.
    const tperf_system *priced_as;
    // The same for queries whose own axes can be placed in the same ways, whatever the machine.
    size_t seat;
    // The same for queries with as many GPUs and samples, whose candidates hold as much.
    size_t count;
} tperf_query;

// Consecutive queries on which a workload's axes can be placed in the same ways: layer costs are shared among them.
typedef struct tperf_query_group {
    size_t first, end;
} tperf_query_group;

// The workload's costs in one placement of its axes; computed on demand.
typedef struct tperf_costs {
    int64_t timed_for; // the scratch's shape_stamp
} tperf_costs;

// One query's exchanges: of its cached groups x ZeRO stages, computed on demand for all groups of one list.
typedef struct tperf_exchanges {
    size_t timed_capacity, capacity;
    int64_t *timed_for; // the scratch's weights_stamp; set for a list's first group
    tperf_exchange *of; // by section
} tperf_exchanges;

// The layer counts of all pipelines' stages, in order.
typedef struct tperf_known_layer_counts {
    int n_kinds;
    tperf_section_set holders[TPERF_SHARED_MAX]; // the workload's
    tperf_section_set sections;                  // those that count
    tperf_layer_counts *of;
} tperf_known_layer_counts;

// A pipeline's times in one placement of the axes; computed on demand.
typedef struct tperf_known_sums {
    int64_t known_for;    // the scratch's sums_stamp
    int64_t microbatches; // 0: any
    tperf_pass_sums sums;
} tperf_known_sums;

// What these were computed for, and how they are laid out.
typedef struct tperf_pass_sums_for {
    int64_t shape;       // the scratch's shape_stamp
    size_t query, alike; // 0 if there is a row for each kind of pipelines
    size_t row;          // elements
} tperf_pass_sums_for;

// The memory of a candidate with some pipeline and ZeRO stage; computed on demand.
typedef struct tperf_known_memory {
    int64_t known_for; // the number of the shape
    double bytes;
} tperf_known_memory;

// One worker's buffers while it walks one shape for one group of queries; they grow, and are reused.
typedef struct tperf_scratch {
    size_t timed_capacity, costs_capacity, layers_capacity, covers_capacity, works_capacity,
        sums_capacity;
    tperf_costs *timed;       // one per placement in the layout cache
    tperf_layer_cost *costs;  // placements x n_panels x sections, if ranked by least
    tperf_layer_time *layers; // likewise, always
    tperf_cover *covers;      // likewise
    tperf_known_sums *sums;   // rows x placements x n_panels
    tperf_op_work *works;     // n_panels x ops, once a placement has been timed
    tperf_prices prices;      // instead, where shapes share blocks
    double *
        hops; // pipelines x most_parts: of messages between so many stages, by how many share a domain
    int64_t *hops_for;                       // the shape_stamp
    tperf_exchanges *exchanged;              // one per query
    tperf_layout_cache *layout_caches;       // one per seat
    tperf_placement_cache *placement_caches; // one per number of GPUs and domain size
    tperf_known_layer_counts layer_counts;
    tperf_stock stock;
    tperf_layer_cost bytes[TPERF_SECTIONS_MAX]; // of the current shape, without times
    tperf_known_memory *memories; // counts x pipelines x ZeRO stages; NULL: no shared counts
    size_t roomiest;              // the pipeline in which a shape fitted last: neighbours are alike
    int64_t shape_stamp;          // changes with the shape and the group
    int64_t sums_stamp;           // changes with sums_for
    tperf_pass_sums_for sums_for;
    int64_t sizes_stamp;                                     // changes with the three below
    int64_t weights_stamp;                                   // changes with these and the weights
    int strategy;                                            // of the previous shape
    int64_t sizes[TPERF_AXES_MAX], demanded[TPERF_AXES_MAX]; // its sizes and placements
    tperf_rank_order order;
    int64_t weights; // the stock's stamp of its weights
} tperf_scratch;

// One worker's results for one question.
typedef struct tperf_worker_result {
    int64_t candidates, feasible, evaluated;
    tperf_best best;
    tperf_best open;   // by bound, see tperf_search_options.by_least
    tperf_found least; // least memory so far; no pipeline: none yet
} tperf_worker_result;

struct tperf_search {
    tperf_search_options options;
    tperf_shared_heap heap; // allocates everything below
    tperf_pool *pool;       // borrowed; may be freed before the search
    size_t n_workers, n_queries, n_query_groups, n_divisors, n_counts;
    size_t n_stages;   // in all pipelines
    size_t most_parts; // of the divisors
    tperf_query *queries;
    tperf_query_group *query_groups; // partition of the queries, in order
    tperf_divisors *divisors;        // one per number of GPUs and domain size
    size_t *first_stage;             // [n_pipelines] index into the stages of all pipelines
    size_t n_alike, *alike; // [n_pipelines] of n_alike kinds; layers take as long in each of a kind
    tperf_contents contents;      // of all pipelines' stages
    tperf_scratch *scratch;       // one per worker
    tperf_worker_result *results; // workers x queries
    const tperf_shape *shapes;    // of the current walk
    size_t n_shapes;
    int64_t n_walked; // shapes of earlier walks
    atomic_bool out_of_memory;
};

static inline tperf_worker_result *tperf_search_result(tperf_search *search, int worker,
                                                       size_t query) {
    return &search->results[(size_t)worker * search->n_queries + query];
}

static inline const struct tperf_content *tperf_search_contents(const tperf_search *search,
                                                                const tperf_pipeline *pipeline) {
    return &search->contents.of[search->first_stage[pipeline - search->options.pipelines]];
}

static inline bool tperf_search_stopped(const tperf_search *search) {
    return search->options.stop && atomic_load(search->options.stop);
}

// Walks one shape for one group of queries. False if out of memory.
bool tperf_walk_shape(tperf_search *search, const tperf_query_group *group,
                      const tperf_shape *shape, int worker);

#endif
