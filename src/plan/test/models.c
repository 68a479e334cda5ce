// models.c: blocks and workloads as they are built, and the memory and time of a candidate, by hand.
#include "base/test/unit.h"
#include "tperf/transformer.h"

static const tperf_system machine = {
    .accelerator = {.tensor[TPERF_BF16] = 1e14,
                    .vector[TPERF_BF16] = 1e13,
                    .compute_efficiency = 1,
                    .hbm = {.bandwidth = 1e12, .capacity = 80e9, .efficiency = 1}},
    .network = {.fast = {.bandwidth = 1e11, .efficiency = 1, .domain = 8},
                .slow = {.bandwidth = 1e10, .efficiency = 1, .nics_per_gpu = 1}}};

static const int64_t alone[TPERF_AXES_MAX] = {1, 1, 1};
static const tperf_run runs[] = {{0, 8}};
static const tperf_model_layers layers = {runs, 1, true};

enum { P = 1000000, SAVED = 5000 };

// A layer of P parameters in 16 bits that computes for 3 ms forward and 6 ms backward, and keeps SAVED bytes.
static const tperf_workload *build(tperf_builder *builder) {
    tperf_error error;
    tperf_op op = tperf_op_new("op", TPERF_BF16);
    op.forward.tensor_flops = 3e11;
    op.backward.tensor_flops = 6e11;
    op.parameters = P;
    op.weight_bytes = 2 * P;
    op.saved_bytes = SAVED;
    tperf_sections sections = {.sizes = {1, 1, 1}, .n_kinds = 1};
    const tperf_block *block = tperf_build_block(builder, alone, "layer", &op, 1, &error);
    sections.of[0] = (tperf_section){1, {block}};
    const tperf_workload *workload =
        block ? tperf_build_workload(builder, &sections, &error) : NULL;
    CHECK(workload != NULL);
    return workload;
}

static tperf_builder *new_builder(const tperf_heap *heap) {
    const tperf_grid grid = tperf_transformer_grid();
    tperf_builder *builder = tperf_builder_new(heap, &grid);
    CHECK(builder != NULL);
    return builder;
}

typedef struct figures {
    tperf_memory memory;
    tperf_iteration step;
} figures;

// dp replicas, pp stages, M micro-batches of a sample each.
static figures figures_of(tperf_builder *builder, int64_t dp, int64_t pp, int64_t microbatches,
                          int zero) {
    tperf_training training = tperf_training_adam;
    training.workspace_bytes = training.communicator_bytes = 0;
    training.context_bytes = training.slack = 0;
    const tperf_choice choice = {dp * microbatches, dp, 1, 1, zero};
    const int64_t fast[TPERF_AXES_MAX] = {1, 1, 1};
    tperf_error error;
    tperf_setup setup;
    CHECK(tperf_setup_init(&setup, &machine, &tperf_rules_default, NULL, TPERF_TRAINS, &error) ==
          TPERF_OK);
    const tperf_job job = {tperf_setup_platform(&setup), &training, choice.global_batch};
    const tperf_workload *workload = build(builder);
    const tperf_pipeline *pipeline = tperf_build_1f1b(builder, &layers, pp, &error);
    tperf_candidate candidate;
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_plan plan;
    CHECK(tperf_candidate_init(&candidate, workload, pipeline, &choice, fast, &error) == TPERF_OK);
    SAME(microbatches, candidate.microbatches);
    CHECK(tperf_plan_init(&plan, &candidate, &job, workload, costs, &error) == TPERF_OK);
    return (figures){tperf_memory_of(&plan), tperf_iteration_of(&plan)};
}

// arXiv 1910.02054, section 3.1: 2 + 4 + 12 bytes of a parameter; each stage shards one more of them.
static void memory(void) {
    tperf_builder *builder = new_builder(NULL);
    for (int zero = 0; zero <= 3; zero++) {
        tperf_memory m = figures_of(builder, 4, 1, 2, zero).memory;
        NEAR(8.0 * 12 * P / (zero >= 1 ? 4 : 1), m.optimizer, 1e-12);
        NEAR(8.0 * 4 * P / (zero >= 2 ? 4 : 1), m.gradients, 1e-12);
        NEAR(8.0 * 2 * P / (zero >= 3 ? 4 : 1), m.weights, 1e-12);
        NEAR(8.0 * SAVED, m.activations, 1e-12);
        NEAR(m.weights + m.gradients + m.optimizer + m.activations + m.passing + m.buffers, m.total,
             1e-12);
    }
    // The first of 4 stages keeps 4 micro-batches' activations of its 2 layers.
    NEAR(4.0 * 2 * SAVED, figures_of(builder, 1, 4, 8, 0).memory.activations, 1e-12);
    tperf_builder_free(builder);
}

// 8 layers of 9 ms; 1F1B has a bubble of pp - 1 forward and backward passes of a stage (arXiv 2104.04473, section 2.2).
static void steps(void) {
    tperf_builder *builder = new_builder(NULL);
    tperf_iteration one = figures_of(builder, 1, 1, 6, 0).step;
    NEAR(6 * 8 * 9e-3, one.time, 1e-12);
    NEAR(0, one.bubble, 1e-12);
    NEAR(6 * 8 * 9e11, one.flops, 1e-12);
    tperf_iteration four = figures_of(builder, 1, 4, 6, 0).step;
    NEAR(6 * 2 * 9e-3, four.compute, 1e-12);
    NEAR(3 * 2 * 9e-3, four.bubble, 1e-12);
    NEAR(four.compute + four.bubble + four.pipeline_comm, four.time, 1e-12);
    tperf_builder_free(builder);
}

static void refusals(void) {
    tperf_builder *builder = new_builder(NULL);
    tperf_error error = {{0}};
    tperf_op op = tperf_op_new("op", TPERF_BF16);
    const int64_t two[TPERF_AXES_MAX] = {1, 1, 2};
    op.forward = (tperf_pass){.n_comms = 1, .comms = {{.kind = TPERF_ALL_REDUCE, .axis = "tp"}}};
    const tperf_block *of_two = tperf_build_block(builder, two, "layer", &op, 1, &error);
    tperf_sections sections = {.sizes = {1, 1, 1}, .n_kinds = 1, .of = {{1, {of_two}}}};
    CHECK(of_two && !tperf_build_workload(builder, &sections, &error));
    SAYS("of another size along 'tp'", error.message);
    strcpy(op.forward.comms[0].axis, "cp");
    CHECK(!tperf_build_block(builder, two, "layer", &op, 1, &error));
    SAYS("over the axis 'cp', which the strategy lacks", error.message);
    CHECK(!tperf_build_block(builder, two, "a name of more than 23 bytes", &op, 0, &error));
    SAYS("longer than 23 bytes", error.message);
    sections.n_kinds = 0;
    CHECK(!tperf_build_workload(builder, &sections, &error));
    SAYS("1 to 64 kinds", error.message);
    CHECK(!tperf_build_1f1b(builder, &layers, 11, &error)); // 8 layers and both ends fill 10
    SAYS("11 stages cannot share the layers", error.message);
    tperf_builder_free(builder);
}

// Every allocation of a deployment fails once: an error each time, and nothing leaks.
static void without_memory(void) {
    const tperf_transformer model = {4, 256, 8, 8, 32, 512, 1000, false, false};
    const tperf_deployment deployment = {1, 2, 4, 1, 16, 8, 0};
    tperf_setup setup;
    tperf_error error;
    CHECK(tperf_setup_init(&setup, &machine, &tperf_rules_default, NULL, TPERF_SERVES, &error) ==
          TPERF_OK);
    const tperf_platform on = tperf_setup_platform(&setup);
    const tperf_grid grid = tperf_transformer_grid();
    bool done = false;
    long n = 0;
    for (; !done; n++) {
        unit_heap owner = {.allocations_left = n};
        const tperf_heap heap = {unit_resize, &owner};
        tperf_inference inference;
        tperf_builder *builder = tperf_builder_new(&heap, &grid);
        done = builder && tperf_transformer_serve(builder, &model, &deployment, &on, &inference,
                                                  &error) == TPERF_OK;
        if (builder && !done) SAYS("not enough memory", error.message);
        tperf_builder_free(builder);
        SAME(0, owner.held);
    }
    CHECK(n > 40);
}

UNIT_TESTS({"memory is that of ZeRO's stages", memory},
           {"a step is work and a pipeline's bubble", steps},
           {"blocks and workloads that do not go together are refused", refusals},
           {"a deployment without memory is an error", without_memory})
