// placements.h: all maximal placements: how many GPUs of each axis share a fast domain. The only solver of "who sits
// next to whom". docs/model.md section 7.2. Private to src/grid and src/search.
//
// A placement is found in three steps: a layout of the own axes that multiply the GPUs; the parts of the folded axes,
// which follow from it and from the replicas' part; the stages. A layer's cost depends only on the second.
#ifndef TPERF_GRID_PLACEMENTS_H
#define TPERF_GRID_PLACEMENTS_H

#include "grid/divisors.h"
#include "tperf/grid.h"

// A placement problem: the axes, and the machine's domains.
typedef struct tperf_placement_problem {
    const tperf_heap *heap;
    const tperf_grid *grid;
    const int64_t *sizes, *demanded; // of all axes; required placements, 0: any
    const tperf_divisors *divisors;  // of the number of GPUs; also knows the domain's size
    const tperf_rank_order *order; // only the placement that it implies; NULL: all that are maximal
    bool one_domain;               // all GPUs are in one domain
    bool fills;                    // a placement must fill the domain (Q16)
    bool folds;                    // tperf_grid_may_fold
    bool tiered; // the network has further tiers: groups depend on all axes' parts
} tperf_placement_problem;

// One way to place the own axes that multiply the GPUs.
typedef struct tperf_layout {
    int64_t fast[TPERF_AXES_MAX];
    int64_t dense,
        experts;     // copies of a dense weight, and of an expert's, within a domain
    int64_t room;    // GPUs of a domain left for replicas and stages
    int64_t step;    // the smallest factor by which an axis could grow; INT64_MAX: none
    uint32_t placed; // the last tperf_placed of this layout; UINT32_MAX: none
} tperf_layout;

// A layout with its folded axes: a layer's cost depends on nothing else.
typedef struct tperf_placed {
    int64_t fast[TPERF_AXES_MAX]; // of the own axes
    uint32_t next;                // the next one of the same layout; UINT32_MAX: none
} tperf_placed;

// All layouts for one set of sizes; with an order of ranks, those met so far.
typedef struct tperf_layout_cache {
    int64_t stamp; // identifies the sizes; the caller's
    size_t n_layouts, n_placed, layouts_capacity, placed_capacity;
    tperf_layout *layouts;
    tperf_placed *placed; // filled in with the placements
} tperf_layout_cache;

// One placement, by index.
typedef struct tperf_placement_entry {
    uint32_t placed;           // in tperf_layout_cache.placed
    uint32_t exchange;         // in tperf_placement_cache.exchanges
    uint32_t hop;              // index of `stages` among the parts of tperf_placement_list
    uint32_t replicas, stages; // GPUs that share a domain
} tperf_placement_entry;

// Consecutive placements with equal layer costs.
typedef struct tperf_placement_run {
    uint32_t placed;
    size_t end; // placements below this index belong to this or an earlier run
} tperf_placement_run;

// Groups of replicas. Placements with equal groups exchange gradients in equal time. For one number of stages the
// groups follow from how many GPUs of a domain hold copies, and from the axes that are reduced separately.
typedef struct tperf_exchange_groups {
    tperf_group all_dense, all_experts; // with a copy
    int64_t apart_fast[TPERF_AXES_MAX];
    tperf_replicas dense, experts;
} tperf_exchange_groups;

// The placements for one number of pipeline stages, which determines the number of replicas.
typedef struct tperf_placement_list {
    int64_t stages;
    size_t begin, end;                   // range in tperf_placement_cache.placements
    size_t first_run, end_run;           // in its runs
    size_t first_exchange, end_exchange; // in its exchanges
    const tperf_part *parts, *end_parts; // of the stages
} tperf_placement_list;

// The placements for one set of sizes of the own axes, by number of stages.
typedef struct tperf_placement_cache {
    int64_t stamp; // that of the layout cache
    size_t next;   // list to look at first
    size_t n_lists, n_placements, n_runs, n_exchanges, lists_capacity, placements_capacity,
        runs_capacity, exchanges_capacity;
    tperf_placement_list *lists;
    tperf_placement_entry *placements;
    tperf_placement_run *runs;
    tperf_exchange_groups *exchanges;
} tperf_placement_cache;

// Whether folded axes have more than one GPU, or must be placed: otherwise their parts are 1.
bool tperf_grid_may_fold(const tperf_grid *grid, const int64_t *sizes, const int64_t *demanded);

// Fills the cache with the layouts of the sizes, unless it has this stamp. False if out of memory.
bool tperf_layout_cache_make(tperf_layout_cache *cache, const tperf_placement_problem *problem,
                             int64_t stamp);

// The list for so many stages if it is known; else NULL. Lists are most often asked for in the same order.
static inline const tperf_placement_list *
tperf_placement_cache_known(tperf_placement_cache *found, const tperf_layout_cache *cache,
                            int64_t stages) {
    if (found->stamp != cache->stamp)
        found->n_lists = found->n_placements = found->n_runs = found->n_exchanges = 0;
    found->stamp = cache->stamp;
    for (size_t i = 0; i < found->n_lists; i++) {
        size_t at = found->next < found->n_lists ? found->next : 0;
        found->next = at + 1;
        if (found->lists[at].stages == stages) return &found->lists[at];
    }
    return NULL;
}

// All placements of the sizes, replicas and stages included. The list is valid until the next call. NULL if out of
// memory.
const tperf_placement_list *tperf_placement_cache_find(tperf_placement_cache *found,
                                                       tperf_layout_cache *cache,
                                                       const tperf_placement_problem *problem);

void tperf_layout_cache_release(tperf_layout_cache *cache);
void tperf_placement_cache_release(tperf_placement_cache *found);

#endif
