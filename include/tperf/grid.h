// grid.h: the axes along which GPUs share the work, and the groups and placements that follow from them.
//
// An axis is a row: its name, what it cuts, and whether it multiplies the GPUs or folds over other axes. Which GPUs hold
// copies of a weight, which of them shard its optimizer's state, and how many of a group share a fast domain is derived
// here and nowhere else. docs/model.md section 7.2.
#ifndef TPERF_GRID_H
#define TPERF_GRID_H

#include <stdbool.h>

#include "tperf/collective.h"

enum { TPERF_AXES_MAX = 12, TPERF_AXIS_NAME_MAX = 8 };

// Rows that every grid has: the replicas, which take the GPUs that the other axes leave, and the stages of the pipeline.
// A strategy's own axes follow.
enum { TPERF_AXIS_REPLICAS, TPERF_AXIS_STAGES, TPERF_AXIS_OWN };

// What an axis cuts. Axes that do not cut a weight replicate it: its gradients are reduced over them.
enum {
    TPERF_CUTS_WEIGHTS = 1, // all but experts'
    TPERF_CUTS_EXPERTS = 2, // experts' weights
    TPERF_CUTS_BATCH = 4,   // the sequences of an iteration
    TPERF_CUTS_LAYERS = 8,
    TPERF_CUTS_STATE =
        16 // what ZeRO shards: over so many of the replicas; size 0: over all of them
};

typedef struct tperf_axis {
    char name[TPERF_AXIS_NAME_MAX];
    unsigned cuts;
    unsigned
        folds; // bit i: groups of this axis are made of the GPUs of axis i; 0: it multiplies the GPUs
    double
        apart; // gradients are reduced over it on their own, last, in so many of their bytes; 0: with the other replicas
} tperf_axis;

// Folded axes come after those that they fold over, in the order from neighbours to GPUs far apart. Those that cut
// experts all fold over the same axes.
typedef struct tperf_grid {
    int n;
    tperf_axis axes[TPERF_AXES_MAX];
} tperf_grid;

// A grid with its first two rows.
tperf_grid tperf_grid_new(void);

// Adds a row; refuses what the comments above do not allow.
tperf_status tperf_grid_add(tperf_grid *grid, const tperf_axis *axis, tperf_error *error);

int tperf_grid_find(const tperf_grid *grid, const char *name); // -1: none

// The GPUs that a grid's own axes multiply to; 0: more than `most`.
int64_t tperf_grid_own_gpus(const tperf_grid *grid, const int64_t *sizes, int64_t most);

// Into how many parts the own axes cut the batch.
int64_t tperf_grid_own_batch(const tperf_grid *grid, const int64_t *sizes);

// Whether the sizes of folded axes divide those that they fold over, and shards the replicas.
bool tperf_grid_folds(const tperf_grid *grid, const int64_t *sizes);

// Sets `fast` of the folded axes from those that they fold over: neighbours first.
void tperf_grid_fold(const tperf_grid *grid, const int64_t *sizes, int64_t *fast);

// The GPUs that hold a copy of a weight. Gradients are reduced among the shards first; copies of a shard then reduce
// theirs, level by level.
typedef struct tperf_replicas {
    tperf_group shards; // that ZeRO shards over
    int64_t n_copies;
    struct {
        tperf_group group;
        double bytes; // of each of a gradient's
    } copies[TPERF_AXES_MAX];
} tperf_replicas;

tperf_replicas tperf_grid_replicas(const tperf_grid *grid, const int64_t *sizes,
                                   const int64_t *fast, bool experts);

// Of the axes that hold copies of a weight and are not exchanged apart, the product of some values; of experts before
// the axes that spread them divide it.
int64_t tperf_grid_copies(const tperf_grid *grid, const int64_t *values, bool experts);
// The product of some values over the folded axes that spread experts.
int64_t tperf_grid_spread(const tperf_grid *grid, const int64_t *values);

// The size of its shards alone, which no placement changes.
int64_t tperf_grid_shards(const tperf_grid *grid, const int64_t *sizes, bool experts);

// Groups of more than one GPU that a GPU belongs to.
int tperf_grid_groups(const tperf_grid *grid, const int64_t *sizes);

int64_t tperf_gcd(int64_t a, int64_t b);

#endif
