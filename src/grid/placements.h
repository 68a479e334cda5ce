// placements.h: how many GPUs of each axis share a fast domain: every way that leaves no axis room for more.
// The only solver of "who sits next to whom". docs/model.md section 7.2. Private to src/grid and src/search.
//
// A placement is found in three steps: a layout of the own axes that multiply the GPUs; what that and the part of the
// replicas make of the axes that fold over them; the stages. What a layer costs depends on the second alone.
#ifndef TPERF_GRID_PLACEMENTS_H
#define TPERF_GRID_PLACEMENTS_H

#include "grid/divisors.h"
#include "tperf/grid.h"

// What is to be placed, and in what.
typedef struct tperf_placement_problem {
    const tperf_heap *heap;
    const tperf_grid *grid;
    const int64_t *sizes, *demanded; // of all axes; placements that are wanted, 0 for any
    const tperf_divisors *divisors;  // of all GPUs, and the GPUs of a domain
    bool one_domain; // the machine is no more than one domain, which holds all of it
    bool fills;      // a placement must fill the domain (Q16)
    bool folds;      // the grid has axes that fold over others
} tperf_placement_problem;

// One way to place the own axes that multiply the GPUs.
typedef struct tperf_layout {
    int64_t fast[TPERF_AXES_MAX];
    int64_t dense,
        experts;  // the part of these that copies of a weight, and of experts', share a domain with
    int64_t room; // GPUs of a domain that are left for each of them
    int64_t step; // the smallest factor by which one of them could grow; INT64_MAX: none can
    uint32_t placed; // the last found of those that have it; UINT32_MAX: none
} tperf_layout;

// A layout and what it makes of folded axes: all that a layer's cost depends on.
typedef struct tperf_placed {
    int64_t fast[TPERF_AXES_MAX]; // of the own axes
    uint32_t next;                // another of the same layout; UINT32_MAX: none
} tperf_placed;

// The layouts of some sizes.
typedef struct tperf_layout_cache {
    int64_t stamp; // the caller's, of the sizes that it is made for
    size_t n_layouts, n_placed, layouts_capacity, placed_capacity;
    tperf_layout *layouts;
    tperf_placed *placed; // found with the placements
} tperf_layout_cache;

// One placement.
typedef struct tperf_placement_entry {
    uint32_t placed;   // its index in the cache
    uint32_t exchange; // index of the groups of replicas that it makes
    const tperf_part *replicas, *stages;
} tperf_placement_entry;

// Groups of replicas; placements that make the same exchange gradients in the same time. Of one number of stages they follow
// from the GPUs of a domain that hold copies, and from those of axes that are exchanged apart.
typedef struct tperf_exchange_groups {
    int64_t dense_fast, experts_fast, apart_fast[TPERF_AXES_MAX];
    tperf_replicas dense, experts;
} tperf_exchange_groups;

// The placements of one number of pipeline stages, which decides how many replicas there are.
typedef struct tperf_placement_list {
    int64_t stages;
    size_t begin, end; // in the found's placements
} tperf_placement_list;

// The placements of some sizes of the own axes, for every number of stages that was asked for.
typedef struct tperf_placement_cache {
    int64_t stamp; // as the cache has it
    size_t n_lists, n_placements, n_exchanges, lists_capacity, placements_capacity,
        exchanges_capacity;
    tperf_placement_list *lists;
    tperf_placement_entry *placements;
    tperf_exchange_groups *exchanges;
} tperf_placement_cache;

// Makes the cache of the sizes with this stamp, unless it is. false: no memory.
bool tperf_layout_cache_make(tperf_layout_cache *cache, const tperf_placement_problem *problem,
                             int64_t stamp);

// The placements of the sizes, those of replicas and stages among them. The list is valid until the next call. NULL: no
// memory.
const tperf_placement_list *tperf_placement_cache_find(tperf_placement_cache *found,
                                                       tperf_layout_cache *cache,
                                                       const tperf_placement_problem *problem);

void tperf_layout_cache_release(tperf_layout_cache *cache);
void tperf_placement_cache_release(tperf_placement_cache *found);

#endif
