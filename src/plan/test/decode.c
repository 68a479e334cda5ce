// decode.c: sums over decode steps, against adding up step by step.
#include "base/test/unit.h"
#include "tperf/inference.h"

// A time that is the longest of three lines, as where compute, traffic and launches take turns; and a plain line.
static void step(const void *context, double keys, double *values) {
    const double *bend = context;
    double traffic = 2e-6 * keys, work = 1e-6 * keys + 1e-6 * *bend;
    values[0] = fmax(fmax(traffic, work), 3e-4);
    values[1] = 5 + 2 * keys;
}

static void compare(double first, double last, double bend) {
    double keys_of[] = {1, 4096};
    const tperf_decode decode = {.n = 2, .keys = keys_of};
    const tperf_step_values of = {step, &bend, 2};
    double sum[2] = {0}, added[2] = {0}, values[2];
    tperf_decode_sum(&decode, first, last, &of, sum);
    for (double keys = first; keys <= last; keys++) {
        step(&bend, keys, values);
        added[0] += values[0];
        added[1] += values[1];
    }
    NEAR(added[0], sum[0], 1e-6);
    NEAR(added[1], sum[1], 1e-12);
}

static void sums(void) {
    for (double bend = 10; bend < 4000; bend *= 3) {
        compare(1, 4096, bend);
        compare(17, 18, bend);
        compare(100, 100, bend);
        compare(3, 2048, bend);
    }
}

UNIT_TESTS({"steps add up as one by one", sums})
