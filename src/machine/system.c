// system.c: see tperf/system.h.
#include "tperf/system.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "machine/curves.h"
#include "machine/numbers.h"

static void substitute(double peaks[TPERF_DTYPE_COUNT]) {
    if (peaks[TPERF_FP16] == 0) peaks[TPERF_FP16] = peaks[TPERF_BF16];
    if (peaks[TPERF_BF16] == 0) peaks[TPERF_BF16] = peaks[TPERF_FP16];
}

void tperf_system_complete(tperf_system *system) {
    double *tensor = system->accelerator.tensor, *vector = system->accelerator.vector;
    substitute(tensor);
    substitute(vector);
    if (tensor[TPERF_FP32] == 0) tensor[TPERF_FP32] = vector[TPERF_FP32];
    tperf_curves_complete(&system->curves);
}

static tperf_status check_peaks(const double *peaks, const char *unit, tperf_error *error) {
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++)
        if (peaks[i] != 0 && !(peaks[i] >= TPERF_MIN_RATE && peaks[i] <= TPERF_MAX_RATE))
            return tperf_error_set(error, TPERF_INVALID,
                                   "accelerator.%s.%s is %g, not from %g to %g FLOP/s", unit,
                                   tperf_dtype_names[i], peaks[i], TPERF_MIN_RATE, TPERF_MAX_RATE);
    return TPERF_OK;
}

// Checks that a fraction of a peak is in (0, 1].
static tperf_status check_part(double value, const char *name, tperf_error *error) {
    if (value >= TPERF_MIN_PART && value <= 1) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID, "%s is %g, not from %g to 1", name, value,
                           TPERF_MIN_PART);
}

// A tier joins whole units of the tier inward, and within a domain, switches.
static tperf_status check_tier(const tperf_system *system, int64_t i, tperf_error *error) {
    const tperf_tier *tier = &system->network.tiers[i];
    int64_t domain = system->network.fast.domain, before = i > 0 ? tier[-1].unit : 1;
    if (tier->outside && before < domain) before = domain;
    bool fits =
        tier->unit >= before && tier->unit % before == 0 && (tier->outside || tier->unit < domain);
    if (i > 0 && tier[-1].outside && !tier->outside) fits = false;
    if (tier->unit > INT64_C(1) << 31)
        return tperf_error_set(error, TPERF_INVALID,
                               "network.tiers.%s joins units of %lld GPUs, more than 2^31",
                               tier->name, (long long)tier->unit);
    if (!fits)
        return tperf_error_set(
            error, TPERF_INVALID,
            "network.tiers.%s joins units of %lld GPUs, but the tier inward "
            "joins %lld: tiers stand from the innermost out, each of whole units",
            tier->name, (long long)tier->unit, (long long)before);
    if (!tier->outside && (system->network.fast.mesh || system->network.fast.axes[0] > 0))
        return tperf_error_set(error, TPERF_INVALID,
                               "network.tiers.%s lies in a domain, whose innermost tier must then "
                               "be a switch",
                               tier->name);
    if (!(tier->bandwidth >= TPERF_MIN_RATE && tier->bandwidth <= TPERF_MAX_RATE))
        return tperf_error_set(error, TPERF_INVALID,
                               "network.tiers.%s.bandwidth is %g, not from %g to %g", tier->name,
                               tier->bandwidth, TPERF_MIN_RATE, TPERF_MAX_RATE);
    if (!(tier->efficiency == 0 || (tier->efficiency >= TPERF_MIN_PART && tier->efficiency <= 1)))
        return tperf_error_set(error, TPERF_INVALID,
                               "network.tiers.%s.efficiency is %g, not from %g to 1", tier->name,
                               tier->efficiency, TPERF_MIN_PART);
    for (int a = 0; a < TPERF_TORUS_AXES; a++)
        if (tier->axes[a] != 0 && !(tier->axes[a] >= 2 && tier->axes[a] <= 1e6))
            return tperf_error_set(error, TPERF_INVALID,
                                   "network.tiers.%s.axes has %g, not a length from 2 to 10^6",
                                   tier->name, tier->axes[a]);
    if (tier->mesh != 0 && tier->mesh < 2)
        return tperf_error_set(error, TPERF_INVALID,
                               "network.tiers.%s is a mesh of %lld units, not of two or more",
                               tier->name, (long long)tier->mesh);
    if (!(tier->latency_s >= 0 && tier->latency_s <= TPERF_MAX_WAIT))
        return tperf_error_set(error, TPERF_INVALID,
                               "network.tiers.%s.latency is %g, not from 0 to %g s", tier->name,
                               tier->latency_s, TPERF_MAX_WAIT);
    return TPERF_OK;
}

static tperf_status check_tiers(const tperf_system *system, tperf_error *error) {
    int64_t n = system->network.n_tiers;
    if (n < 0 || n > TPERF_TIERS_MAX - 2)
        return tperf_error_set(error, TPERF_INVALID, "network.tiers has %lld tiers, not up to %d",
                               (long long)n + 2, TPERF_TIERS_MAX);
    for (int64_t i = 0; i < n; i++)
        TPERF_TRY(check_tier(system, i, error));
    return TPERF_OK;
}

tperf_status tperf_system_validate(const tperf_system *system, tperf_error *error) {
    TPERF_TRY(check_peaks(system->accelerator.tensor, "tensor", error));
    TPERF_TRY(check_peaks(system->accelerator.vector, "vector", error));
    TPERF_TRY(tperf_numbers_check(system, tperf_system_numbers, "", error));
    TPERF_TRY(check_part(system->accelerator.compute_efficiency, "accelerator.compute_efficiency",
                         error));
    TPERF_TRY(check_part(system->network.fast.efficiency, "network.fast.efficiency", error));
    TPERF_TRY(check_part(system->network.slow.efficiency, "network.slow.efficiency", error));
    TPERF_TRY(tperf_curves_check(system, error));
    for (int i = 0; i < TPERF_TORUS_AXES; i++) {
        double axis = system->network.fast.axes[i];
        if (axis != 0 && !(axis >= 2 && axis <= 1e6 && axis == floor(axis)))
            return tperf_error_set(error, TPERF_INVALID,
                                   "network.fast.axes has %g, not a length from 2 to 10^6", axis);
    }
    int64_t domain = system->network.fast.domain;
    if (domain < 1 || domain > INT64_C(1) << 31)
        return tperf_error_set(error, TPERF_INVALID,
                               "network.fast.domain is %lld, not from 1 to 2^31 GPUs",
                               (long long)domain);
    return check_tiers(system, error);
}

void tperf_system_flash(tperf_system *system, int64_t version) {
    int64_t before = system->accelerator.flash;
    if (version == 0 || version == before) return;
    system->accelerator.flash = version;
    double flash1 = system->accelerator.flash1 > 0 ? system->accelerator.flash1 : 1;
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        tperf_attention_curve *curve = &system->curves.attention[i];
        bool fresh = system->curves.flash2[i].n_sizes > 0;
        if (fresh) *curve = system->curves.flash2[i];
        double slower = version == 1 ? flash1 : 1;
        if (!fresh && before == 1) slower /= flash1;
        for (int j = 0; j < curve->n_sizes; j++)
            curve->efficiency[j] /= slower;
    }
}
