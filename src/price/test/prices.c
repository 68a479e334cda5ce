// prices.c: seconds of ops on a machine without curves, by hand; and setups of system, rules and software.
#include "base/test/unit.h"
#include "tperf/price.h"

static const double LAUNCH = 2e-6, PEAK = 4e14, VECTOR = 2e13, HBM = 8e11;

static tperf_system machine(void) {
    return (tperf_system){
        .accelerator = {.tensor[TPERF_BF16] = PEAK / 0.8,
                        .vector[TPERF_BF16] = VECTOR / 0.8,
                        .compute_efficiency = 0.8,
                        .launch_s = LAUNCH,
                        .flash1 = 1.8,
                        .hbm = {.bandwidth = HBM / 0.5, .capacity = 1e10, .efficiency = 0.5}},
        .network = {
            .fast = {.bandwidth = 1e11, .efficiency = 1, .latency_s = 1e-6, .domain = 8},
            .slow = {.bandwidth = 1e10, .efficiency = 1, .latency_s = 5e-6, .nics_per_gpu = 1}}};
}

static tperf_setup setup_of(const tperf_software *software) {
    const tperf_system system = machine();
    tperf_setup setup;
    tperf_error error;
    CHECK(tperf_setup_init(&setup, &system, &tperf_rules_default, software, TPERF_TRAINS, &error) ==
          TPERF_OK);
    return setup;
}

static const int64_t sizes[TPERF_AXES_MAX] = {1, 1, 4};
static const tperf_placement one_domain = {.fast = {1, 1, 4}, .panels = 1};

static tperf_op_cost priced(tperf_op *op, const tperf_setup *setup) {
    for (int i = 0; i < op->forward.n_comms; i++)
        op->forward.comms[i].axis_index = TPERF_AXIS_OWN;
    for (int i = 0; i < op->backward.n_comms; i++)
        op->backward.comms[i].axis_index = TPERF_AXIS_OWN;
    const tperf_platform on = tperf_setup_platform(setup);
    tperf_op_work work = tperf_op_work_of(op, &on, 1);
    return tperf_op_cost_of(op, &work, &on, sizes, &one_domain);
}

// The launch, and the longer of compute and HBM traffic.
static void rooflines(void) {
    const tperf_setup setup = setup_of(NULL);
    tperf_op op = tperf_op_new("op", TPERF_BF16);
    op.forward.tensor_flops = 8e11; // 2 ms
    op.forward.vector_flops = 1e10; // 0.5 ms more
    op.forward.bytes = 4e8;         // 0.5 ms
    op.backward.bytes = 8e8;        // 1 ms
    op.backward.vector_flops = 4e9; // 0.2 ms
    tperf_op_cost cost = priced(&op, &setup);
    NEAR(LAUNCH + 2.5e-3, cost.forward.time, 1e-12);
    NEAR(0, cost.forward.exposed_memory, 1e-12);
    NEAR(LAUNCH + 1e-3, cost.backward.time, 1e-12);
    NEAR(0.8e-3, cost.backward.exposed_memory, 1e-12);
}

static void collectives(void) {
    const tperf_setup setup = setup_of(NULL);
    const tperf_linear shape = {
        .tokens = 4096, .n_in = 4096, .n_out = 4096, .sum_axis = "tp", .grad_sum_axis = "tp"};
    tperf_op op = tperf_op_new("row", TPERF_BF16);
    tperf_error error;
    CHECK(tperf_op_linear(&op, &shape, &error) == TPERF_OK);
    tperf_op_cost cost = priced(&op, &setup);
    const double bytes = 2.0 * 4096 * 4096, sum = 2 * (3e-6 + 0.75 * bytes / 1e11);
    const double flops = 4096.0 * 4096 * (2 * 4096 - 1);
    NEAR(sum, cost.forward.comm, 1e-12);
    NEAR(LAUNCH + flops / PEAK + sum, cost.forward.time, 1e-12);
}

static void software(void) {
    tperf_software slow = tperf_software_none;
    slow.compute = 1.5;
    slow.host_s = 1e-5;
    const tperf_setup bare = setup_of(NULL), setup = setup_of(&slow);
    tperf_op op = tperf_op_new("op", TPERF_BF16);
    op.forward.tensor_flops = 8e11;
    NEAR(LAUNCH + 2e-3, priced(&op, &bare).forward.time, 1e-12);
    NEAR(1.5 * (LAUNCH + 2e-3), priced(&op, &setup).forward.time,
         1e-12); // as timed, launch included
    const tperf_platform on = tperf_setup_platform(&setup);
    NEAR(3e-5, tperf_launch_time(&on, 3), 1e-15);
}

// Software that is read into a system again, or twice, slows nothing twice.
static void twice(void) {
    tperf_system system = machine();
    system.accelerator.units = 100;
    system.curves.attention[TPERF_BF16] = (tperf_attention_curve){.n_sizes = 1,
                                                                  .head_size = {128},
                                                                  .efficiency = {0.6},
                                                                  .backward = {0.8},
                                                                  .sustained = 0.9,
                                                                  .sustained_after_s = 1};
    tperf_software flash1 = tperf_software_none;
    flash1.flash = 1;
    tperf_setup once, again;
    tperf_error error;
    CHECK(tperf_setup_init(&once, &system, &tperf_rules_default, &flash1, TPERF_TRAINS, &error) ==
          TPERF_OK);
    NEAR(0.6 / 1.8, once.system.curves.attention[TPERF_BF16].efficiency[0], 1e-15);
    SAME(0.6, once.described.curves.attention[TPERF_BF16].efficiency[0]);
    CHECK(tperf_setup_init(&again, &once.system, &once.rules, &once.software, TPERF_TRAINS,
                           &error) == TPERF_OK);
    CHECK(memcmp(&again.system, &once.system, sizeof once.system) == 0);
    again = once;
    CHECK(tperf_setup_init(&again, &again.described, &again.rules, &again.software, TPERF_TRAINS,
                           &error) == TPERF_OK);
    CHECK(memcmp(&again, &once, sizeof once) == 0);
}

typedef struct drawn {
    int n;
    tperf_pass_segment of[4];
} drawn;

static void draw(void *context, const tperf_pass_segment *segment) {
    drawn *d = context;
    if (d->n < 4) d->of[d->n++] = *segment;
}

// A backward pass of two products of 1 ms, beside a reduce-scatter of 1.5 ms that takes nothing from them: hidden by both,
// half late after the input's alone, and a gather of 0.5 ms that comes first.
static void segments(void) {
    const tperf_setup setup = setup_of(NULL);
    const tperf_platform on = tperf_setup_platform(&setup);
    const double latency = 3e-6, rate = 0.75 / 1e11;
    tperf_op op = tperf_op_new("column", TPERF_BF16);
    op.weight_bytes = op.parameters = 1;
    op.backward.tensor_flops = 2 * 1e-3 * PEAK;
    op.backward.n_comms = 2;
    op.backward.comms[0] = (tperf_comm){
        .kind = TPERF_REDUCE_SCATTER, .bytes = (1.5e-3 - latency) / rate, .beside = true};
    op.backward.comms[1] = (tperf_comm){.kind = TPERF_ALL_GATHER, .bytes = (5e-4 - latency) / rate};
    tperf_op_cost cost = priced(&op, &setup);
    const double half = LAUNCH / 2 + 1e-3;
    NEAR(half, cost.weight_grad, 1e-12);
    NEAR(5e-4 + 2 * half, cost.backward.time, 1e-12);
    NEAR(1.5e-3 - half, cost.late_split, 1e-12);
    for (int split = 0; split < 2; split++) {
        drawn d = {0};
        const tperf_pass_in in = {&op, &op.backward, &cost.backward, split ? cost.weight_grad : 0};
        double end = tperf_pass_segments(&in, &on, sizes, &one_domain, draw, &d);
        NEAR(split ? 5e-4 + 1.5e-3 : cost.backward.time, end, 1e-12);
        CHECK(d.n == 3);
        CHECK(d.of[0].comm == &op.backward.comms[1] && d.of[2].comm == &op.backward.comms[0]);
        SAME(0, d.of[0].start);
        NEAR(5e-4, d.of[1].start, 1e-12);
        NEAR(split ? half : 2 * half, d.of[1].seconds, 1e-12);
        CHECK(d.of[2].beside);
        NEAR(5e-4 + 1.5e-3, d.of[2].stop, 1e-12);
    }
}

// The product of the weights' gradient alone hides the traffic of adding it up: 6 bytes of a parameter in fp32.
static void accumulation(void) {
    tperf_software adds = tperf_software_none;
    adds.accumulates = adds.fused_accumulation = true;
    adds.gradient_bytes = 4;
    const tperf_setup setup = setup_of(&adds);
    tperf_op op = tperf_op_new("op", TPERF_BF16);
    op.weight_bytes = 1;
    op.parameters = 1.5e-3 * HBM / 6;
    op.backward.tensor_flops = 2 * 1e-3 * PEAK;
    tperf_op_cost cost = priced(&op, &setup);
    const double input = LAUNCH / 2 + 1e-3, weight = LAUNCH / 2 + 1.5e-3;
    NEAR(weight, cost.weight_grad, 1e-12);
    NEAR(input + weight, cost.backward.time, 1e-12);
}

static void refusals(void) {
    tperf_system system = machine();
    tperf_setup setup;
    tperf_error error;
    tperf_software wrong = tperf_software_none;
    wrong.overlap = 2;
    REFUSES("software: 'overlap' is out of range",
            tperf_setup_init(&setup, &system, &tperf_rules_default, &wrong, TPERF_TRAINS, &error));
    system.network.slow.nics_per_gpu = -1;
    REFUSES("nics_per_gpu",
            tperf_setup_init(&setup, &system, &tperf_rules_default, NULL, TPERF_TRAINS, &error));
}

UNIT_TESTS({"a pass takes its launch and the longer of work and traffic", rooflines},
           {"collectives that overlap nothing add up", collectives},
           {"software takes longer than isolated kernels", software},
           {"a pass is the sum of its segments, whole and split", segments},
           {"gradients are added up beside the product that makes them", accumulation},
           {"a setup of a setup is the same", twice}, {"what cannot be is refused", refusals})
