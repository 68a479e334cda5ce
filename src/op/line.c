// line.c: ops whose counts grow in proportion to the tokens, from two of them.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tperf/op.h"

#define COUNT(field) offsetof(tperf_op, field)
#define COUNTS_OF_PASS(pass)                                                                       \
    COUNT(pass.tensor_flops), COUNT(pass.vector_flops), COUNT(pass.masked_flops),                  \
        COUNT(pass.bytes), COUNT(pass.bytes_per_panel), COUNT(pass.routed), COUNT(pass.host_bytes)

// What may grow beside kernels and collectives; all else must agree.
static const size_t counts[] = {
    COUNTS_OF_PASS(forward), COUNTS_OF_PASS(backward), COUNT(product.rows),
    COUNT(product.kept),     COUNT(product.scattered), COUNT(output_bytes),
    COUNT(own.tensor_flops), COUNT(own.vector_flops),  COUNT(own.bytes),
    COUNT(own.host_bytes),   COUNT(weights_read),      COUNT(own.saved_bytes),
    COUNT(saved_bytes),      COUNT(input_bytes),       COUNT(repeated_bytes),
    COUNT(again_bytes),      COUNT(passing_bytes),     COUNT(offload_bytes),
    COUNT(seen_flops),       COUNT(pair_flops),        COUNT(elements),
    COUNT(kept.token),       COUNT(kept.sequence),     COUNT(kept.key_bytes),
};

// What is exact has the bits that any other order of the same sum and product gives.
bool tperf_on_line(double *count, double at_one, double t) {
    double from = *count, slope = at_one - from;
    if (slope == 0) return true;
    double climbed = t * slope, made = from + climbed;
    *count = made;
    return from + slope == at_one && fma(t, slope, -climbed) == 0 && made - climbed == from &&
           made - from == climbed;
}

static bool move_pass(tperf_pass *pass, const tperf_pass *at_one, double t) {
    bool exact = true;
    for (int i = 0; i < TPERF_KERNELS_MAX; i++) { // most have none
        tperf_kernel *kernel = &pass->kernels[i];
        const tperf_kernel *one = &at_one->kernels[i];
        if (memcmp(kernel, one, sizeof *one) == 0) continue;
        exact = exact && tperf_on_line(&kernel->batch, one->batch, t) &&
                tperf_on_line(&kernel->m, one->m, t) && tperf_on_line(&kernel->n, one->n, t) &&
                tperf_on_line(&kernel->k, one->k, t);
    }
    for (int i = 0; i < pass->n_comms; i++)
        exact = exact && tperf_on_line(&pass->comms[i].bytes, at_one->comms[i].bytes, t);
    return exact;
}

bool tperf_op_on_line(tperf_op *made, const tperf_op *at_zero, const tperf_op *at_one, double t) {
    bool exact = true;
    *made = *at_zero;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const double *one = (const double *)((const char *)at_one + counts[i]);
        exact = exact && tperf_on_line((double *)((char *)made + counts[i]), *one, t);
    }
    return exact && move_pass(&made->forward, &at_one->forward, t) &&
           move_pass(&made->backward, &at_one->backward, t);
}
