// pointwise.c: work that touches every element a few times: bias, activation, dropout, softmax,
// norm. docs/model.md sections 1.2 to 1.4.
#include <math.h>
#include <stddef.h>

#include "op/counts.h"

static tp_status check_elementwise(const tp_elementwise *shape, tp_error *error) {
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
            return tp_error_set(error, TP_INVALID, "'%s' must not be negative, got %g",
                                counts[i].name, counts[i].value);
    return tp_size_check(error, "parameters", shape->parameters);
}

tp_status tp_op_elementwise(tp_op *op, const tp_elementwise *shape, tp_error *error) {
    TP_TRY(check_elementwise(shape, error));
    double n = shape->elements, parameters = (double)shape->parameters;
    double parameter_bytes = tp_dtype_bytes(op->dtype) * parameters;
    op->forward.vector_flops = shape->forward_flops * n;
    op->backward.vector_flops = shape->backward_flops * n;
    op->forward.bytes = shape->forward_bytes * n + parameter_bytes;
    op->backward.bytes = shape->backward_bytes * n + parameter_bytes;
    tp_op_hold(op, parameters, tp_dtype_bytes(op->dtype));
    op->saved_bytes = shape->saved_bytes * n;
    op->input_bytes = fmin(shape->input_bytes, shape->saved_bytes) * n;
    op->repeated_bytes = shape->repeated_bytes * n;
    op->recomputed = shape->recomputed;
    op->fused = shape->fused;
    op->eager = shape->eager;
    op->own.bytes = parameter_bytes;
    tp_pass_communicate_own(&op->backward, TP_ALL_REDUCE, shape->grad_axis, parameter_bytes);
    return TP_OK;
}

tp_status tp_op_softmax(tp_op *op, const tp_softmax *shape, tp_error *error) {
    TP_TRY(tp_size_check(error, "width", shape->width));
    op->attention = true;
    double rows = shape->rows, k = (double)shape->width;
    double element = tp_dtype_bytes(op->dtype);
    op->forward.vector_flops = rows * (3 * k - 1);  // exponential, scale, k - 1 additions a row
    op->backward.vector_flops = rows * (4 * k - 1); // two products, a sum, k - 1 additions
    op->forward.bytes = 2 * element * rows * k;
    op->backward.bytes = 3 * element * rows * k;
    double output = element * rows * k;
    op->saved_bytes = shape->keep_output ? output : 0;
    op->again_bytes = output - op->saved_bytes;
    op->recomputed = shape->recomputed;
    tp_pass_communicate(&op->forward, TP_ALL_REDUCE, shape->sum_axis, element * rows);
    tp_pass_communicate(&op->backward, TP_ALL_REDUCE, shape->sum_axis, element * rows);
    return TP_OK;
}

static void count_gather(tp_op *op, const tp_norm *shape, double element) {
    bool share = shape->gathered_tokens == 0;
    int64_t tokens = share ? shape->tokens : shape->gathered_tokens;
    double bytes = element * (double)tokens * (double)shape->width;
    tp_pass_communicate(&op->forward, TP_ALL_GATHER, shape->gather_axis, bytes);
    tp_pass_communicate(&op->backward, TP_REDUCE_SCATTER, shape->gather_axis, bytes);
    if (op->forward.n_comms) op->forward.comms[0].share = op->backward.comms[0].share = share;
}

tp_status tp_op_norm(tp_op *op, const tp_norm *shape, tp_error *error) {
    TP_TRY(tp_size_check(error, "tokens", shape->tokens));
    TP_TRY(tp_size_check(error, "width", shape->width));
    TP_TRY(tp_size_check(error, "gathered_tokens", shape->gathered_tokens));
    bool whole = shape->parameters == TP_NORM_WHOLE;
    if (!whole) TP_TRY(tp_size_check(error, "parameters", shape->parameters));
    double r = (double)shape->tokens, w = (double)shape->width;
    double element = tp_dtype_bytes(op->dtype);
    bool rms = shape->root_mean_square;
    double parameters = whole ? (rms ? 1 : 2) * w : (double)shape->parameters;
    op->forward.vector_flops = (rms ? 4 : 9) * r * w;
    // layer norm 8 an element, and 4 sums of w - 1 a row; without the mean 7, and 2 sums
    op->backward.vector_flops = rms ? 9 * r * w - 2 * r : 12 * r * w - 4 * r;
    op->forward.bytes = element * (2 * r * w + (rms ? 1 : 2) * r + parameters);
    op->backward.bytes = element * (5 * r * w + parameters);
    tp_op_hold(op, parameters, element);
    op->saved_bytes = op->input_bytes = shape->input_kept_elsewhere ? 0 : element * r * w;
    op->norm = true;
    // the input and the gradient are read again for the sums over rows: a product and a sum for each parameter of a row
    op->own = (tp_own_gradients){.vector_flops = (rms ? 2 : 3) * r * w,
                                 .bytes = element * (2 * r * w + parameters)};
    count_gather(op, shape, element);
    tp_pass_communicate(&op->forward, TP_ALL_REDUCE, shape->statistics_axis,
                        (rms ? 1 : 2) * element * r);
    tp_pass_communicate(&op->backward, TP_ALL_REDUCE, shape->statistics_axis,
                        element * shape->grad_statistics);
    tp_pass_communicate_own(&op->backward, TP_ALL_REDUCE, shape->grad_axis, element * parameters);
    return TP_OK;
}
