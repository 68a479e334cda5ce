// linear.c: matrix products with weights: a plain one, and SUMMA's on a grid.
// docs/model.md section 1.1. Letters: N tokens, I and O features.
#include <math.h>
#include <stddef.h>

#include "op/counts.h"

static tperf_status check_linear(const tperf_linear *shape, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "tokens", shape->tokens));
    TPERF_TRY(tperf_size_check(error, "n_in", shape->n_in));
    TPERF_TRY(tperf_size_check(error, "n_out", shape->n_out));
    TPERF_TRY(tperf_size_check(error, "shard", shape->shard));
    TPERF_TRY(tperf_size_check(error, "experts", shape->experts));
    TPERF_TRY(tperf_size_check(error, "chunks", shape->chunks));
    TPERF_TRY(tperf_size_check(error, "taps", shape->taps));
    TPERF_TRY(tperf_size_check(error, "positions", shape->positions));
    TPERF_TRY(tperf_size_check(error, "groups", shape->groups));
    TPERF_TRY(tperf_size_check(error, "output_shard", shape->scattered));
    if (shape->sparse && shape->n_in % 4 != 0)
        return tperf_error_set(error, TPERF_INVALID,
                               "'sparse' takes 2 of 4 weights along n_in = %lld, which 4 does not "
                               "divide",
                               (long long)shape->n_in);
    if (shape->active >= 0 && shape->active <= (double)shape->experts) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID,
                           "'active' must be from 0 to the %lld experts, got %g",
                           (long long)shape->experts, shape->active);
}

static void carries(tperf_pass *pass, int from, tperf_carried what) {
    for (int i = from; i < pass->n_comms; i++)
        pass->comms[i].carries = what;
}

// Chunks the pass's last collective, if it is of this kind.
static void chunk(tperf_pass *pass, tperf_collective kind, const tperf_linear *shape,
                  tperf_chunking chunking) {
    tperf_comm *comm = pass->n_comms ? &pass->comms[pass->n_comms - 1] : NULL;
    if (shape->chunks <= 1 || !comm || comm->kind != kind) return;
    comm->chunking = chunking;
    comm->beside_chunks = true;
    pass->chunks = chunking == TPERF_RING ? shape->chunks : TPERF_PIPELINE_CHUNKS;
}

// The collectives of the backward pass's products; those of X and its gradient overlap them if asked to.
static void communicate_backward(tperf_op *op, const tperf_linear *shape, double input,
                                 double output) {
    tperf_pass_communicate(&op->backward, TPERF_ALL_GATHER, shape->output_grad_axis, output);
    carries(&op->backward, 0, TPERF_CARRIES_OUTPUT_GRAD);
    if (shape->pipelined) chunk(&op->backward, TPERF_ALL_GATHER, shape, TPERF_RING);
    int from = op->backward.n_comms;
    tperf_pass_communicate_own(&op->backward, TPERF_ALL_GATHER, shape->gather_axis, input);
    carries(&op->backward, from, TPERF_CARRIES_INPUT);
    tperf_pass_communicate(&op->backward, TPERF_REDUCE_SCATTER, shape->grad_axis, input);
    tperf_pass_communicate(&op->backward, TPERF_ALL_REDUCE, shape->grad_sum_axis, input);
    for (int i = from; i < op->backward.n_comms; i++) {
        op->backward.comms[i].beside = shape->overlap;
        if (shape->overlap && shape->chunks > 1 && shape->pipelined)
            op->backward.comms[i].beside_chunks = true;
    }
}

static void communicate_linear(tperf_op *op, const tperf_linear *shape, double weights,
                               double biases) {
    double element = tperf_dtype_bytes(op->dtype);
    double input = element * (double)shape->tokens * (double)shape->n_in;
    double output = element * (double)shape->tokens * (double)shape->n_out;
    tperf_pass_communicate(&op->forward, TPERF_ALL_GATHER, shape->gather_axis, input);
    carries(&op->forward, 0, TPERF_CARRIES_INPUT);
    chunk(&op->forward, TPERF_ALL_GATHER, shape, TPERF_RING);
    tperf_pass_communicate(&op->forward, TPERF_REDUCE_SCATTER, shape->reduce_axis, output);
    chunk(&op->forward, TPERF_REDUCE_SCATTER, shape,
          shape->pipelined ? TPERF_PIPELINE : TPERF_RING);
    tperf_pass_communicate(&op->forward, TPERF_ALL_REDUCE, shape->sum_axis, output);
    communicate_backward(op, shape, input, output);
    tperf_pass_communicate_own(&op->backward, TPERF_ALL_REDUCE, shape->parameter_axis,
                               element * (weights + biases));
    if (!shape->parameter_axis)
        tperf_pass_communicate_own(&op->backward, TPERF_ALL_REDUCE, shape->bias_axis,
                                   element * biases);
}

// The greatest power of 2 that divides both sizes, but no more than 16.
static double common_step(double n_in, double n_out) {
    double step = 16;
    while (fmod(n_in, step) != 0 || fmod(n_out, step) != 0)
        step /= 2;
    return step;
}

// Elements of X, of which a convolution's rows repeat most.
static double numbers_of_input(const tperf_linear *shape) {
    double rows = (double)shape->tokens, features = (double)shape->n_in;
    if (shape->taps <= 1) return rows * features;
    if (shape->positions > 0) rows = (double)shape->positions;
    return rows * features / (double)shape->taps;
}

// Products side by side.
static double products_of(const tperf_linear *shape) {
    if (shape->experts > 0) return (double)shape->experts;
    return shape->groups > 0 ? (double)shape->groups : 1;
}

tperf_status tperf_op_linear(tperf_op *op, const tperf_linear *shape, tperf_error *error) {
    TPERF_TRY(check_linear(shape, error));
    double N = (double)shape->tokens, I = (double)shape->n_in, O = (double)shape->n_out;
    double products = products_of(shape);
    double used = shape->active > 0 ? shape->active : products;
    double biases = shape->bias ? products * O : 0, kept = shape->shard ? (double)shape->shard : N;
    double element = tperf_dtype_bytes(op->dtype);
    double X = numbers_of_input(shape), X_kept = shape->taps > 1 ? X : kept * I;
    double weight = shape->weight_element > 0 ? shape->weight_element : element;
    double depth = shape->sparse ? I / 2 : I;
    weight = tperf_stored_weight(shape->sparse, weight);
    op->sparse = shape->sparse;
    op->forward.tensor_flops = N * O * (2 * depth - 1);
    op->backward.tensor_flops = N * I * (2 * O - 1) + I * O * (2 * N - used); // dX, then dW
    tperf_pass_kernel(&op->forward, TPERF_KERNEL_GEMM, used, N / used, O, depth);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_GEMM, used, N / used, I, O);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_GEMM, used, I, O, N / used);
    op->forward.kernels[0].second = shape->sparse ? 2 * weight : weight; // of a weight that is kept
    op->backward.kernels[0].second = weight;
    op->forward.kernels[0].grouped = products > 1;
    op->forward.kernels[0].aligned = op->backward.kernels[0].aligned =
        op->backward.kernels[1].aligned = common_step(I, O);
    op->forward.vector_flops = op->backward.vector_flops = shape->bias ? N * O : 0;
    op->forward.bytes = element * (X + N * O) + weight * used * I * O + weight * biases;
    op->backward.bytes =
        element * (2 * X + 2 * N * O) + 2 * weight * used * I * O + weight * biases;
    double parameters = products * I * O + biases;
    op->weights_read = weight * (used * I * O + biases);
    tperf_op_hold(op, shape->weights_elsewhere ? 0 : parameters, weight);
    op->borrowed = shape->weights_elsewhere ? parameters : 0;
    op->saved_bytes = op->input_bytes = shape->input_kept_elsewhere ? 0 : element * X_kept;
    op->own = (tperf_own_gradients){
        .n_kernels = 1,
        .tensor_flops = I * O * (2 * N - used),
        .vector_flops = op->backward.vector_flops,
        .bytes = element * (X + N * O) + weight * used * I * O + weight * biases,
        .saved_bytes = op->saved_bytes,
    };
    op->product = (tperf_product){
        .rows =
            shape->taps > 1 ? 0 : N, // a convolution is no product that another precision narrows
        .n_in = I,
        .n_out = O,
        .used = used,
        .kept = kept,
        .scattered = shape->scattered ? (double)shape->scattered : N,
    };
    op->expert = shape->experts > 0;
    op->tied = shape->tied;
    communicate_linear(op, shape, products * I * O, biases);
    return TPERF_OK;
}

// The kernels of a product's panels: the forward pass adds up over the input's features, dX and dW are made by panels.
static void shape_panels(tperf_op *op, double N, double I, double O) {
    tperf_pass_kernel(&op->forward, TPERF_KERNEL_GEMM, 1, N, O, I);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_GEMM, 1, N, I, O);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_GEMM, 1, I, O, N);
    op->backward.kernels[0].cut = TPERF_CUT_N;
    op->backward.kernels[1].cut = TPERF_CUT_M;
    op->forward.kernels[0].aligned = op->backward.kernels[0].aligned =
        op->backward.kernels[1].aligned = common_step(I, O);
    op->own.n_kernels = 1;
}

tperf_status tperf_op_summa(tperf_op *op, const tperf_summa *shape, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "tokens", shape->tokens));
    TPERF_TRY(tperf_size_check(error, "n_in", shape->n_in));
    TPERF_TRY(tperf_size_check(error, "n_out", shape->n_out));
    TPERF_TRY(tperf_size_check(error, "n_in_columns", shape->n_in_columns));
    TPERF_TRY(tperf_size_check(error, "n_in_rows", shape->n_in_rows));
    double N = (double)shape->tokens, I = (double)shape->n_in, O = (double)shape->n_out;
    double element = tperf_dtype_bytes(op->dtype);
    double X = element * N * I, W = element * I * O; // total bytes that travel
    op->panels = true;
    // The published count adds each panel's first product to an accumulator of zeros, too.
    op->forward.tensor_flops = N * O * (shape->shaped ? 2 * I - 1 : 2 * I);
    op->backward.tensor_flops = N * I * (2 * O - 1) + I * O * (2 * N - 1);
    op->forward.bytes = X + W;
    op->backward.bytes = 2 * (X + W);
    op->forward.bytes_per_panel =
        element * N * O; // the accumulator is read and written once per panel
    op->backward.bytes_per_panel = 2 * element * N * O;
    double biases = shape->bias ? O : 0;
    op->forward.vector_flops = op->backward.vector_flops = N * biases;
    op->own.tensor_flops = I * O * (2 * N - 1);
    op->own.bytes = X + W;
    if (shape->shaped) shape_panels(op, N, I, O);
    tperf_op_hold(op, (double)shape->n_in_rows * O + biases, element);
    op->saved_bytes = op->input_bytes =
        shape->input_kept_elsewhere ? 0 : element * N * (double)shape->n_in_columns;
    op->tied = shape->tied;
    tperf_pass_communicate(&op->forward, TPERF_BROADCAST, shape->columns_axis, X);
    tperf_pass_communicate(&op->forward, TPERF_BROADCAST, shape->rows_axis, W);
    tperf_pass_communicate(&op->backward, TPERF_BROADCAST, shape->rows_axis, W);
    tperf_pass_communicate(&op->backward, TPERF_REDUCE, shape->columns_axis, X);
    tperf_pass_communicate(&op->backward, TPERF_BROADCAST, shape->columns_axis, X);
    tperf_pass_communicate(&op->backward, TPERF_REDUCE, shape->rows_axis, W);
    tperf_pass_communicate_own(&op->backward, TPERF_ALL_REDUCE, shape->bias_axis, element * biases);
    return TPERF_OK;
}
