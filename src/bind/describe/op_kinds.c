// op_kinds.c: what each constructor of ops reads. tperf.op documents them.
#include "bind/describe/op_kinds.h"

#include <stddef.h>

#define INTEGER(field, member)                                                                     \
    { field, TPERF_FIELD_INTEGER, offsetof(tperf_op_arguments, member), true }
#define OPTIONAL(field, kind, member)                                                              \
    { field, TPERF_FIELD_##kind, offsetof(tperf_op_arguments, member), false }
#define NUMBER(field, member)                                                                      \
    { field, TPERF_FIELD_NUMBER, offsetof(tperf_op_arguments, member), true }
#define COMMON OPTIONAL("name", TEXT, name), OPTIONAL("dtype", TEXT, dtype)

#define LINEAR                                                                                     \
    COMMON, INTEGER("tokens", linear.tokens), INTEGER("n_in", linear.n_in),                        \
        INTEGER("n_out", linear.n_out), OPTIONAL("shard", INTEGER, linear.shard),                  \
        OPTIONAL("bias", FLAG, linear.bias), OPTIONAL("overlap", FLAG, linear.overlap),            \
        OPTIONAL("chunks", INTEGER, linear.chunks), OPTIONAL("pipelined", FLAG, linear.pipelined), \
        OPTIONAL("input_kept_elsewhere", FLAG, linear.input_kept_elsewhere),                       \
        OPTIONAL("weight_dtype", TEXT, weight_dtype),                                              \
        OPTIONAL("matrix_dtype", TEXT, matrix_dtype),                                              \
        OPTIONAL("gather", TEXT, linear.gather_axis),                                              \
        OPTIONAL("reduce_scatter", TEXT, linear.reduce_axis),                                      \
        OPTIONAL("all_reduce", TEXT, linear.sum_axis),                                             \
        OPTIONAL("input_grad", TEXT, linear.grad_axis),                                            \
        OPTIONAL("input_grad_all_reduce", TEXT, linear.grad_sum_axis),                             \
        OPTIONAL("output_grad", TEXT, linear.output_grad_axis),                                    \
        OPTIONAL("output_shard", INTEGER, linear.scattered),                                       \
        OPTIONAL("parameter_grad", TEXT, linear.parameter_axis)

static const tperf_field linear_fields[] = {
    LINEAR,
    OPTIONAL("bias_grad", TEXT, linear.bias_axis),
    OPTIONAL("tied", FLAG, linear.tied),
    OPTIONAL("weights_elsewhere", FLAG, linear.weights_elsewhere),
    {0},
};
static const tperf_field grouped_linear_fields[] = {
    LINEAR,
    OPTIONAL("bias_grad", TEXT, linear.bias_axis),
    INTEGER("experts", linear.experts),
    OPTIONAL("active", NUMBER, linear.active),
    {0},
};
static tperf_status count_linear(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    tperf_linear shape = a->linear;
    shape.weight_element = a->weight_element;
    return tperf_op_linear(op, &shape, error);
}

static const tperf_field summa_fields[] = {
    COMMON,
    INTEGER("tokens", summa.tokens),
    INTEGER("n_in", summa.n_in),
    INTEGER("n_out", summa.n_out),
    INTEGER("n_in_columns", summa.n_in_columns),
    INTEGER("n_in_rows", summa.n_in_rows),
    OPTIONAL("bias", FLAG, summa.bias),
    OPTIONAL("bias_grad", TEXT, summa.bias_axis),
    OPTIONAL("input_kept_elsewhere", FLAG, summa.input_kept_elsewhere),
    OPTIONAL("tied", FLAG, summa.tied),
    OPTIONAL("columns", TEXT, summa.columns_axis),
    OPTIONAL("rows", TEXT, summa.rows_axis),
    {0},
};
static tperf_status count_summa(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_summa(op, &a->summa, error);
}

static const tperf_field summa_attention_fields[] = {
    COMMON,
    INTEGER("batch", summa_attention.batch),
    INTEGER("heads", summa_attention.heads),
    INTEGER("queries", summa_attention.queries),
    INTEGER("queries_rows", summa_attention.queries_rows),
    INTEGER("queries_columns", summa_attention.queries_columns),
    INTEGER("head_dim_columns", summa_attention.head_dim_columns),
    OPTIONAL("keep_scores", FLAG, summa_attention.keep_scores),
    OPTIONAL("columns", TEXT, summa_attention.columns_axis),
    OPTIONAL("rows", TEXT, summa_attention.rows_axis),
    {0},
};
static tperf_status count_summa_scores(tperf_op *op, const tperf_op_arguments *a,
                                       tperf_error *error) {
    return tperf_op_summa_scores(op, &a->summa_attention, error);
}
static tperf_status count_summa_attend(tperf_op *op, const tperf_op_arguments *a,
                                       tperf_error *error) {
    return tperf_op_summa_attend(op, &a->summa_attention, error);
}

static const tperf_field elementwise_fields[] = {
    COMMON,
    NUMBER("elements", elementwise.elements),
    OPTIONAL("parameters", INTEGER, elementwise.parameters),
    NUMBER("forward_flops", elementwise.forward_flops),
    NUMBER("backward_flops", elementwise.backward_flops),
    NUMBER("forward_bytes", elementwise.forward_bytes),
    NUMBER("backward_bytes", elementwise.backward_bytes),
    OPTIONAL("saved_bytes", NUMBER, elementwise.saved_bytes),
    OPTIONAL("input_bytes", NUMBER, elementwise.input_bytes),
    OPTIONAL("repeated_bytes", NUMBER, elementwise.repeated_bytes),
    OPTIONAL("recomputed", FLAG, elementwise.recomputed),
    OPTIONAL("fused", FLAG, elementwise.fused),
    OPTIONAL("eager", FLAG, elementwise.eager),
    OPTIONAL("parameter_grad", TEXT, elementwise.grad_axis),
    {0},
};
static tperf_status count_elementwise(tperf_op *op, const tperf_op_arguments *a,
                                      tperf_error *error) {
    return tperf_op_elementwise(op, &a->elementwise, error);
}

static const tperf_field softmax_fields[] = {
    COMMON,
    NUMBER("rows", softmax.rows),
    INTEGER("width", softmax.width),
    OPTIONAL("keep_output", FLAG, softmax.keep_output),
    OPTIONAL("recomputed", FLAG, softmax.recomputed),
    OPTIONAL("row_sum", TEXT, softmax.sum_axis),
    {0},
};
static tperf_status count_softmax(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_softmax(op, &a->softmax, error);
}

static const tperf_field norm_fields[] = {
    COMMON,
    INTEGER("tokens", norm.tokens),
    INTEGER("width", norm.width),
    OPTIONAL("gather", TEXT, norm.gather_axis),
    OPTIONAL("gathered_tokens", INTEGER, norm.gathered_tokens),
    OPTIONAL("parameters", INTEGER, norm.parameters),
    OPTIONAL("root_mean_square", FLAG, norm.root_mean_square),
    OPTIONAL("input_kept_elsewhere", FLAG, norm.input_kept_elsewhere),
    OPTIONAL("statistics", TEXT, norm.statistics_axis),
    OPTIONAL("grad_statistics", NUMBER, norm.grad_statistics),
    OPTIONAL("parameter_grad", TEXT, norm.grad_axis),
    {0},
};
static tperf_status count_norm(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_norm(op, &a->norm, error);
}

static const tperf_field attention_fields[] = {
    COMMON,
    INTEGER("batch", attention.batch),
    INTEGER("heads", attention.heads),
    INTEGER("queries", attention.queries),
    INTEGER("keys", attention.keys),
    INTEGER("head_dim", attention.head_dim),
    OPTIONAL("kv_heads", INTEGER, attention.kv_heads),
    OPTIONAL("keep_scores", FLAG, attention.keep_scores),
    OPTIONAL("recomputed", FLAG, attention.recomputed),
    OPTIONAL("gather", TEXT, attention.gather_axis),
    OPTIONAL("grad_reads_gathered", FLAG, attention.grad_reads_gathered),
    OPTIONAL("matrix_dtype", TEXT, matrix_dtype),
    {0},
};
static tperf_status count_scores(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_scores(op, &a->attention, error);
}
static tperf_status count_attend(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_attend(op, &a->attention, error);
}
static tperf_status count_flash_attention(tperf_op *op, const tperf_op_arguments *a,
                                          tperf_error *error) {
    return tperf_op_flash_attention(op, &a->attention, error);
}

static const tperf_field fused_fields[] = {
    COMMON,
    INTEGER("batch", fused.batch),
    INTEGER("heads", fused.heads),
    INTEGER("head_dim", fused.head_dim),
    INTEGER("queries", fused.queries),
    INTEGER("keys", fused.keys),
    OPTIONAL("kv_heads", INTEGER, fused.kv_heads),
    OPTIONAL("value_dim", INTEGER, fused.value_dim),
    OPTIONAL("causal", FLAG, fused.causal),
    OPTIONAL("window", INTEGER, fused.window),
    OPTIONAL("seen", NUMBER, fused.seen),
    OPTIONAL("shards", INTEGER, fused.shards),
    OPTIONAL("dropout", FLAG, fused.dropout),
    OPTIONAL("sinks", FLAG, fused.sinks),
    OPTIONAL("values_in_keys", FLAG, fused.values_in_keys),
    OPTIONAL("kv_dtype", TEXT, kv_dtype),
    OPTIONAL("matrix_dtype", TEXT, matrix_dtype),
    OPTIONAL("gather", TEXT, fused.gather_axis),
    OPTIONAL("ring", FLAG, fused.ring),
    {0},
};
static tperf_status count_fused(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    tperf_fused_attention shape = a->fused;
    shape.kv_element = a->kv_element;
    return tperf_op_attention(op, &shape, error);
}

static const tperf_field embedding_fields[] = {
    COMMON,
    INTEGER("tokens", embedding.tokens),
    INTEGER("rows", embedding.rows),
    INTEGER("width", embedding.width),
    OPTIONAL("tied", FLAG, embedding.tied),
    OPTIONAL("weight_dtype", TEXT, weight_dtype),
    OPTIONAL("reduce_scatter", TEXT, embedding.reduce_axis),
    OPTIONAL("all_reduce", TEXT, embedding.sum_axis),
    {0},
};
static tperf_status count_embedding(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    tperf_embedding shape = a->embedding;
    shape.weight_element = a->weight_element;
    return tperf_op_embedding(op, &shape, error);
}

static const tperf_field cross_entropy_fields[] = {
    COMMON,
    INTEGER("tokens", cross_entropy.tokens),
    INTEGER("vocab", cross_entropy.vocab),
    OPTIONAL("row_sum", TEXT, cross_entropy.axis),
    {0},
};
static tperf_status count_cross_entropy(tperf_op *op, const tperf_op_arguments *a,
                                        tperf_error *error) {
    return tperf_op_cross_entropy(op, &a->cross_entropy, error);
}

static const tperf_field router_fields[] = {
    COMMON,
    INTEGER("tokens", router.tokens),
    INTEGER("width", router.width),
    INTEGER("experts", router.experts),
    INTEGER("top_k", router.top_k),
    OPTIONAL("bias", FLAG, router.bias),
    OPTIONAL("input_kept_elsewhere", FLAG, router.input_kept_elsewhere),
    OPTIONAL("parameter_grad", TEXT, router.grad_axis),
    {0},
};
static tperf_status count_router(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_router(op, &a->router, error);
}

static const tperf_field scan_fields[] = {
    COMMON,
    INTEGER("batch", scan.batch),
    INTEGER("seq", scan.seq),
    INTEGER("heads", scan.heads),
    INTEGER("head_dim", scan.head_dim),
    INTEGER("state", scan.state),
    OPTIONAL("groups", INTEGER, scan.groups),
    OPTIONAL("chunk", INTEGER, scan.chunk),
    OPTIONAL("step", FLAG, scan.step),
    {0},
};
static tperf_status count_scan(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_scan(op, &a->scan, error);
}

static const tperf_field custom_fields[] = {
    COMMON,
    OPTIONAL("forward_tensor_flops", NUMBER, custom.forward.tensor_flops),
    OPTIONAL("forward_vector_flops", NUMBER, custom.forward.vector_flops),
    OPTIONAL("forward_bytes", NUMBER, custom.forward.bytes),
    OPTIONAL("forward_routed", NUMBER, custom.forward.routed),
    OPTIONAL("repeated_bytes", NUMBER, custom.repeated_bytes),
    OPTIONAL("backward_tensor_flops", NUMBER, custom.backward.tensor_flops),
    OPTIONAL("backward_vector_flops", NUMBER, custom.backward.vector_flops),
    OPTIONAL("backward_bytes", NUMBER, custom.backward.bytes),
    OPTIONAL("weight_bytes", NUMBER, custom.weight_bytes),
    OPTIONAL("saved_bytes", NUMBER, custom.saved_bytes),
    OPTIONAL("expert", FLAG, custom.expert),
    {0},
};
static tperf_status count_custom(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    (void)error; // tperf_op_validate refuses what is wrong
    op->forward = a->custom.forward;
    op->repeated_bytes = a->custom.repeated_bytes;
    op->backward = a->custom.backward;
    op->weight_bytes = a->custom.weight_bytes;
    op->parameters = op->weight_bytes / tperf_dtype_bytes(op->dtype);
    op->saved_bytes = a->custom.saved_bytes;
    if (op->weight_bytes > 0) // as of a product: half of the pass
        op->own = (tperf_own_gradients){.tensor_flops = op->backward.tensor_flops / 2,
                                        .bytes = op->backward.bytes / 2};
    op->expert = a->custom.expert;
    return TPERF_OK;
}

const tperf_op_kind tperf_op_kinds[] = {
    {"op.linear", linear_fields, {.name = "linear"}, count_linear},
    {"op.grouped_linear", grouped_linear_fields, {.name = "experts"}, count_linear},
    {"op.summa", summa_fields, {.name = "summa"}, count_summa},
    {"op.summa_scores", summa_attention_fields, {.name = "scores"}, count_summa_scores},
    {"op.summa_attend",
     summa_attention_fields,
     {.name = "attend", .summa_attention.keep_scores = true},
     count_summa_attend},
    {"op.elementwise", elementwise_fields, {.name = "elementwise"}, count_elementwise},
    {"op.softmax", softmax_fields, {.name = "softmax", .softmax.keep_output = true}, count_softmax},
    {"op.norm", norm_fields, {.name = "norm", .norm.parameters = TPERF_NORM_WHOLE}, count_norm},
    {"op.scores", attention_fields, {.name = "scores"}, count_scores},
    {"op.attend",
     attention_fields,
     {.name = "attend", .attention.keep_scores = true},
     count_attend},
    {"op.flash_attention", attention_fields, {.name = "attention"}, count_flash_attention},
    {"op.attention", fused_fields, {.name = "attention", .fused.shards = 1}, count_fused},
    {"op.embedding", embedding_fields, {.name = "embedding"}, count_embedding},
    {"op.cross_entropy", cross_entropy_fields, {.name = "cross-entropy"}, count_cross_entropy},
    {"op.router", router_fields, {.name = "router"}, count_router},
    {"op.scan", scan_fields, {.name = "scan", .scan.groups = 1, .scan.chunk = 256}, count_scan},
    {"op.custom", custom_fields, {.name = "custom"}, count_custom},
    {0},
};
