// ask_transformer.c: what the core says of a transformer (tperf/transformer.h), for spec/c_library_spec.lua:
//   ask_transformer train LAYERS HIDDEN HEADS KV_HEADS HEAD_DIM FFN VOCAB PLAIN TIED TP PP DP MICRO_BATCH BATCH SEQ AGAIN ZERO
//   ask_transformer infer (the same nine) TP PP BATCH PREFILL_BATCH PROMPT GENERATE
// It prints the numbers of the answer with 17 digits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tperf/transformer.h"

static const tperf_system h100 = {
    .accelerator = {.tensor[TPERF_BF16] = 989e12,
                    .vector[TPERF_BF16] = 134e12,
                    .vector[TPERF_FP32] = 67e12,
                    .compute_efficiency = 0.6,
                    .launch_s = 2e-6,
                    .hbm = {.bandwidth = 3.35e12, .capacity = 80e9, .efficiency = 0.9}},
    .network = {
        .fast = {.bandwidth = 450e9, .efficiency = 0.8, .latency_s = 1e-6, .domain = 8},
        .slow = {.bandwidth = 50e9, .efficiency = 0.9, .latency_s = 5e-6, .nics_per_gpu = 1}}};

enum { MODEL_NUMBERS = 9 };

static tperf_transformer model_of(const int64_t *n) {
    return (tperf_transformer){.layers = n[0],
                               .hidden = n[1],
                               .heads = n[2],
                               .kv_heads = n[3],
                               .head_dim = n[4],
                               .ffn = n[5],
                               .vocab = n[6],
                               .plain = n[7] != 0,
                               .tied = n[8] != 0};
}

static tperf_status train(tperf_builder *builder, const tperf_transformer *model, const int64_t *n,
                          tperf_error *error) {
    const tperf_choice choice = {
        .global_batch = n[4], .dp = n[2], .micro_batch = n[3], .panels = 1, .zero = n[7]};
    const tperf_share share = {TPERF_PHASE_TRAIN, n[0], n[3], n[5], n[6] != 0};
    const tperf_run run = tperf_transformer_run(model);
    const tperf_model_layers layers = {&run, 1, true};
    tperf_setup setup;
    TPERF_TRY(tperf_setup_init(&setup, &h100, &tperf_rules_default, NULL, TPERF_TRAINS, error));
    const tperf_workload *workload = tperf_transformer_workload(builder, model, &share, error);
    if (!workload) return TPERF_INVALID;
    const tperf_pipeline *pipeline = tperf_build_1f1b(builder, &layers, n[1], error);
    if (!pipeline) return TPERF_INVALID;
    int64_t fast[TPERF_AXES_MAX];
    tperf_candidate candidate;
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_plan plan;
    tperf_transformer_place(workload, n[2], n[1], h100.network.fast.domain, fast);
    TPERF_TRY(tperf_candidate_init(&candidate, workload, pipeline, &choice, fast, error));
    const tperf_job job = {tperf_setup_platform(&setup), &tperf_training_adam, n[4]};
    TPERF_TRY(tperf_plan_init(&plan, &candidate, &job, workload, costs, error));
    printf("%.17g %.17g\n", tperf_iteration_of(&plan).time, tperf_memory_of(&plan).total);
    return TPERF_OK;
}

static tperf_status infer(tperf_builder *builder, const tperf_transformer *model, const int64_t *n,
                          tperf_error *error) {
    const tperf_deployment deployment = {n[0], n[1], n[2], n[3], n[4], n[5], 0.1};
    tperf_setup setup;
    tperf_inference inference;
    TPERF_TRY(tperf_setup_init(&setup, &h100, &tperf_rules_default, NULL, TPERF_SERVES, error));
    tperf_platform on = tperf_setup_platform(&setup);
    TPERF_TRY(tperf_transformer_serve(builder, model, &deployment, &on, &inference, error));
    tperf_inference_result r = tperf_infer(&inference);
    printf("%.17g %.17g %.17g %.17g\n", r.prefill.time, r.decode.time, r.memory.total, r.max_batch);
    return TPERF_OK;
}

int main(int argc, char **argv) {
    int64_t n[32] = {0};
    if (argc < 2) return 2;
    for (int i = 2; i < argc && i < 34; i++)
        n[i - 2] = strtoll(argv[i], NULL, 10);
    tperf_transformer model = model_of(n);
    tperf_error error = {"not enough memory"};
    tperf_grid grid = tperf_transformer_grid();
    tperf_builder *builder = tperf_builder_new(NULL, &grid);
    tperf_status status = TPERF_NO_MEMORY;
    if (builder)
        status = (strcmp(argv[1], "train") == 0 ? train : infer)(builder, &model, n + MODEL_NUMBERS,
                                                                 &error);
    tperf_builder_free(builder);
    if (status != TPERF_OK) fprintf(stderr, "%s\n", error.message);
    return status != TPERF_OK;
}
