// grid.h: the axes along which GPUs share the work, and the groups and placements that follow from them.
//
// An axis is a row: its name, what it cuts, and whether it multiplies the GPUs or folds over other axes. This room
// alone derives which GPUs hold copies of a weight, which of them shard its optimizer state, and how many GPUs of a
// group share a fast domain. docs/model.md section 7.2.
#ifndef TPERF_GRID_H
#define TPERF_GRID_H

#include <stdbool.h>

#include "tperf/collective.h"
#include "tperf/heap.h"

enum { TPERF_AXES_MAX = 12, TPERF_AXIS_NAME_MAX = 8 };

// The rows of every grid: the replicas, which take the GPUs that the other axes leave, and the pipeline stages. A
// strategy's own axes follow.
enum { TPERF_AXIS_REPLICAS, TPERF_AXIS_STAGES, TPERF_AXIS_OWN };

// What an axis cuts. A weight is replicated along axes that do not cut it: its gradients are reduced over them.
enum {
    TPERF_CUTS_WEIGHTS = 1, // all except experts'
    TPERF_CUTS_EXPERTS = 2, // experts' weights
    TPERF_CUTS_BATCH = 4,   // the sequences of an iteration
    TPERF_CUTS_LAYERS = 8,
    TPERF_CUTS_STATE = 16 // ZeRO shards over this many replicas; size 0: over all
};

typedef struct tperf_axis {
    char name[TPERF_AXIS_NAME_MAX];
    unsigned cuts;
    // Bit i: groups of this axis consist of GPUs of axis i. 0: the axis multiplies the GPUs.
    unsigned folds;
    // Fraction of the gradient's bytes reduced over this axis separately, last; 0: with the other replicas.
    double apart;
} tperf_axis;

// A folded axis comes after those that it folds over, which are listed from neighbouring GPUs to distant ones. All axes
// that cut experts fold over the same axes.
typedef struct tperf_grid {
    int n;
    tperf_axis axes[TPERF_AXES_MAX];
} tperf_grid;

// A grid of the first two rows.
tperf_grid tperf_grid_new(void);

// Adds a row; refuses one that breaks the rules above.
tperf_status tperf_grid_add(tperf_grid *grid, const tperf_axis *axis, tperf_error *error);

int tperf_grid_find(const tperf_grid *grid, const char *name); // -1: no such axis

// The product of the sizes of a grid's own axes; 0 if it exceeds `most`.
int64_t tperf_grid_own_gpus(const tperf_grid *grid, const int64_t *sizes, int64_t most);

// The number of parts into which the own axes cut the batch.
int64_t tperf_grid_own_batch(const tperf_grid *grid, const int64_t *sizes);

// Whether the sizes of folded axes divide those that they fold over, and the shards divide the replicas.
bool tperf_grid_folds(const tperf_grid *grid, const int64_t *sizes);

// The own axes, as a mask, whose GPUs lie between two that follow each other in a group of an own axis: beyond a domain,
// own axes stand in the grid's order, and replicas and stages outside them. A folded axis lies where the first does that
// it folds over, outside those before it that fold over the same.
unsigned tperf_grid_inward(const tperf_grid *grid, int axis);

// Derives `fast` of the folded axes from those that they fold over, neighbours first.
void tperf_grid_fold(const tperf_grid *grid, const int64_t *sizes, int64_t *fast);

// The order of ranks: axes from neighbouring ranks to distant ones. It has all axes that multiply the GPUs. A folded axis
// in it lies where it stands beside the rest of those that it folds over, which lies at the last of them: experts
// spread over neighbours first (tp, ep, dp) or last (tp, dp, ep). One that is not in it takes neighbours first.
typedef struct tperf_rank_order {
    int n; // 0: no order
    int8_t axes[TPERF_AXES_MAX];
} tperf_rank_order;

// The GPUs of each axis that share a fast domain when ranks fill one domain after another: in the group that shares the
// fewest, rounded down to a divisor of the axis. Where ranks fill no whole domains, or domains are racks, a domain gets as
// many whole groups as fit. False: the experts' groups do not go with the order, since axes in it lie between those
// that the experts fold over.
bool tperf_grid_rank(const tperf_grid *grid, const tperf_rank_order *order, const int64_t *sizes,
                     int64_t domain, int64_t *fast);

// Ways to place the axes in fast domains: the GPUs of each axis that share one.
typedef struct tperf_placements {
    size_t n;
    int64_t (*fast)[TPERF_AXES_MAX];
} tperf_placements;

// Finds the placements in which no axis could have a larger part of a domain, those first that give the first axes the
// most neighbours. sizes: of all axes; their product may not exceed 2^31. demanded: required parts, 0: any; a demanded
// part of a folded axis admits smaller parts of those that it folds over. False if out of memory.
bool tperf_grid_placements(const tperf_grid *grid, const tperf_heap *heap, const int64_t *sizes,
                           const int64_t *demanded, int64_t domain, tperf_placements *placements);
void tperf_placements_release(tperf_placements *placements);

// The GPUs that hold a copy of a weight. Gradients are reduced among the shards first; then the copies of a shard
// reduce theirs, level by level.
typedef struct tperf_replicas {
    tperf_group shards; // the group that ZeRO shards over
    int64_t n_copies;
    struct {
        tperf_group group;
        double bytes; // fraction of the gradient's bytes
    } copies[TPERF_AXES_MAX];
} tperf_replicas;

// The GPUs with a copy of a weight, all together.
tperf_group tperf_grid_copies_group(const tperf_grid *grid, const int64_t *sizes,
                                    const int64_t *fast, bool experts);

tperf_replicas tperf_grid_replicas(const tperf_grid *grid, const int64_t *sizes,
                                   const int64_t *fast, bool experts);

// The same for a weight with these copies; dense: the number of copies of a dense weight.
tperf_replicas tperf_grid_replicas_among(const tperf_grid *grid, const int64_t *sizes,
                                         const int64_t *fast, tperf_group all, int64_t dense);

// The product of `values` over the axes that hold copies of a weight and are not reduced separately; for experts,
// before division by the axes that spread them.
int64_t tperf_grid_copies(const tperf_grid *grid, const int64_t *values, bool experts);
// The product of `values` over the folded axes that spread experts.
int64_t tperf_grid_spread(const tperf_grid *grid, const int64_t *values);

// The size of a weight's shard group, which no placement changes.
int64_t tperf_grid_shards(const tperf_grid *grid, const int64_t *sizes, bool experts);

// The number of groups with more than one GPU that a GPU belongs to.
int tperf_grid_groups(const tperf_grid *grid, const int64_t *sizes);

int64_t tperf_gcd(int64_t a, int64_t b);

#endif
