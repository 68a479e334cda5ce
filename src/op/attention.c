// attention.c: the two attention products, plain, fused ("flash") and by SUMMA.
// docs/model.md sections 1.5 and 1.6. Letters: H heads x micro-batch, r local query rows, k keys,
// d head size. Uncut attention is the case r = k without a gather.
#include "op/counts.h"

static tperf_status check_attention(const tperf_attention *shape, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "batch", shape->batch));
    TPERF_TRY(tperf_size_check(error, "heads", shape->heads));
    TPERF_TRY(tperf_size_check(error, "queries", shape->queries));
    TPERF_TRY(tperf_size_check(error, "keys", shape->keys));
    TPERF_TRY(tperf_size_check(error, "kv_heads", shape->kv_heads));
    return tperf_size_check(error, "head_dim", shape->head_dim);
}

// Gathers keys, values or both (tensors = 1 or 2) for both passes, and reduce-scatters their gradients.
static void gather_keys(tperf_op *op, const tperf_attention *shape, double tensors) {
    double heads = (double)(shape->kv_heads ? shape->kv_heads : shape->heads);
    double bytes = tensors * tperf_dtype_bytes(op->dtype) * (double)shape->batch * heads *
                   (double)shape->keys * (double)shape->head_dim;
    tperf_pass_communicate(&op->forward, TPERF_ALL_GATHER, shape->gather_axis, bytes);
    tperf_pass_communicate(&op->backward, TPERF_ALL_GATHER, shape->gather_axis, bytes);
    tperf_pass_communicate(&op->backward, TPERF_REDUCE_SCATTER, shape->gather_axis, bytes);
}

// In decoding, the products read the cache: scores its keys, attend its values.
static void keep_keys(tperf_op *op, const tperf_attention *shape) {
    double heads = (double)(shape->kv_heads ? shape->kv_heads : shape->heads);
    op->kept.keys = (double)shape->keys;
    op->kept.key_bytes =
        tperf_dtype_bytes(op->dtype) * (double)shape->batch * heads * (double)shape->head_dim;
}

tperf_status tperf_op_scores(tperf_op *op, const tperf_attention *shape, tperf_error *error) {
    TPERF_TRY(check_attention(shape, error));
    double H = (double)shape->batch * (double)shape->heads, r = (double)shape->queries,
           k = (double)shape->keys;
    double d = (double)shape->head_dim, element = tperf_dtype_bytes(op->dtype);
    double reread = shape->grad_reads_gathered ? k - r : 0;
    op->forward.tensor_flops = H * r * k * (2 * d - 1);
    op->backward.tensor_flops = H * r * d * (2 * k - 1) + H * k * d * (2 * r - 1);
    op->forward.bytes = element * H * (r * d + k * d + r * k);
    op->backward.bytes = element * H * (3 * r * d + k * d + 2 * r * k + reread * d);
    tperf_pass_kernel(&op->forward, TPERF_KERNEL_GEMM, H, r, k, d);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_GEMM, H, r, d, k);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_GEMM, H, k, d, r);
    op->saved_bytes = op->input_bytes = 2 * element * H * r * d;
    op->recomputed = shape->recomputed;
    keep_keys(op, shape);
    gather_keys(op, shape, 1);
    return TPERF_OK;
}

tperf_status tperf_op_attend(tperf_op *op, const tperf_attention *shape, tperf_error *error) {
    TPERF_TRY(check_attention(shape, error));
    double H = (double)shape->batch * (double)shape->heads, r = (double)shape->queries,
           k = (double)shape->keys;
    double d = (double)shape->head_dim, element = tperf_dtype_bytes(op->dtype);
    double reread = shape->grad_reads_gathered ? k - r : 0;
    op->forward.tensor_flops = H * r * d * (2 * k - 1);
    op->backward.tensor_flops = H * r * k * (2 * d - 1) + H * k * d * (2 * r - 1);
    op->forward.bytes = element * H * (r * k + k * d + r * d);
    op->backward.bytes = element * H * (3 * r * d + 2 * r * k + k * d + reread * d);
    tperf_pass_kernel(&op->forward, TPERF_KERNEL_GEMM, H, r, d, k);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_GEMM, H, r, k, d);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_GEMM, H, k, d, r);
    op->saved_bytes = element * H * ((shape->keep_scores ? r * k : 0) + r * d);
    op->input_bytes = element * H * r * d;
    keep_keys(op, shape);
    gather_keys(op, shape, 1);
    return TPERF_OK;
}

tperf_status tperf_op_flash_attention(tperf_op *op, const tperf_attention *shape,
                                      tperf_error *error) {
    TPERF_TRY(check_attention(shape, error));
    op->attention = true;
    double H = (double)shape->batch * (double)shape->heads, r = (double)shape->queries,
           k = (double)shape->keys;
    double d = (double)shape->head_dim, element = tperf_dtype_bytes(op->dtype);
    double reread = shape->grad_reads_gathered ? 2 * (k - r) : 0;
    double scores = r * k * (2 * d - 1), attend = r * d * (2 * k - 1);
    op->forward.tensor_flops = H * (scores + attend);
    op->forward.vector_flops = H * r * (4 * k - 1); // softmax 3k - 1 and dropout k per row
    // dQ; dK and dV; scores again and their gradient
    op->backward.tensor_flops = H * (attend + 2 * k * d * (2 * r - 1) + 2 * scores);
    // softmax's gradient 4k - 1, dropout k, and both forward again 3k - 1 + k, per row
    op->backward.vector_flops = H * r * (9 * k - 2);
    op->forward.bytes = element * H * (2 * r * d + 2 * k * d + r);
    op->backward.bytes = element * H * (2 * k * d + 6 * r * d + 2 * r + reread * d);
    tperf_pass_kernel(&op->forward, TPERF_KERNEL_ATTENTION, H, r, k, d);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_ATTENTION, H, r, k, d);
    op->saved_bytes = element * H * (4 * r * d + 2 * r); // Q K V O; softmax and dropout state
    gather_keys(op, shape, 2);
    return TPERF_OK;
}

// The letters of the two SUMMA products: s keys, s2 and s1 their cuts by rows and columns.
typedef struct summa_letters {
    double H, s, s2, s1, d1, element;
} summa_letters;

static tperf_status read_summa(const tperf_summa_attention *shape, const tperf_op *op,
                               summa_letters *l, tperf_error *error) {
    TPERF_TRY(tperf_size_check(error, "batch", shape->batch));
    TPERF_TRY(tperf_size_check(error, "heads", shape->heads));
    TPERF_TRY(tperf_size_check(error, "queries", shape->queries));
    TPERF_TRY(tperf_size_check(error, "queries_rows", shape->queries_rows));
    TPERF_TRY(tperf_size_check(error, "queries_columns", shape->queries_columns));
    TPERF_TRY(tperf_size_check(error, "head_dim_columns", shape->head_dim_columns));
    *l = (summa_letters){(double)shape->batch * (double)shape->heads,
                         (double)shape->queries,
                         (double)shape->queries_rows,
                         (double)shape->queries_columns,
                         (double)shape->head_dim_columns,
                         tperf_dtype_bytes(op->dtype)};
    return TPERF_OK;
}

static void count_summa_traffic(tperf_op *op, summa_letters l) {
    op->panels = true;
    op->forward.bytes = l.element * l.H * (l.s * l.d1 + l.s2 * l.s);
    op->backward.bytes = 2 * op->forward.bytes;
    op->forward.bytes_per_panel = l.element * l.H * l.s2 * l.d1;
    op->backward.bytes_per_panel = 2 * op->forward.bytes_per_panel;
}

// Adds one of the two products of queries by keys to a pass: the scores, or a sum over keys. Panels divide the keys.
static void add_product(tperf_pass *pass, summa_letters l, bool scores) {
    int added = pass->n_kernels;
    if (scores)
        tperf_pass_kernel(pass, TPERF_KERNEL_GEMM, l.H, l.s2, l.s, l.d1);
    else
        tperf_pass_kernel(pass, TPERF_KERNEL_GEMM, l.H, l.s2, l.d1, l.s);
    pass->kernels[added].cut = scores ? TPERF_CUT_N : TPERF_CUT_K;
}

static void shape_panels(tperf_op *op, summa_letters l, bool scores) {
    add_product(&op->forward, l, scores);
    add_product(&op->backward, l, !scores);
    tperf_pass_kernel(&op->backward, TPERF_KERNEL_GEMM, l.H, l.s, l.d1, l.s2);
    op->backward.kernels[1].cut = TPERF_CUT_M;
}

tperf_status tperf_op_summa_scores(tperf_op *op, const tperf_summa_attention *shape,
                                   tperf_error *error) {
    summa_letters l;
    TPERF_TRY(read_summa(shape, op, &l, error));
    double heads = l.element * l.H * l.s * l.d1, scores = l.element * l.H * l.s2 * l.s;
    op->forward.tensor_flops = l.H * l.s2 * l.s * (2 * l.d1 - 1);
    op->backward.tensor_flops =
        l.H * l.s2 * l.d1 * (2 * l.s - 1) + l.H * l.s * l.d1 * (2 * l.s2 - 1);
    count_summa_traffic(op, l);
    if (shape->shaped) shape_panels(op, l, true);
    op->saved_bytes = 2 * l.element * l.H * l.s2 * l.d1;
    tperf_pass_communicate(&op->forward, TPERF_BROADCAST, shape->rows_axis, heads);
    tperf_pass_communicate(&op->forward, TPERF_REDUCE, shape->columns_axis, scores);
    tperf_pass_communicate(&op->backward, TPERF_BROADCAST, shape->columns_axis, scores);
    tperf_pass_communicate(&op->backward, TPERF_BROADCAST, shape->rows_axis, heads);
    tperf_pass_communicate(&op->backward, TPERF_BROADCAST, shape->columns_axis, scores);
    tperf_pass_communicate(&op->backward, TPERF_REDUCE, shape->rows_axis, heads);
    return TPERF_OK;
}

tperf_status tperf_op_summa_attend(tperf_op *op, const tperf_summa_attention *shape,
                                   tperf_error *error) {
    summa_letters l;
    TPERF_TRY(read_summa(shape, op, &l, error));
    double heads = l.element * l.H * l.s * l.d1, scores = l.element * l.H * l.s2 * l.s;
    // Unlike the scores it accumulates; the published count adds to zeros, too.
    op->forward.tensor_flops = l.H * l.s2 * l.d1 * (shape->shaped ? 2 * l.s - 1 : 2 * l.s);
    op->backward.tensor_flops =
        l.H * l.s2 * l.s * (2 * l.d1 - 1) + l.H * l.s * l.d1 * (2 * l.s2 - 1);
    count_summa_traffic(op, l);
    if (shape->shaped) shape_panels(op, l, false);
    op->saved_bytes = l.element * l.H * ((shape->keep_scores ? l.s2 * l.s1 : 0) + l.s2 * l.d1);
    tperf_pass_communicate(&op->forward, TPERF_BROADCAST, shape->columns_axis, scores);
    tperf_pass_communicate(&op->forward, TPERF_BROADCAST, shape->rows_axis, heads);
    tperf_pass_communicate(&op->backward, TPERF_BROADCAST, shape->rows_axis, heads);
    tperf_pass_communicate(&op->backward, TPERF_REDUCE, shape->columns_axis, scores);
    tperf_pass_communicate(&op->backward, TPERF_BROADCAST, shape->columns_axis, scores);
    tperf_pass_communicate(&op->backward, TPERF_REDUCE, shape->rows_axis, heads);
    return TPERF_OK;
}
