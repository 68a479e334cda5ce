// decode.c: one decode step as a function of the cache's length, summed over steps. See tperf/inference.h.
#include <math.h>
#include <string.h>

#include "tperf/inference.h"

static const double SAME_CHORD = 1e-8; // relative

static bool alike(const tperf_pass *a, const tperf_pass *b) {
    if (a->n_kernels != b->n_kernels || a->n_comms != b->n_comms) return false;
    for (int i = 0; i < a->n_kernels; i++)
        if (a->kernels[i].kind != b->kernels[i].kind) return false;
    for (int i = 0; i < a->n_comms; i++)
        if (a->comms[i].kind != b->comms[i].kind ||
            a->comms[i].axis_index != b->comms[i].axis_index)
            return false;
    return true;
}

static bool differ(const tperf_pass *a, const tperf_pass *b) {
    bool different = a->tensor_flops != b->tensor_flops || a->vector_flops != b->vector_flops ||
                     a->bytes != b->bytes;
    for (int i = 0; i < a->n_kernels; i++) {
        const tperf_kernel *k = &a->kernels[i], *l = &b->kernels[i];
        different = different || k->batch != l->batch || k->m != l->m || k->n != l->n ||
                    k->k != l->k || k->shared != l->shared;
    }
    for (int i = 0; i < a->n_comms; i++)
        different = different || a->comms[i].bytes != b->comms[i].bytes;
    return different;
}

tperf_status tperf_decode_compare(tperf_decode *decode, tperf_error *error) {
    const tperf_workload *first = decode->workloads[0];
    decode->n_varying = 0;
    for (int k = 1; k < decode->n; k++)
        if (decode->workloads[k]->n_ops != first->n_ops)
            return tperf_error_set(
                error, TPERF_INVALID, "a decode step has %zu ops with %g keys, but %zu with %g",
                first->n_ops, decode->keys[0], decode->workloads[k]->n_ops, decode->keys[k]);
    int section = 0;
    for (size_t i = 0; i < first->n_ops; i++) {
        while (i >= first->section_end[section])
            section++;
        bool varies = false;
        for (int k = 1; k < decode->n; k++) {
            const tperf_pass *pass = &decode->workloads[k]->ops[i].forward;
            if (!alike(&first->ops[i].forward, pass))
                return tperf_error_set(error, TPERF_INVALID,
                                       "op '%s' of a decode step has other collectives or kernels "
                                       "with %g keys than with %g",
                                       first->ops[i].name, decode->keys[k], decode->keys[0]);
            varies = varies || differ(&first->ops[i].forward, pass);
        }
        if (varies) decode->varying[decode->n_varying++] = (tperf_varying){section, i};
    }
    return TPERF_OK;
}

static double between(double a, double b, double part) {
    return a + part * (b - a);
}

void tperf_decode_pass(const tperf_decode *decode, size_t op, double keys, tperf_pass *pass) {
    int k = 0;
    while (k + 2 < decode->n && keys > decode->keys[k + 1])
        k++;
    *pass = decode->workloads[k]->ops[op].forward;
    if (decode->n == 1) return;
    const tperf_pass *end = &decode->workloads[k + 1]->ops[op].forward;
    double part = (keys - decode->keys[k]) / (decode->keys[k + 1] - decode->keys[k]);
    pass->tensor_flops = between(pass->tensor_flops, end->tensor_flops, part);
    pass->vector_flops = between(pass->vector_flops, end->vector_flops, part);
    pass->bytes = between(pass->bytes, end->bytes, part);
    for (int i = 0; i < pass->n_kernels; i++) {
        tperf_kernel *kernel = &pass->kernels[i];
        const tperf_kernel *last = &end->kernels[i];
        kernel->batch = between(kernel->batch, last->batch, part);
        kernel->m = between(kernel->m, last->m, part);
        kernel->n = between(kernel->n, last->n, part);
        kernel->k = between(kernel->k, last->k, part);
        kernel->shared = between(kernel->shared, last->shared, part);
    }
    for (int i = 0; i < pass->n_comms; i++)
        pass->comms[i].bytes = between(pass->comms[i].bytes, end->comms[i].bytes, part);
}

static void add(double sum[TPERF_STEP_VALUES], const double *values, double times) {
    for (int i = 0; i < TPERF_STEP_VALUES; i++)
        sum[i] += times * values[i];
}

typedef struct interval {
    double low, high;
    double at_low[TPERF_STEP_VALUES], at_high[TPERF_STEP_VALUES];
} interval;

static void add_interval(const interval *all, tperf_step_function step, const void *context,
                         double sum[TPERF_STEP_VALUES]) {
    double steps = all->high - all->low + 1;
    double half =
        steps > 1 ? steps / 2 : 0.5; // an affine function's sum is steps times the mean of its ends
    interval left = *all, right = *all;
    if (steps > 2) {
        left.high = floor((all->low + all->high) / 2);
        step(context, left.high, left.at_high);
        double part = (left.high - all->low) / (all->high - all->low);
        double chord = between(all->at_low[0], all->at_high[0], part);
        if (fabs(left.at_high[0] - chord) > SAME_CHORD * fabs(chord)) {
            right.low = left.high + 1;
            step(context, right.low, right.at_low);
            add_interval(&left, step, context, sum);
            add_interval(&right, step, context, sum);
            return;
        }
    }
    add(sum, all->at_low, half);
    add(sum, all->at_high, half);
}

void tperf_decode_sum(const tperf_decode *decode, double first, double last,
                      tperf_step_function step, const void *context,
                      double sum[TPERF_STEP_VALUES]) {
    memset(sum, 0, TPERF_STEP_VALUES * sizeof *sum);
    for (int k = 0; k + 1 < decode->n || k == 0; k++) {
        double end = k + 2 < decode->n ? decode->keys[k + 1] : last;
        interval part = {.low = fmax(first, k ? decode->keys[k] + 1 : first),
                         .high = fmin(last, end)};
        if (part.low > part.high) continue;
        step(context, part.low, part.at_low);
        step(context, part.high, part.at_high);
        add_interval(&part, step, context, sum);
    }
}
