// bounds.c: a search against trying every candidate by itself.
#include "base/test/unit.h"
#include "tperf/search.h"
#include "tperf/transformer.h"

static const tperf_system machine = {
    .accelerator = {.tensor[TPERF_BF16] = 3e14,
                    .vector[TPERF_BF16] = 4e13,
                    .vector[TPERF_FP32] = 2e13,
                    .compute_efficiency = 0.6,
                    .launch_s = 2e-6,
                    .hbm = {.bandwidth = 2e12, .capacity = 8e9, .efficiency = 0.8}},
    .network = {
        .fast = {.bandwidth = 2e11, .efficiency = 0.8, .latency_s = 1e-6, .domain = 4},
        .slow = {.bandwidth = 2e10, .efficiency = 0.8, .latency_s = 5e-6, .nics_per_gpu = 1}}};
static const tperf_transformer model = {12, 2048, 16, 8, 128, 5632, 32000, false, false};

enum {
    GPUS = 32,
    BATCH = 64,
    TP = 3,
    SAMPLES = 4,
    PP = 4,
    SHAPES = TP * SAMPLES,
    TOP = 5,
    MOST = 4096
};

// What a search shares: layouts of every shape and pipeline.
typedef struct space {
    tperf_builder *builder;
    tperf_setup setup;
    tperf_pipeline pipelines[PP];
    tperf_shape shapes[SHAPES];
} space;

static space new_space(void) {
    static const int64_t panels[] = {1};
    static const tperf_run runs[] = {{0, 12}};
    static const tperf_model_layers layers = {runs, 1, true};
    const tperf_grid grid = tperf_transformer_grid();
    space s = {.builder = tperf_builder_new(NULL, &grid)};
    tperf_error error;
    CHECK(tperf_setup_init(&s.setup, &machine, &tperf_rules_default, NULL, TPERF_TRAINS, &error) ==
          TPERF_OK);
    for (int i = 0; i < PP; i++)
        s.pipelines[i] = *tperf_build_1f1b(s.builder, &layers, 1 << i, &error);
    for (int i = 0; i < SHAPES; i++) {
        const tperf_share share = {TPERF_PHASE_TRAIN, 1 << i % TP, 1 << i / TP, 2048, false};
        s.shapes[i] = (tperf_shape){.micro_batch = share.samples, .panels = panels, .n_panels = 1};
        s.shapes[i].order = tperf_transformer_order(TPERF_TRAINS);
        s.shapes[i].workload = tperf_transformer_workload(s.builder, &model, &share, &error);
        CHECK(s.shapes[i].workload != NULL);
    }
    return s;
}

static const int zero[] = {0, 1};

static tperf_search *walked(const space *s, bool no_pruning) {
    tperf_search_options options = {.heap = &tperf_heap_standard,
                                    .rules = s->setup.rules,
                                    .software = s->setup.software,
                                    .training = tperf_training_adam,
                                    .pipelines = s->pipelines,
                                    .n_pipelines = PP,
                                    .zero = zero,
                                    .n_zero = 2,
                                    .top = TOP,
                                    .no_pruning = no_pruning};
    const tperf_question question = {
        .system = s->setup.system, .gpus = GPUS, .global_batch = BATCH};
    tperf_error error = {{0}};
    tperf_pool *pool = tperf_pool_new(1);
    tperf_search *search = tperf_search_new(&options, &question, 1, pool, &error);
    CHECK(search && tperf_search_walk(search, s->shapes, SHAPES, &error) == TPERF_OK);
    tperf_pool_free(pool);
    return search;
}

typedef struct tally {
    int64_t candidates, feasible;
    double least;            // bytes
    size_t n;                // of those that fit,
    double throughput[MOST]; // the fastest first
} tally;

static int faster(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void try_one(const space *s, const tperf_shape *shape, const tperf_pipeline *pipeline,
                    int stage, tally *all) {
    int64_t own = shape->workload->sizes[TPERF_AXIS_TP] * pipeline->pp, dp = GPUS / own;
    if (GPUS % own || BATCH % (dp * shape->micro_batch)) return;
    const tperf_choice choice = {BATCH, dp, shape->micro_batch, 1, stage};
    const tperf_job job = {tperf_setup_platform(&s->setup), &tperf_training_adam, BATCH};
    int64_t fast[TPERF_AXES_MAX];
    tperf_candidate candidate;
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_plan plan;
    tperf_error error;
    tperf_transformer_place(shape->workload, dp, pipeline->pp, machine.network.fast.domain, fast);
    if (tperf_candidate_init(&candidate, shape->workload, pipeline, &choice, fast, &error) !=
        TPERF_OK)
        return;
    CHECK(tperf_plan_init(&plan, &candidate, &job, shape->workload, costs, &error) == TPERF_OK);
    double bytes = tperf_memory_of(&plan).total;
    all->candidates++;
    if (!(all->least <= bytes)) all->least = bytes;
    if (bytes > machine.accelerator.hbm.capacity) return;
    all->feasible++;
    all->throughput[all->n++] = BATCH / tperf_iteration_of(&plan).time;
}

static tally brute_force(const space *s) {
    tally all = {.least = NAN};
    for (int i = 0; i < SHAPES; i++)
        for (int p = 0; p < PP; p++)
            for (int stage = 0; stage < 2; stage++)
                try_one(s, &s->shapes[i], &s->pipelines[p], zero[stage], &all);
    qsort(all.throughput, all.n, sizeof *all.throughput, faster);
    return all;
}

static void every_candidate(void) {
    space s = new_space();
    static tally all;
    all = brute_force(&s);
    CHECK(all.feasible > 20 && all.feasible < all.candidates);
    for (int no_pruning = 0; no_pruning <= 1; no_pruning++) {
        tperf_search *search = walked(&s, no_pruning);
        tperf_answer answer;
        tperf_error error;
        CHECK(tperf_search_answer(search, 0, &answer, &error) == TPERF_OK);
        SAME(all.candidates, answer.candidates);
        SAME(all.feasible, answer.feasible);
        SAME(TOP, answer.n_found);
        for (size_t i = 0; i < TOP; i++)
            NEAR(all.throughput[i], answer.found[i].throughput, 1e-12);
        NEAR(all.least, answer.least->memory, 1e-12);
        if (no_pruning)
            SAME(all.feasible, answer.evaluated);
        else
            CHECK(answer.evaluated < all.feasible); // the bounds do rule candidates out
        tperf_search_free(search);
    }
    tperf_builder_free(s.builder);
}

// A lower bound is one.
static void bounds(void) {
    space s = new_space();
    for (int i = 0; i < SHAPES; i++)
        for (int p = 0; p < PP; p++) {
            const tperf_shape *shape = &s.shapes[i];
            const tperf_choice choice = {BATCH, 1, shape->micro_batch, 1, 1};
            const tperf_job job = {tperf_setup_platform(&s.setup), &tperf_training_adam, BATCH};
            const int64_t fast[TPERF_AXES_MAX] = {1, 1, 1};
            tperf_candidate candidate;
            tperf_layer_cost costs[TPERF_SECTIONS_MAX];
            tperf_exchange exchanges[TPERF_SECTIONS_MAX];
            tperf_plan plan;
            tperf_error error;
            CHECK(tperf_candidate_init(&candidate, shape->workload, &s.pipelines[p], &choice, fast,
                                       &error) == TPERF_OK);
            CHECK(tperf_plan_init(&plan, &candidate, &job, shape->workload, costs, &error) ==
                  TPERF_OK);
            tperf_exchange_times(&plan, exchanges);
            double hop = tperf_hop_time(&candidate, &job, tperf_hop_times(&job, shape->workload));
            double least =
                tperf_iteration_least(&plan, exchanges, hop, tperf_optimizer_time(&plan));
            CHECK(least <= tperf_iteration_of(&plan).time * (1 + 1e-12));
            CHECK(least > 0);
        }
    tperf_builder_free(s.builder);
}

// Where no larger micro-batch may fit, none does.
static void what_cannot_fit(void) {
    static const int64_t micro_batches[] = {1, 2, 4, 8};
    const tperf_series series = {micro_batches, SAMPLES, 0.9, false};
    space s = new_space();
    tperf_search *search = walked(&s, false);
    static tally larger;
    for (int i = 0; i < SHAPES; i++) {
        if (tperf_search_may_fit(search, &series, (size_t)(i / TP), s.shapes[i].workload)) continue;
        larger = (tally){.least = NAN};
        for (int j = i + TP; j < SHAPES; j += TP)
            for (int p = 0; p < PP; p++)
                try_one(&s, &s.shapes[j], &s.pipelines[p], 1, &larger);
        SAME(0, larger.feasible);
    }
    CHECK(!tperf_search_may_fit(search, &series, SAMPLES - 1, s.shapes[0].workload)); // the last
    tperf_search_free(search);
    tperf_builder_free(s.builder);
}

UNIT_TESTS({"a search finds what trying every candidate finds", every_candidate},
           {"a bound is no longer than the step", bounds},
           {"what cannot fit does not", what_cannot_fit})
