// pointwise.c: ops that touch every element a few times: bias, activation, dropout, softmax, norm. docs/model.md
// sections 1.2 to 1.4.
#include <math.h>
#include <stddef.h>

#include "op/counts.h"

static tperf_status check_elementwise(const tperf_elementwise *shape, tperf_error *error) {
    const struct {
        const char *name;
        double value;
    } counts[] = {
        {"elements", shape->elements},
        {"forward_flops", shape->forward_flops},
        {"backward_flops", shape->backward_flops},
        {"forward_bytes", shape->forward_bytes},
        {"backward_bytes", shape->backward_bytes},
        {"saved_bytes", shape->saved_bytes},
        {"input_bytes", shape->input_bytes},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!(counts[i].value >= 0))
            return tperf_error_set(error, TPERF_INVALID, "'%s' must not be negative, got %g",
                                   counts[i].name, counts[i].value);
    return tperf_size_check(error, "parameters", shape->parameters);
}

tperf_status tperf_op_elementwise(tperf_op *op, const tperf_elementwise *shape,
                                  tperf_error *error) {
    TPERF_TRY(check_elementwise(shape, error));
    double n = shape->elements, parameters = (double)shape->parameters;
    double parameter_bytes = tperf_dtype_bytes(op->dtype) * parameters;
    op->forward.vector_flops = shape->forward_flops * n;
    op->backward.vector_flops = shape->backward_flops * n;
    op->forward.bytes = shape->forward_bytes * n + parameter_bytes;
    op->backward.bytes = shape->backward_bytes * n + parameter_bytes;
    tperf_op_hold(op, parameters, tperf_dtype_bytes(op->dtype));
    op->saved_bytes = shape->saved_bytes * n;
    op->input_bytes = fmin(shape->input_bytes, shape->saved_bytes) * n;
    op->repeated_bytes = shape->repeated_bytes * n;
    op->role = shape->role;
    op->elements = shape->elements;
    op->recomputed = shape->recomputed;
    op->fused = shape->fused;
    op->eager = shape->eager;
    op->own.bytes = parameter_bytes;
    tperf_pass_communicate_own(&op->backward, TPERF_ALL_REDUCE, shape->grad_axis, parameter_bytes);
    return TPERF_OK;
}

tperf_status tperf_op_softmax(tperf_op *op, const tperf_softmax *shape, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "width", shape->width));
    double rows = shape->rows, k = (double)shape->width;
    double element = tperf_dtype_bytes(op->dtype);
    op->forward.vector_flops = rows * (3 * k - 1);  // exponential, scale, k - 1 additions per row
    op->backward.vector_flops = rows * (4 * k - 1); // two products, a sum, k - 1 additions
    op->forward.bytes = 2 * element * rows * k;
    op->backward.bytes = 3 * element * rows * k;
    double output = element * rows * k;
    op->saved_bytes = shape->keep_output ? output : 0;
    op->again_bytes = output - op->saved_bytes;
    op->recomputed = shape->recomputed;
    tperf_pass_communicate(&op->forward, TPERF_ALL_REDUCE, shape->sum_axis, element * rows);
    tperf_pass_communicate(&op->backward, TPERF_ALL_REDUCE, shape->sum_axis, element * rows);
    return TPERF_OK;
}

static void count_gather(tperf_op *op, const tperf_norm *shape, double element) {
    bool share = shape->gathered_tokens == 0;
    int64_t tokens = share ? shape->tokens : shape->gathered_tokens;
    double bytes = element * (double)tokens * (double)shape->width;
    tperf_pass_communicate(&op->forward, TPERF_ALL_GATHER, shape->gather_axis, bytes);
    tperf_pass_communicate(&op->backward, TPERF_REDUCE_SCATTER, shape->gather_axis, bytes);
    if (op->forward.n_comms) op->forward.comms[0].share = op->backward.comms[0].share = share;
}

tperf_status tperf_op_norm(tperf_op *op, const tperf_norm *shape, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "tokens", shape->tokens));
    TPERF_TRY(tperf_size_check(error, "width", shape->width));
    TPERF_TRY(tperf_size_check(error, "gathered_tokens", shape->gathered_tokens));
    bool whole = shape->parameters == TPERF_NORM_WHOLE;
    if (!whole) TPERF_TRY(tperf_size_check(error, "parameters", shape->parameters));
    double r = (double)shape->tokens, w = (double)shape->width;
    double element = tperf_dtype_bytes(op->dtype);
    bool rms = shape->root_mean_square;
    double parameters = whole ? (rms ? 1 : 2) * w : (double)shape->parameters;
    op->forward.vector_flops = (rms ? 4 : 9) * r * w;
    // layer norm: 8 per element, and 4 sums of w - 1 per row; without the mean 7, and 2 sums
    op->backward.vector_flops = rms ? 9 * r * w - 2 * r : 12 * r * w - 4 * r;
    op->forward.bytes = element * (2 * r * w + (rms ? 1 : 2) * r + parameters);
    op->backward.bytes = element * (5 * r * w + parameters);
    tperf_op_hold(op, parameters, element);
    op->saved_bytes = op->input_bytes = shape->input_kept_elsewhere ? 0 : element * r * w;
    op->norm = true;
    // the sums over rows read the input and the gradient again: a product and a sum for each parameter of a row
    op->own = (tperf_own_gradients){.vector_flops = (rms ? 2 : 3) * r * w,
                                    .bytes = element * (2 * r * w + parameters)};
    count_gather(op, shape, element);
    tperf_pass_communicate(&op->forward, TPERF_ALL_REDUCE, shape->statistics_axis,
                           (rms ? 1 : 2) * element * r);
    tperf_pass_communicate(&op->backward, TPERF_ALL_REDUCE, shape->statistics_axis,
                           element * shape->grad_statistics);
    tperf_pass_communicate_own(&op->backward, TPERF_ALL_REDUCE, shape->grad_axis,
                               element * parameters);
    return TPERF_OK;
}
