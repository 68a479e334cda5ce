// systems.c: what stands in for a missing dtype, and how software changes a system, once and twice.
#include "base/test/unit.h"
#include "tperf/system.h"

static tperf_system machine(void) {
    tperf_system system = {
        .accelerator = {.tensor[TPERF_BF16] = 3e14,
                        .vector[TPERF_FP32] = 2e13,
                        .vector[TPERF_FP16] = 4e13,
                        .compute_efficiency = 1,
                        .units = 100,
                        .flash1 = 1.8,
                        .hbm = {.bandwidth = 1e12, .capacity = 1e10, .efficiency = 1}},
        .network = {.fast = {.bandwidth = 1e11, .efficiency = 1, .domain = 8},
                    .slow = {.bandwidth = 1e10, .efficiency = 1, .nics_per_gpu = 1}}};
    system.curves.attention[TPERF_FP16] = (tperf_attention_curve){.n_sizes = 1,
                                                                  .head_size = {128},
                                                                  .efficiency = {0.6},
                                                                  .backward = {0.8},
                                                                  .sustained = 0.9,
                                                                  .sustained_after_s = 1};
    return system;
}

static void substitutes(void) {
    tperf_system system = machine();
    tperf_error error;
    tperf_system_complete(&system);
    SAME(3e14, system.accelerator.tensor[TPERF_FP16]);
    SAME(4e13, system.accelerator.vector[TPERF_BF16]);
    SAME(2e13, system.accelerator.tensor[TPERF_FP32]); // by the vector units
    SAME(0, system.accelerator.tensor[TPERF_FP8]);
    SAME(0.6, system.curves.attention[TPERF_BF16].efficiency[0]);
    CHECK(tperf_system_validate(&system, &error) == TPERF_OK);
    tperf_system twice = system;
    tperf_system_complete(&twice);
    CHECK(memcmp(&twice, &system, sizeof system) == 0);
    system.accelerator.tensor[TPERF_FP16] = 1e14; // given: it stays
    tperf_system_complete(&system);
    SAME(1e14, system.accelerator.tensor[TPERF_FP16]);
}

static double efficiency(const tperf_system *system) {
    return system->curves.attention[TPERF_FP16].efficiency[0];
}

static void flash(void) {
    tperf_system system = machine();
    tperf_system_flash(&system, 0);
    SAME(0.6, efficiency(&system));
    tperf_system_flash(&system, 1);
    NEAR(0.6 / 1.8, efficiency(&system), 1e-15);
    tperf_system_flash(&system, 1);
    NEAR(0.6 / 1.8, efficiency(&system), 1e-15);
    tperf_system_flash(&system, 2); // without a curve of its own, the timed kernel
    NEAR(0.6, efficiency(&system), 1e-15);
}

static void impossible(void) {
    tperf_error error;
    tperf_system system = machine();
    system.accelerator.hbm.bandwidth = NAN;
    REFUSES("hbm.bandwidth", tperf_system_validate(&system, &error));
    system = machine();
    system.network.fast.domain = 0;
    REFUSES("network.fast.domain is 0", tperf_system_validate(&system, &error));
    system = machine();
    system.accelerator.compute_efficiency = 1.5;
    REFUSES("compute_efficiency is 1.5", tperf_system_validate(&system, &error));
    system = machine();
    system.accelerator.units = 0;
    REFUSES("curves need accelerator.units", tperf_system_validate(&system, &error));
}

UNIT_TESTS({"16-bit dtypes stand in for each other", substitutes},
           {"FlashAttention is slower once, however often it is read", flash},
           {"impossible machines are refused by the field's name", impossible})
