// candidate.c: candidates from their sizes, see tperf/plan.h.
#include <string.h>

#include "tperf/plan.h"

static const int64_t MOST_GPUS = INT64_C(1) << 31;

static bool divides(int64_t part, int64_t size) {
    return part >= 1 && part <= size && size % part == 0;
}

tperf_status tperf_placement_check(const tperf_placement *placement, const tperf_workload *workload,
                                   tperf_error *error) {
    for (int i = TPERF_AXIS_OWN; i < workload->grid.n; i++) {
        int64_t size = workload->sizes[i];
        // Size 0: shards the state of all replicas, without collectives of its own.
        if (size == 0 || divides(placement->fast[i], size)) continue;
        return tperf_error_set(error, TPERF_INVALID, "%lld of %lld GPUs cannot share a fast domain",
                               (long long)placement->fast[i], (long long)size);
    }
    if (placement->panels < 1)
        return tperf_error_set(error, TPERF_INVALID, "'panels' must be at least 1");
    return TPERF_OK;
}

static bool is_sound(const tperf_choice *c, const tperf_candidate *candidate,
                     const tperf_workload *workload) {
    const int64_t *fast = candidate->placement.fast, *sizes = candidate->sizes;
    if (workload->replicas > 0 && c->dp != workload->replicas) return false;
    if (c->dp < 1 || c->dp > MOST_GPUS || c->micro_batch < 1 || c->zero < 0 || c->zero > 3)
        return false;
    int64_t own = tperf_grid_own_gpus(&workload->grid, workload->sizes, MOST_GPUS);
    return own > 0 && own <= MOST_GPUS / c->dp && c->global_batch / c->micro_batch >= c->dp &&
           divides(fast[TPERF_AXIS_REPLICAS], c->dp) &&
           divides(fast[TPERF_AXIS_STAGES], candidate->pipeline->pp) &&
           tperf_grid_folds(&workload->grid, sizes);
}

tperf_status tperf_candidate_init(tperf_candidate *candidate, const tperf_workload *workload,
                                  const tperf_pipeline *pipeline, const tperf_choice *choice,
                                  const int64_t *fast, tperf_error *error) {
    *candidate = (tperf_candidate){.pipeline = pipeline,
                                   .micro_batch = choice->micro_batch,
                                   .zero = (int)choice->zero,
                                   .placement.panels = choice->panels};
    memcpy(candidate->placement.fast, fast, (size_t)workload->grid.n * sizeof *fast);
    memcpy(candidate->sizes, workload->sizes, sizeof candidate->sizes);
    candidate->sizes[TPERF_AXIS_REPLICAS] = choice->dp;
    candidate->sizes[TPERF_AXIS_STAGES] = pipeline->pp;
    TPERF_TRY(tperf_placement_check(&candidate->placement, workload, error));
    if (!is_sound(choice, candidate, workload))
        return tperf_error_set(error, TPERF_INVALID,
                               "sizes must be at least 1 and lie in what they divide");
    int64_t ways = choice->dp * tperf_grid_own_batch(&workload->grid, workload->sizes);
    if (choice->global_batch / choice->micro_batch < ways)
        return tperf_error_set(error, TPERF_INVALID,
                               "a batch of %lld is too small for %lld replicas",
                               (long long)choice->global_batch, (long long)ways);
    candidate->microbatches = choice->global_batch / ways / choice->micro_batch;
    return TPERF_OK;
}

tperf_status tperf_plan_init(tperf_plan *plan, const tperf_candidate *candidate,
                             const tperf_job *job, const tperf_workload *workload,
                             tperf_layer_cost *costs, tperf_error *error) {
    *plan = (tperf_plan){candidate, job, workload, costs};
    TPERF_TRY(tperf_workload_check_system(workload, job->on.system, error));
    tperf_workload_time(workload, &job->on, &candidate->placement, NULL, costs);
    return TPERF_OK;
}
