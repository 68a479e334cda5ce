// grid.c: see tperf/grid.h.
#include "tperf/grid.h"

#include <string.h>

int64_t tperf_gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

tperf_grid tperf_grid_new(void) {
    return (tperf_grid){
        2,
        {[TPERF_AXIS_REPLICAS] = {.name = "dp", .cuts = TPERF_CUTS_BATCH},
         [TPERF_AXIS_STAGES] = {
             .name = "pp", .cuts = TPERF_CUTS_LAYERS | TPERF_CUTS_WEIGHTS | TPERF_CUTS_EXPERTS}}};
}

int tperf_grid_find(const tperf_grid *grid, const char *name) {
    for (int i = 0; i < grid->n; i++)
        if (strcmp(grid->axes[i].name, name) == 0) return i;
    return -1;
}

static bool cuts(const tperf_grid *grid, int axis, unsigned what) {
    return (grid->axes[axis].cuts & what) != 0;
}

static bool folded(const tperf_grid *grid, int axis) {
    return grid->axes[axis].folds != 0;
}

static tperf_status check_fold(const tperf_grid *grid, const tperf_axis *axis, tperf_error *error) {
    for (int i = 0; i < TPERF_AXES_MAX; i++)
        if ((axis->folds >> i & 1) && (i >= grid->n || folded(grid, i) || i == TPERF_AXIS_STAGES))
            return tperf_error_set(
                error, TPERF_INVALID,
                "axis '%s' must fold over axes that multiply the GPUs, but for pp", axis->name);
    for (int i = 0; i < grid->n; i++) {
        const tperf_axis *other = &grid->axes[i];
        if (!other->folds || !(other->cuts & axis->cuts)) continue;
        if (axis->cuts & TPERF_CUTS_STATE)
            return tperf_error_set(error, TPERF_INVALID, "axes '%s' and '%s' both shard the state",
                                   other->name, axis->name);
        if (other->folds != axis->folds)
            return tperf_error_set(error, TPERF_INVALID,
                                   "axes '%s' and '%s' must fold over the same axes", other->name,
                                   axis->name);
    }
    return TPERF_OK;
}

tperf_status tperf_grid_add(tperf_grid *grid, const tperf_axis *axis, tperf_error *error) {
    if (grid->n == TPERF_AXES_MAX)
        return tperf_error_set(error, TPERF_INVALID, "a strategy has at most %d axes",
                               TPERF_AXES_MAX - TPERF_AXIS_OWN);
    if (tperf_grid_find(grid, axis->name) >= 0)
        return tperf_error_set(error, TPERF_INVALID, "two axes are called '%s'", axis->name);
    if (axis->folds) {
        if (axis->cuts != TPERF_CUTS_EXPERTS && axis->cuts != TPERF_CUTS_STATE)
            return tperf_error_set(error, TPERF_INVALID,
                                   "axis '%s' folds over others, so it cuts experts or state alone",
                                   axis->name);
        TPERF_TRY(check_fold(grid, axis, error));
    } else if (axis->cuts & TPERF_CUTS_STATE) {
        return tperf_error_set(error, TPERF_INVALID,
                               "axis '%s' shards state, so it folds over replicas", axis->name);
    }
    grid->axes[grid->n++] = *axis;
    return TPERF_OK;
}

int64_t tperf_grid_own_gpus(const tperf_grid *grid, const int64_t *sizes, int64_t most) {
    int64_t product = 1;
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++) {
        if (folded(grid, i)) continue;
        if (sizes[i] > most / product) return 0;
        product *= sizes[i];
    }
    return product;
}

int64_t tperf_grid_own_batch(const tperf_grid *grid, const int64_t *sizes) {
    int64_t product = 1;
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++)
        if (cuts(grid, i, TPERF_CUTS_BATCH)) product *= sizes[i];
    return product;
}

// The axes that the folded axes cutting `what` fold over, as a mask.
static unsigned view_of(const tperf_grid *grid, unsigned what) {
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++)
        if (folded(grid, i) && cuts(grid, i, what)) return grid->axes[i].folds;
    return 0;
}

// The product of `values` over the axes of a mask.
static int64_t product_over(const tperf_grid *grid, unsigned mask, const int64_t *values) {
    int64_t product = 1;
    for (int i = 0; i < grid->n; i++)
        if (mask >> i & 1) product *= values[i];
    return product;
}

int64_t tperf_grid_spread(const tperf_grid *grid, const int64_t *values) {
    int64_t product = 1;
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++)
        if (folded(grid, i) && cuts(grid, i, TPERF_CUTS_EXPERTS)) product *= values[i];
    return product;
}

int64_t tperf_grid_copies(const tperf_grid *grid, const int64_t *values, bool experts) {
    unsigned what = experts ? TPERF_CUTS_EXPERTS : TPERF_CUTS_WEIGHTS;
    unsigned view = experts ? view_of(grid, TPERF_CUTS_EXPERTS) : 0;
    int64_t product = 1;
    for (int i = 0; i < grid->n; i++) {
        if (folded(grid, i) || grid->axes[i].apart > 0) continue;
        if ((view >> i & 1) || !cuts(grid, i, what)) product *= values[i];
    }
    return product;
}

// The same, divided by the spread for experts.
static int64_t copies_over(const tperf_grid *grid, bool experts, const int64_t *values) {
    int64_t product = tperf_grid_copies(grid, values, experts);
    return experts ? product / tperf_grid_spread(grid, values) : product;
}

static int64_t shards_of(const tperf_grid *grid, const int64_t *sizes) {
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++)
        if (cuts(grid, i, TPERF_CUTS_STATE)) return sizes[i];
    return 0;
}

bool tperf_grid_folds(const tperf_grid *grid, const int64_t *sizes) {
    unsigned view = view_of(grid, TPERF_CUTS_EXPERTS);
    if (view && product_over(grid, view, sizes) % tperf_grid_spread(grid, sizes) != 0) return false;
    int64_t shards = shards_of(grid, sizes);
    return !shards || copies_over(grid, false, sizes) % shards == 0;
}

unsigned tperf_grid_inward(const tperf_grid *grid, int axis) {
    unsigned inward = 0, folds = grid->axes[axis].folds;
    int end = axis == TPERF_AXIS_REPLICAS ? grid->n : axis;
    for (int i = TPERF_AXIS_OWN; i < end; i++) {
        if (folds >> i & 1) break;
        if (!folded(grid, i)) inward |= 1u << i;
    }
    for (int i = TPERF_AXIS_OWN; i < axis && folds; i++)
        if (grid->axes[i].folds == folds) inward |= 1u << i;
    return inward;
}

void tperf_grid_fold(const tperf_grid *grid, const int64_t *sizes, int64_t *fast) {
    int64_t left = product_over(grid, view_of(grid, TPERF_CUTS_EXPERTS), fast);
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++) {
        if (!folded(grid, i)) continue;
        fast[i] = cuts(grid, i, TPERF_CUTS_EXPERTS) ? tperf_gcd(sizes[i], left) : 1;
        left /= fast[i];
    }
}

// A group with the GPUs of the axes of a mask between its own.
static tperf_group group_over(const int64_t *sizes, const int64_t *fast, int64_t size, int64_t part,
                              unsigned inward) {
    tperf_group group = {size, part, 1, 1};
    for (int i = 0; inward >> i; i++) {
        if (!(inward >> i & 1)) continue;
        group.near *= fast[i];
        group.far *= sizes[i] / fast[i];
    }
    return group;
}

// The own axes, as a mask, whose GPUs lie between the copies of a weight: those that cut it, and those reduced
// separately. Replicas lie outside all of them.
static unsigned between_copies(const tperf_grid *grid, bool experts) {
    unsigned between = 0, view = experts ? view_of(grid, TPERF_CUTS_EXPERTS) : 0;
    unsigned what = experts ? TPERF_CUTS_EXPERTS : TPERF_CUTS_WEIGHTS;
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++) {
        bool spreads = folded(grid, i) && cuts(grid, i, TPERF_CUTS_EXPERTS);
        bool copied = grid->axes[i].apart == 0 && (view >> i & 1 || !cuts(grid, i, what));
        if (folded(grid, i) ? experts && spreads : !copied) between |= 1u << i;
    }
    return between;
}

tperf_group tperf_grid_copies_group(const tperf_grid *grid, const int64_t *sizes,
                                    const int64_t *fast, bool experts) {
    return group_over(sizes, fast, copies_over(grid, experts, sizes),
                      copies_over(grid, experts, fast), between_copies(grid, experts));
}

static void add_level(tperf_replicas *r, tperf_group group, double bytes) {
    if (group.size == 1) return;
    r->copies[r->n_copies].group = group;
    r->copies[r->n_copies++].bytes = bytes;
}

// The shards of `all` copies if dense weights have `dense` copies: both keep the same number of copies of each shard,
// far apart, where possible.
static int64_t shards_among(int64_t all, int64_t dense, int64_t shards) {
    return all / tperf_gcd(dense / shards, all);
}

int64_t tperf_grid_shards(const tperf_grid *grid, const int64_t *sizes, bool experts) {
    int64_t all = copies_over(grid, experts, sizes), shards = shards_of(grid, sizes);
    return shards ? shards_among(all, copies_over(grid, false, sizes), shards) : all;
}

tperf_replicas tperf_grid_replicas_among(const tperf_grid *grid, const int64_t *sizes,
                                         const int64_t *fast, tperf_group all, int64_t dense) {
    tperf_replicas r;
    r.shards = all;
    r.n_copies = 0;
    int64_t shards = shards_of(grid, sizes);
    if (shards) {
        r.shards.size = shards_among(all.size, dense, shards);
        r.shards.fast = tperf_gcd(r.shards.size, all.fast);
        tperf_group copies = {all.size / r.shards.size, all.fast / r.shards.fast,
                              all.near * r.shards.fast, all.far * (r.shards.size / r.shards.fast)};
        add_level(&r, copies, 1);
    }
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++)
        if (grid->axes[i].apart > 0)
            add_level(&r, group_over(sizes, fast, sizes[i], fast[i], tperf_grid_inward(grid, i)),
                      grid->axes[i].apart);
    return r;
}

tperf_replicas tperf_grid_replicas(const tperf_grid *grid, const int64_t *sizes,
                                   const int64_t *fast, bool experts) {
    tperf_group all = tperf_grid_copies_group(grid, sizes, fast, experts);
    return tperf_grid_replicas_among(grid, sizes, fast, all, copies_over(grid, false, sizes));
}

int tperf_grid_groups(const tperf_grid *grid, const int64_t *sizes) {
    int groups = 0;
    for (int i = 0; i < grid->n; i++)
        groups += sizes[i] > 1 && !cuts(grid, i, TPERF_CUTS_STATE);
    return groups;
}
