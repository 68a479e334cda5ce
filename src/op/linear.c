// linear.c: matrix products with weights: a plain one, and SUMMA's on a grid.
// docs/model.md section 1.1. Letters: N tokens, I and O features.
#include <stddef.h>

#include "op/counts.h"

static tp_status check_linear(const tp_linear *shape, tp_error *error) {
    TP_TRY(tp_size_check(error, "tokens", shape->tokens));
    TP_TRY(tp_size_check(error, "n_in", shape->n_in));
    TP_TRY(tp_size_check(error, "n_out", shape->n_out));
    TP_TRY(tp_size_check(error, "shard", shape->shard));
    TP_TRY(tp_size_check(error, "experts", shape->experts));
    TP_TRY(tp_size_check(error, "chunks", shape->chunks));
    TP_TRY(tp_size_check(error, "output_shard", shape->scattered));
    if (shape->active >= 0 && shape->active <= (double)shape->experts) return TP_OK;
    return tp_error_set(error, TP_INVALID, "'active' must be from 0 to the %lld experts, got %g",
                        (long long)shape->experts, shape->active);
}

static void carries(tp_pass *pass, int from, tp_carried what) {
    for (int i = from; i < pass->n_comms; i++)
        pass->comms[i].carries = what;
}

// What a collective beside a product costs it, in multiprocessors of an H100's 132: kernels beside collectives were measured
// to be 18.9 % slower on average (arXiv 2507.03114, abstract), for multiprocessors, HBM and power that both want. The
// collectives' own kernels take 1 to 16 of them (transformer_engine/pytorch/module/base.py, num_sm).
enum { OVERLAP_UNITS = 25 };

// Makes the pass's last collective, if it is of that kind, one of so many chunks.
static void chunk(tp_pass *pass, tp_collective kind, const tp_linear *shape, tp_chunking chunking) {
    tp_comm *comm = pass->n_comms ? &pass->comms[pass->n_comms - 1] : NULL;
    if (shape->chunks <= 1 || !comm || comm->kind != kind) return;
    comm->chunking = chunking;
    comm->units = OVERLAP_UNITS;
    pass->chunks = chunking == TP_RING ? shape->chunks : TP_PIPELINE_CHUNKS;
}

// What reaches and leaves the products of the backward pass: X and its gradient whole beside them.
static void communicate_backward(tp_op *op, const tp_linear *shape, double input, double output) {
    tp_pass_communicate(&op->backward, TP_ALL_GATHER, shape->output_grad_axis, output);
    carries(&op->backward, 0, TP_CARRIES_OUTPUT_GRAD);
    if (shape->pipelined) chunk(&op->backward, TP_ALL_GATHER, shape, TP_RING);
    int from = op->backward.n_comms;
    tp_pass_communicate_own(&op->backward, TP_ALL_GATHER, shape->gather_axis, input);
    carries(&op->backward, from, TP_CARRIES_INPUT);
    tp_pass_communicate(&op->backward, TP_REDUCE_SCATTER, shape->grad_axis, input);
    tp_pass_communicate(&op->backward, TP_ALL_REDUCE, shape->grad_sum_axis, input);
    for (int i = from; i < op->backward.n_comms; i++) {
        op->backward.comms[i].beside = shape->overlap;
        if (shape->overlap && shape->chunks > 1 && shape->pipelined)
            op->backward.comms[i].units = OVERLAP_UNITS;
    }
}

static void communicate_linear(tp_op *op, const tp_linear *shape, double weights, double biases) {
    double element = tp_dtype_bytes(op->dtype);
    double input = element * (double)shape->tokens * (double)shape->n_in;
    double output = element * (double)shape->tokens * (double)shape->n_out;
    tp_pass_communicate(&op->forward, TP_ALL_GATHER, shape->gather_axis, input);
    carries(&op->forward, 0, TP_CARRIES_INPUT);
    chunk(&op->forward, TP_ALL_GATHER, shape, TP_RING);
    tp_pass_communicate(&op->forward, TP_REDUCE_SCATTER, shape->reduce_axis, output);
    chunk(&op->forward, TP_REDUCE_SCATTER, shape, shape->pipelined ? TP_PIPELINE : TP_RING);
    tp_pass_communicate(&op->forward, TP_ALL_REDUCE, shape->sum_axis, output);
    communicate_backward(op, shape, input, output);
    tp_pass_communicate_own(&op->backward, TP_ALL_REDUCE, shape->parameter_axis,
                            element * (weights + biases));
    if (!shape->parameter_axis)
        tp_pass_communicate_own(&op->backward, TP_ALL_REDUCE, shape->bias_axis, element * biases);
}

tp_status tp_op_linear(tp_op *op, const tp_linear *shape, tp_error *error) {
    TP_TRY(check_linear(shape, error));
    double N = (double)shape->tokens, I = (double)shape->n_in, O = (double)shape->n_out;
    double products = shape->experts ? (double)shape->experts : 1;
    double used = shape->active > 0 ? shape->active : products;
    double biases = shape->bias ? products * O : 0, kept = shape->shard ? (double)shape->shard : N;
    double element = tp_dtype_bytes(op->dtype);
    double weight = shape->weight_element > 0 ? shape->weight_element : element;
    op->forward.tensor_flops = N * O * (2 * I - 1);
    op->backward.tensor_flops = N * I * (2 * O - 1) + I * O * (2 * N - used); // dX, then dW
    tp_pass_kernel(&op->forward, TP_KERNEL_GEMM, used, N / used, O, I);
    tp_pass_kernel(&op->backward, TP_KERNEL_GEMM, used, N / used, I, O);
    tp_pass_kernel(&op->backward, TP_KERNEL_GEMM, used, I, O, N / used);
    op->forward.kernels[0].second = op->backward.kernels[0].second = weight;
    op->forward.vector_flops = op->backward.vector_flops = shape->bias ? N * O : 0;
    op->forward.bytes = element * (N * I + N * O) + weight * used * I * O + weight * biases;
    op->backward.bytes =
        element * (2 * N * I + 2 * N * O) + 2 * weight * used * I * O + weight * biases;
    tp_op_hold(op, shape->weights_elsewhere ? 0 : products * I * O + biases, weight);
    op->saved_bytes = op->input_bytes = shape->input_kept_elsewhere ? 0 : element * kept * I;
    op->own = (tp_own_gradients){
        .n_kernels = 1,
        .tensor_flops = I * O * (2 * N - used),
        .vector_flops = op->backward.vector_flops,
        .bytes = element * (N * I + N * O) + weight * used * I * O + weight * biases,
        .saved_bytes = op->saved_bytes,
    };
    op->product = (tp_product){
        .rows = N,
        .n_in = I,
        .n_out = O,
        .used = used,
        .kept = kept,
        .scattered = shape->scattered ? (double)shape->scattered : N,
    };
    op->expert = shape->experts > 0;
    op->tied = shape->tied;
    communicate_linear(op, shape, products * I * O, biases);
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
    double biases = shape->bias ? O : 0;
    op->forward.vector_flops = op->backward.vector_flops = N * biases;
    op->own.tensor_flops = I * O * (2 * N - 1);
    op->own.bytes = X + W;
    tp_op_hold(op, (double)shape->n_in_rows * O + biases, element);
    op->saved_bytes = op->input_bytes =
        shape->input_kept_elsewhere ? 0 : element * N * (double)shape->n_in_columns;
    op->tied = shape->tied;
    tp_pass_communicate(&op->forward, TP_BROADCAST, shape->columns_axis, X);
    tp_pass_communicate(&op->forward, TP_BROADCAST, shape->rows_axis, W);
    tp_pass_communicate(&op->backward, TP_BROADCAST, shape->rows_axis, W);
    tp_pass_communicate(&op->backward, TP_REDUCE, shape->columns_axis, X);
    tp_pass_communicate(&op->backward, TP_BROADCAST, shape->columns_axis, X);
    tp_pass_communicate(&op->backward, TP_REDUCE, shape->rows_axis, W);
    tp_pass_communicate(&op->backward, TP_ALL_REDUCE, shape->bias_axis, element * biases);
    return TP_OK;
}
