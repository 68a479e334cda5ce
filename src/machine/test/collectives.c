// collectives.c: seconds of collectives by the formulas of tperf/collective.h, written out.
#include "base/test/unit.h"
#include "tperf/collective.h"

// Effective bandwidths and latencies of the machine below.
static const double BF = 0.5 * 400e9, BS = 0.25 * 80e9, LF = 1e-6, LS = 7e-6, NU = 2;

static tperf_system machine(void) {
    return (tperf_system){
        .accelerator = {.compute_efficiency = 1,
                        .hbm = {.bandwidth = 1e12, .capacity = 1e10, .efficiency = 1}},
        .network = {
            .fast = {.bandwidth = 400e9, .efficiency = 0.5, .latency_s = LF, .domain = 8},
            .slow = {.bandwidth = 80e9, .efficiency = 0.25, .latency_s = LS, .nics_per_gpu = 2}}};
}

static const double V = 3e8;
static const double PART = 1e-14;

static double seconds(tperf_collective kind, int64_t size, int64_t fast) {
    tperf_system system = machine();
    return tperf_collective_time(&system, &tperf_rules_default, kind, V,
                                 (tperf_group){size, fast, 1, 1});
}

static double most(double a, double b) {
    return a > b ? a : b;
}

static void in_a_domain(void) {
    NEAR(LF * 7 + 7.0 / 8 * V / BF, seconds(TPERF_ALL_GATHER, 8, 8), PART);
    NEAR(LF * 7 + 7.0 / 8 * V / BF, seconds(TPERF_REDUCE_SCATTER, 8, 8), PART);
    NEAR(2 * (LF * 7 + 7.0 / 8 * V / BF), seconds(TPERF_ALL_REDUCE, 8, 8), PART);
    NEAR(LF * 3 + V / BF, seconds(TPERF_BROADCAST, 4, 4), PART);
    NEAR(LF * 7 + 7.0 / 8 * V / BF, seconds(TPERF_ALL_TO_ALL, 8, 8), PART);
    NEAR(LF + V / BF, seconds(TPERF_SEND, 2, 2), PART);
}

static void alone_in_domains(void) {
    NEAR(LS * 15 + 15.0 / 16 * V / (NU * BS), seconds(TPERF_ALL_GATHER, 16, 1), PART);
    NEAR(LS + V / (NU * BS), seconds(TPERF_SEND, 2, 1), PART);
    tperf_system system = machine();
    tperf_rules one_nic = tperf_rules_default;
    one_nic.lone_gpus_use_all_nics = false;
    NEAR(LS * 15 + 15.0 / 16 * V / BS,
         tperf_collective_time(&system, &one_nic, TPERF_ALL_GATHER, V, (tperf_group){16, 1, 1, 1}),
         PART);
}

static void across_domains(void) {
    const double n = 32, q = 4, g = n / q, k = (n - 1) / n, latency = LS * (g - 1) + LF * (n - g);
    NEAR(latency + most(k * V / (NU * q * BS), k * V / BF), seconds(TPERF_ALL_GATHER, 32, 4), PART);
    NEAR(latency + most(V / (NU * q * BS), V / BF), seconds(TPERF_REDUCE, 32, 4), PART);
    NEAR(latency + most((n - q) / n * V / (NU * q * BS), k * V / BF), seconds(TPERF_SCATTER, 32, 4),
         PART);
    NEAR(LS * (n - q) + LF * (q - 1) + most((n - q) / n * V / (NU * BS), (q - 1) / n * V / BF),
         seconds(TPERF_ALL_TO_ALL, 32, 4), PART);
}

static void meshes(void) {
    tperf_system system = machine();
    system.network.fast.mesh =
        true; // among 4 of 8 GPUs, each has 3 of its 7 links: all parts travel at once
    NEAR(LF + 3.0 / 4 * V / (BF * 3 / 7),
         tperf_collective_time(&system, &tperf_rules_default, TPERF_ALL_GATHER, V,
                               (tperf_group){4, 4, 1, 1}),
         PART);
}

static void nothing(void) {
    tperf_system system = machine();
    for (int kind = 0; kind < TPERF_COLLECTIVE_COUNT; kind++) {
        SAME(0, seconds((tperf_collective)kind, 1, 1));
        SAME(0, tperf_collective_time(&system, &tperf_rules_default, (tperf_collective)kind, 0,
                                      (tperf_group){8, 8, 1, 1}));
    }
}

static void linear_costs(void) {
    static const tperf_group groups[] = {
        {2, 2, 1, 1}, {8, 8, 1, 1}, {16, 1, 1, 1}, {32, 4, 1, 1}, {64, 8, 1, 1}};
    tperf_system system = machine();
    for (int kind = 0; kind < TPERF_COLLECTIVE_COUNT; kind++)
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
            tperf_rate rate;
            CHECK(tperf_collective_rate(&system, &tperf_rules_default, (tperf_collective)kind,
                                        groups[i], &rate));
            NEAR(seconds((tperf_collective)kind, groups[i].size, groups[i].fast),
                 rate.latency_s + V * rate.per_byte_s, 1e-12);
        }
}

static void groups(void) {
    tperf_system system = machine();
    tperf_error error;
    CHECK(tperf_group_validate((tperf_group){64, 8, 1, 1}, &system, &error) == TPERF_OK);
    static const tperf_group wrong[] = {
        {0, 1, 1, 1}, {8, 0, 1, 1}, {8, 3, 1, 1}, {32, 16, 1, 1}, {4, 8, 1, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(tperf_group_validate(wrong[i], &system, &error) == TPERF_INVALID);
}

// Of 8 experts on 4 GPUs, a token that picks 2 misses a GPU with (6/8)(5/7).
static void routing(void) {
    const tperf_routing two = {.experts = 8, .top_k = 2};
    NEAR(4 * (1 - 6.0 / 8 * 5 / 7), tperf_routing_parts(&two, 4), 1e-14);
    const tperf_routing all = {.experts = 8, .top_k = 8};
    NEAR(4, tperf_routing_parts(&all, 4), 1e-14);
    const tperf_routing wrong = {.experts = 8, .top_k = 9};
    CHECK(tperf_routing_fault(&two) == NULL && tperf_routing_fault(&wrong) != NULL);
}

UNIT_TESTS({"within a domain", in_a_domain}, {"of GPUs alone in their domains", alone_in_domains},
           {"across domains run in parallel rings", across_domains},
           {"in a mesh use the links of the group", meshes},
           {"of nothing, or of one GPU, take no time", nothing},
           {"without curves are linear in the bytes", linear_costs},
           {"refuse groups that do not divide", groups},
           {"send a token once to each GPU with an expert of it", routing})
