// attention.c: the two attention products, plain, fused ("flash") and by SUMMA.
// docs/model.md sections 1.5 and 1.6. Letters: H heads x micro-batch, r local query rows, k keys,
// d head size. Uncut attention is the case r = k without a gather.
#include "op/counts.h"

static tp_status check_attention(const tp_attention *shape, tp_error *error) {
    TP_TRY(tp_size_check(error, "batch", shape->batch));
    TP_TRY(tp_size_check(error, "heads", shape->heads));
    TP_TRY(tp_size_check(error, "queries", shape->queries));
    TP_TRY(tp_size_check(error, "keys", shape->keys));
    TP_TRY(tp_size_check(error, "kv_heads", shape->kv_heads));
    return tp_size_check(error, "head_dim", shape->head_dim);
}

// Keys, values or both (tensors = 1 or 2), gathered for both passes, their gradients scattered.
static void gather_keys(tp_op *op, const tp_attention *shape, double tensors) {
    double heads = (double)(shape->kv_heads ? shape->kv_heads : shape->heads);
    double bytes = tensors * tp_dtype_bytes(op->dtype) * (double)shape->batch * heads *
                   (double)shape->keys * (double)shape->head_dim;
    tp_pass_communicate(&op->forward, TP_ALL_GATHER, shape->gather_axis, bytes);
    tp_pass_communicate(&op->backward, TP_ALL_GATHER, shape->gather_axis, bytes);
    tp_pass_communicate(&op->backward, TP_REDUCE_SCATTER, shape->gather_axis, bytes);
}

tp_status tp_op_scores(tp_op *op, const tp_attention *shape, tp_error *error) {
    TP_TRY(check_attention(shape, error));
    op->attention = true;
    double H = (double)shape->batch * (double)shape->heads, r = (double)shape->queries,
           k = (double)shape->keys;
    double d = (double)shape->head_dim, element = tp_dtype_bytes(op->dtype);
    double reread = shape->grad_reads_gathered ? k - r : 0;
    op->forward.tensor_flops = H * r * k * (2 * d - 1);
    op->backward.tensor_flops = H * r * d * (2 * k - 1) + H * k * d * (2 * r - 1);
    op->forward.bytes = element * H * (r * d + k * d + r * k);
    op->backward.bytes = element * H * (3 * r * d + k * d + 2 * r * k + reread * d);
    tp_pass_kernel(&op->forward, TP_KERNEL_GEMM, H, r, k, d);
    tp_pass_kernel(&op->backward, TP_KERNEL_GEMM, H, r, d, k);
    tp_pass_kernel(&op->backward, TP_KERNEL_GEMM, H, k, d, r);
    op->saved_bytes = op->input_bytes = 2 * element * H * r * d;
    op->recomputed = shape->recomputed;
    gather_keys(op, shape, 1);
    return TP_OK;
}

tp_status tp_op_attend(tp_op *op, const tp_attention *shape, tp_error *error) {
    TP_TRY(check_attention(shape, error));
    op->attention = true;
    double H = (double)shape->batch * (double)shape->heads, r = (double)shape->queries,
           k = (double)shape->keys;
    double d = (double)shape->head_dim, element = tp_dtype_bytes(op->dtype);
    op->forward.tensor_flops = H * r * d * (2 * k - 1);
    op->backward.tensor_flops = H * r * k * (2 * d - 1) + H * k * d * (2 * r - 1);
    op->forward.bytes = element * H * (r * k + k * d + r * d);
    op->backward.bytes = element * H * (3 * r * d + 2 * r * k + k * d);
    tp_pass_kernel(&op->forward, TP_KERNEL_GEMM, H, r, d, k);
    tp_pass_kernel(&op->backward, TP_KERNEL_GEMM, H, r, k, d);
    tp_pass_kernel(&op->backward, TP_KERNEL_GEMM, H, k, d, r);
    op->saved_bytes = element * H * ((shape->keep_scores ? r * k : 0) + r * d);
    op->input_bytes = element * H * r * d;
    gather_keys(op, shape, 1);
    return TP_OK;
}

tp_status tp_op_flash_attention(tp_op *op, const tp_attention *shape, tp_error *error) {
    TP_TRY(check_attention(shape, error));
    op->attention = true;
    double H = (double)shape->batch * (double)shape->heads, r = (double)shape->queries,
           k = (double)shape->keys;
    double d = (double)shape->head_dim, element = tp_dtype_bytes(op->dtype);
    double reread = shape->grad_reads_gathered ? 2 * (k - r) : 0;
    double scores = r * k * (2 * d - 1), attend = r * d * (2 * k - 1);
    op->forward.tensor_flops = H * (scores + attend);
    op->forward.vector_flops = H * r * (4 * k - 1); // softmax 3k - 1, dropout k, a row
    // dQ; dK and dV; scores again and the scores' gradient
    op->backward.tensor_flops = H * (attend + 2 * k * d * (2 * r - 1) + 2 * scores);
    // softmax's gradient 4k - 1, dropout k, and both again forward 3k - 1 + k, a row
    op->backward.vector_flops = H * r * (9 * k - 2);
    op->forward.bytes = element * H * (2 * r * d + 2 * k * d + r);
    op->backward.bytes = element * H * (2 * k * d + 6 * r * d + 2 * r + reread * d);
    tp_pass_kernel(&op->forward, TP_KERNEL_ATTENTION, H, r, k, d);
    tp_pass_kernel(&op->backward, TP_KERNEL_ATTENTION, H, r, k, d);
    op->saved_bytes = element * H * (4 * r * d + 2 * r); // Q K V O; softmax and dropout state
    gather_keys(op, shape, 2);
    return TP_OK;
}

// The letters of the two SUMMA products: s keys, s2 and s1 their cuts by rows and columns.
typedef struct summa_letters {
    double H, s, s2, s1, d1, element;
} summa_letters;

static tp_status read_summa(const tp_summa_attention *shape, const tp_op *op, summa_letters *l,
                            tp_error *error) {
    TP_TRY(tp_size_check(error, "batch", shape->batch));
    TP_TRY(tp_size_check(error, "heads", shape->heads));
    TP_TRY(tp_size_check(error, "queries", shape->queries));
    TP_TRY(tp_size_check(error, "queries_rows", shape->queries_rows));
    TP_TRY(tp_size_check(error, "queries_columns", shape->queries_columns));
    TP_TRY(tp_size_check(error, "head_dim_columns", shape->head_dim_columns));
    *l = (summa_letters){(double)shape->batch * (double)shape->heads,
                         (double)shape->queries,
                         (double)shape->queries_rows,
                         (double)shape->queries_columns,
                         (double)shape->head_dim_columns,
                         tp_dtype_bytes(op->dtype)};
    return TP_OK;
}

static void count_summa_traffic(tp_op *op, summa_letters l) {
    op->panels = true;
    op->forward.bytes = l.element * l.H * (l.s * l.d1 + l.s2 * l.s);
    op->backward.bytes = 2 * op->forward.bytes;
    op->forward.bytes_per_panel = l.element * l.H * l.s2 * l.d1;
    op->backward.bytes_per_panel = 2 * op->forward.bytes_per_panel;
}

tp_status tp_op_summa_scores(tp_op *op, const tp_summa_attention *shape, tp_error *error) {
    summa_letters l;
    TP_TRY(read_summa(shape, op, &l, error));
    op->attention = true;
    double heads = l.element * l.H * l.s * l.d1, scores = l.element * l.H * l.s2 * l.s;
    op->forward.tensor_flops = l.H * l.s2 * l.s * (2 * l.d1 - 1);
    op->backward.tensor_flops =
        l.H * l.s2 * l.d1 * (2 * l.s - 1) + l.H * l.s * l.d1 * (2 * l.s2 - 1);
    count_summa_traffic(op, l);
    op->saved_bytes = 2 * l.element * l.H * l.s2 * l.d1;
    tp_pass_communicate(&op->forward, TP_BROADCAST, shape->rows_axis, heads);
    tp_pass_communicate(&op->forward, TP_REDUCE, shape->columns_axis, scores);
    tp_pass_communicate(&op->backward, TP_BROADCAST, shape->columns_axis, scores);
    tp_pass_communicate(&op->backward, TP_BROADCAST, shape->rows_axis, heads);
    tp_pass_communicate(&op->backward, TP_BROADCAST, shape->columns_axis, scores);
    tp_pass_communicate(&op->backward, TP_REDUCE, shape->rows_axis, heads);
    return TP_OK;
}

tp_status tp_op_summa_attend(tp_op *op, const tp_summa_attention *shape, tp_error *error) {
    summa_letters l;
    TP_TRY(read_summa(shape, op, &l, error));
    op->attention = true;
    double heads = l.element * l.H * l.s * l.d1, scores = l.element * l.H * l.s2 * l.s;
    op->forward.tensor_flops = 2 * l.H * l.s2 * l.d1 * l.s; // accumulates, unlike the scores
    op->backward.tensor_flops =
        l.H * l.s2 * l.s * (2 * l.d1 - 1) + l.H * l.s * l.d1 * (2 * l.s2 - 1);
    count_summa_traffic(op, l);
    op->saved_bytes = l.element * l.H * ((shape->keep_scores ? l.s2 * l.s1 : 0) + l.s2 * l.d1);
    tp_pass_communicate(&op->forward, TP_BROADCAST, shape->columns_axis, scores);
    tp_pass_communicate(&op->forward, TP_BROADCAST, shape->rows_axis, heads);
    tp_pass_communicate(&op->backward, TP_BROADCAST, shape->rows_axis, heads);
    tp_pass_communicate(&op->backward, TP_REDUCE, shape->columns_axis, scores);
    tp_pass_communicate(&op->backward, TP_BROADCAST, shape->columns_axis, scores);
    tp_pass_communicate(&op->backward, TP_REDUCE, shape->rows_axis, heads);
    return TP_OK;
}
