// vocabulary.c: the two ends of a language model, cut along its vocabulary: embedding and cross-entropy. Letters: N
// tokens, h width, V rows of the vocabulary on this GPU.
#include "op/counts.h"

enum { FP32_BYTES = 4 };

tperf_status tperf_op_embedding(tperf_op *op, const tperf_embedding *shape, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "tokens", shape->tokens));
    TPERF_TRY(tperf_size_check(error, "rows", shape->rows));
    TPERF_TRY(tperf_size_check(error, "width", shape->width));
    double N = (double)shape->tokens, h = (double)shape->width, V = (double)shape->rows;
    double element = tperf_dtype_bytes(op->dtype);
    double weight = shape->weight_element > 0 ? shape->weight_element : element;
    op->backward.vector_flops = N * h;                    // rows are added up
    op->forward.bytes = weight * N * h + element * N * h; // look up, write
    op->backward.bytes = element * N * h + 2 * weight * N * h;
    tperf_op_hold(op, V * h, weight); // kept token ids, 8 bytes per h elements, are negligible
    op->tied = shape->tied;
    op->weights_read = weight * N * h;
    op->table_rows = V;
    op->own = (tperf_own_gradients){.vector_flops = op->backward.vector_flops,
                                    .bytes = op->backward.bytes};
    tperf_pass_communicate(&op->forward, TPERF_REDUCE_SCATTER, shape->reduce_axis, element * N * h);
    tperf_pass_communicate_own(&op->backward, TPERF_ALL_GATHER, shape->reduce_axis,
                               element * N * h);
    tperf_pass_communicate(&op->forward, TPERF_ALL_REDUCE, shape->sum_axis, element * N * h);
    return TPERF_OK;
}

tperf_status tperf_op_cross_entropy(tperf_op *op, const tperf_cross_entropy *shape,
                                    tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "tokens", shape->tokens));
    TPERF_TRY(tperf_size_check(error, "vocab", shape->vocab));
    double N = (double)shape->tokens, V = (double)shape->vocab;
    double element = tperf_dtype_bytes(op->dtype);
    op->forward.vector_flops = 4 * N * V;
    op->backward.vector_flops = 2 * N * V;
    op->forward.bytes = (element + FP32_BYTES) * N * V;
    op->backward.bytes = (element + FP32_BYTES) * N * V;
    op->saved_bytes = FP32_BYTES * N * V;
    for (int i = 0; i < 3; i++) // row maxima, targets' logits, sums of exponentials
        tperf_pass_communicate(&op->forward, TPERF_ALL_REDUCE, shape->axis, FP32_BYTES * N);
    return TPERF_OK;
}
