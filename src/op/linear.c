// linear.c: matrix products with weights: a plain one, and SUMMA's on a grid.
// docs/model.md section 1.1. Letters: N tokens, I and O features.
#include "op/counts.h"

tp_status tp_op_linear(tp_op *op, const tp_linear *shape, tp_error *error) {
    TP_TRY(tp_size_check(error, "tokens", shape->tokens));
    TP_TRY(tp_size_check(error, "n_in", shape->n_in));
    TP_TRY(tp_size_check(error, "n_out", shape->n_out));
    double N = (double)shape->tokens, I = (double)shape->n_in, O = (double)shape->n_out;
    double element = tp_dtype_bytes(op->dtype);
    op->forward.tensor_flops = N * O * (2 * I - 1);
    op->backward.tensor_flops = N * I * (2 * O - 1) + I * O * (2 * N - 1); // dX, then dW
    op->forward.bytes = element * (N * I + N * O + I * O);
    op->backward.bytes = element * (2 * I * O + 2 * N * I + 2 * N * O);
    op->weight_bytes = element * I * O;
    op->saved_bytes = element * N * I;
    tp_pass_kernel(&op->forward, TP_KERNEL_GEMM, 1, N, O, I);
    tp_pass_kernel(&op->backward, TP_KERNEL_GEMM, 1, N, I, O);
    tp_pass_kernel(&op->backward, TP_KERNEL_GEMM, 1, I, O, N);
    tp_pass_communicate(&op->forward, TP_REDUCE_SCATTER, shape->reduce_axis, element * N * O);
    tp_pass_communicate(&op->backward, TP_REDUCE_SCATTER, shape->grad_axis, element * N * I);
    return TP_OK;
}

tp_status tp_op_summa(tp_op *op, const tp_summa *shape, tp_error *error) {
    TP_TRY(tp_size_check(error, "tokens", shape->tokens));
    TP_TRY(tp_size_check(error, "n_in", shape->n_in));
    TP_TRY(tp_size_check(error, "n_out", shape->n_out));
    TP_TRY(tp_size_check(error, "n_in_columns", shape->n_in_columns));
    TP_TRY(tp_size_check(error, "n_in_rows", shape->n_in_rows));
    double N = (double)shape->tokens, I = (double)shape->n_in, O = (double)shape->n_out;
    double element = tp_dtype_bytes(op->dtype);
    double X = element * N * I, W = element * I * O; // what travels, whole
    op->panels = true;
    op->forward.tensor_flops = 2 * N * O * I; // accumulates, so as many additions as products
    op->backward.tensor_flops = N * I * (2 * O - 1) + I * O * (2 * N - 1);
    op->forward.bytes = X + W;
    op->backward.bytes = 2 * (X + W);
    op->forward.bytes_per_panel = element * N * O; // the accumulator is touched once a panel
    op->backward.bytes_per_panel = 2 * element * N * O;
    op->weight_bytes = element * (double)shape->n_in_rows * O;
    op->saved_bytes = element * N * (double)shape->n_in_columns;
    tp_pass_communicate(&op->forward, TP_BROADCAST, shape->columns_axis, X);
    tp_pass_communicate(&op->forward, TP_BROADCAST, shape->rows_axis, W);
    tp_pass_communicate(&op->backward, TP_BROADCAST, shape->rows_axis, W);
    tp_pass_communicate(&op->backward, TP_REDUCE, shape->columns_axis, X);
    tp_pass_communicate(&op->backward, TP_BROADCAST, shape->columns_axis, X);
    tp_pass_communicate(&op->backward, TP_REDUCE, shape->rows_axis, W);
    return TP_OK;
}
