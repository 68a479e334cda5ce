// placements.c: groups and placements, counted by hand.
#include "base/test/unit.h"
#include "tperf/grid.h"

static tperf_grid grid_of_tp(void) {
    tperf_grid grid = tperf_grid_new();
    tperf_error error;
    const tperf_axis tp = {.name = "tp", .cuts = TPERF_CUTS_WEIGHTS};
    CHECK(tperf_grid_add(&grid, &tp, &error) == TPERF_OK);
    return grid;
}

static void ranked(const tperf_rank_order *order, int64_t domain, const int64_t *expected) {
    const tperf_grid grid = grid_of_tp();
    const int64_t sizes[TPERF_AXES_MAX] = {8, 2, 4}; // dp, pp, tp
    int64_t fast[TPERF_AXES_MAX];
    CHECK(tperf_grid_rank(&grid, order, sizes, domain, fast));
    for (int i = 0; i < 3; i++)
        SAME(expected[i], fast[i]);
}

static void orders(void) {
    const tperf_rank_order tp_dp_pp = {3, {2, 0, 1}}, tp_pp_dp = {3, {2, 1, 0}};
    ranked(&tp_dp_pp, 8, (const int64_t[]){2, 1, 4});
    ranked(&tp_pp_dp, 8, (const int64_t[]){1, 2, 4});
    ranked(&tp_dp_pp, 2, (const int64_t[]){1, 1, 2});
    ranked(&tp_dp_pp, 64, (const int64_t[]){8, 2, 4}); // all 64 GPUs in one domain
}

static bool has(const tperf_placements *all, int64_t dp, int64_t pp, int64_t tp) {
    for (size_t i = 0; i < all->n; i++)
        if (all->fast[i][0] == dp && all->fast[i][1] == pp && all->fast[i][2] == tp) return true;
    return false;
}

static void maximal(void) {
    const tperf_grid grid = grid_of_tp();
    const int64_t sizes[TPERF_AXES_MAX] = {4, 2, 2}, any[TPERF_AXES_MAX] = {0};
    tperf_placements all;
    CHECK(tperf_grid_placements(&grid, &tperf_heap_standard, sizes, any, 4, &all));
    SAME(4, all.n);
    CHECK(has(&all, 2, 1, 2) && has(&all, 1, 2, 2) && has(&all, 4, 1, 1) && has(&all, 2, 2, 1));
    tperf_placements_release(&all);
    const int64_t neighbours[TPERF_AXES_MAX] = {0, 0, 2};
    CHECK(tperf_grid_placements(&grid, &tperf_heap_standard, sizes, neighbours, 4, &all));
    SAME(2, all.n);
    tperf_placements_release(&all);
}

static void refusals(void) {
    tperf_grid grid = grid_of_tp();
    tperf_error error;
    const tperf_axis again = {.name = "tp", .cuts = TPERF_CUTS_WEIGHTS};
    CHECK(tperf_grid_add(&grid, &again, &error) == TPERF_INVALID);
    const tperf_axis later = {.name = "ep", .cuts = TPERF_CUTS_EXPERTS, .folds = 1U << 7};
    CHECK(tperf_grid_add(&grid, &later, &error) == TPERF_INVALID);
    SAME(3, grid.n);
}

// A dense weight has dp copies; ZeRO shards over all of them.
static void replicas(void) {
    const tperf_grid grid = grid_of_tp();
    const int64_t sizes[TPERF_AXES_MAX] = {8, 2, 4}, fast[TPERF_AXES_MAX] = {2, 1, 4};
    tperf_replicas of = tperf_grid_replicas(&grid, sizes, fast, false);
    SAME(8, of.shards.size);
    SAME(2, of.shards.fast);
    SAME(0, of.n_copies);
    SAME(8, tperf_grid_shards(&grid, sizes, false));
    SAME(4, tperf_grid_own_gpus(&grid, sizes, 1000));
    SAME(0, tperf_grid_own_gpus(&grid, sizes, 3)); // beyond the most
}

UNIT_TESTS({"an order of ranks gives neighbours to its first axes", orders},
           {"placements are maximal", maximal}, {"axes that break the rules are refused", refusals},
           {"replicas follow from the axes that cut a weight", replicas})
