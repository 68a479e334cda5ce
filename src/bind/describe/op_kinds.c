// op_kinds.c: the fields that each constructor of ops reads. tperf.op documents them.
#include "bind/describe/op_kinds.h"

#include <stddef.h>

#define KIND(member)                                                                               \
    _Generic(((tperf_op_arguments *)NULL)->member, int64_t: TPERF_FIELD_INTEGER,                         \
             double: TPERF_FIELD_NUMBER, bool: TPERF_FIELD_FLAG, const char *: TPERF_FIELD_TEXT)
#define OPTIONAL(name, member)                                                                     \
    { name, KIND(member), offsetof(tperf_op_arguments, member), false }
#define REQUIRED(name, member)                                                                     \
    { name, KIND(member), offsetof(tperf_op_arguments, member), true }
#define KEEPS                                                                                      \
    { "keeps", TPERF_FIELD_ANY, 0, false }
#define COMMON OPTIONAL("name", name), OPTIONAL("dtype", dtype)
#define INPUT  OPTIONAL("input", input)
// Fields of ops with weights or a cache.
#define SHARED OPTIONAL("shared_as", shared_as), KEEPS

#define LINEAR                                                                                     \
    COMMON, REQUIRED("tokens", linear.tokens), REQUIRED("n_in", linear.n_in),                      \
        REQUIRED("n_out", linear.n_out), OPTIONAL("shard", linear.shard),                          \
        OPTIONAL("bias", linear.bias), OPTIONAL("overlap", linear.overlap),                        \
        OPTIONAL("chunks", linear.chunks), OPTIONAL("pipelined", linear.pipelined),                \
        OPTIONAL("taps", linear.taps), OPTIONAL("positions", linear.positions),                    \
        OPTIONAL("input_kept_elsewhere", linear.input_kept_elsewhere), INPUT,                      \
        OPTIONAL("weight_dtype", weight_dtype), OPTIONAL("matrix_dtype", matrix_dtype),            \
        OPTIONAL("weight_bits", weight_bits), OPTIONAL("sparse", linear.sparse),                   \
        OPTIONAL("on", on), OPTIONAL("gather", linear.gather_axis),                                \
        OPTIONAL("reduce_scatter", linear.reduce_axis), OPTIONAL("all_reduce", linear.sum_axis),   \
        OPTIONAL("input_grad", linear.grad_axis),                                                  \
        OPTIONAL("input_grad_all_reduce", linear.grad_sum_axis),                                   \
        OPTIONAL("output_grad", linear.output_grad_axis),                                          \
        OPTIONAL("output_shard", linear.scattered),                                                \
        OPTIONAL("parameter_grad", linear.parameter_axis), SHARED

static const tperf_field linear_fields[] = {
    LINEAR,
    OPTIONAL("bias_grad", linear.bias_axis),
    OPTIONAL("tied", linear.tied),
    OPTIONAL("weights_elsewhere", linear.weights_elsewhere),
    OPTIONAL("groups", linear.groups),
    {0},
};
static const tperf_field grouped_linear_fields[] = {
    LINEAR,
    OPTIONAL("bias_grad", linear.bias_axis),
    REQUIRED("experts", linear.experts),
    OPTIONAL("active", linear.active),
    {0},
};
static tperf_status count_linear(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    tperf_linear shape = a->linear;
    shape.weight_element = a->weight_element;
    return tperf_op_linear(op, &shape, error);
}

static const tperf_field summa_fields[] = {
    COMMON,
    REQUIRED("tokens", summa.tokens),
    REQUIRED("n_in", summa.n_in),
    REQUIRED("n_out", summa.n_out),
    REQUIRED("n_in_columns", summa.n_in_columns),
    REQUIRED("n_in_rows", summa.n_in_rows),
    OPTIONAL("bias", summa.bias),
    OPTIONAL("bias_grad", summa.bias_axis),
    OPTIONAL("input_kept_elsewhere", summa.input_kept_elsewhere),
    INPUT,
    OPTIONAL("tied", summa.tied),
    OPTIONAL("shaped", summa.shaped),
    OPTIONAL("columns", summa.columns_axis),
    OPTIONAL("rows", summa.rows_axis),
    {0},
};
static tperf_status count_summa(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_summa(op, &a->summa, error);
}

static const tperf_field summa_attention_fields[] = {
    COMMON,
    REQUIRED("batch", summa_attention.batch),
    REQUIRED("heads", summa_attention.heads),
    REQUIRED("queries", summa_attention.queries),
    REQUIRED("queries_rows", summa_attention.queries_rows),
    REQUIRED("queries_columns", summa_attention.queries_columns),
    REQUIRED("head_dim_columns", summa_attention.head_dim_columns),
    OPTIONAL("keep_scores", summa_attention.keep_scores),
    OPTIONAL("shaped", summa_attention.shaped),
    OPTIONAL("columns", summa_attention.columns_axis),
    OPTIONAL("rows", summa_attention.rows_axis),
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
    SHARED,
    REQUIRED("elements", elementwise.elements),
    OPTIONAL("parameters", elementwise.parameters),
    REQUIRED("forward_flops", elementwise.forward_flops),
    REQUIRED("backward_flops", elementwise.backward_flops),
    REQUIRED("forward_bytes", elementwise.forward_bytes),
    REQUIRED("backward_bytes", elementwise.backward_bytes),
    OPTIONAL("saved_bytes", elementwise.saved_bytes),
    OPTIONAL("input_bytes", elementwise.input_bytes),
    INPUT,
    OPTIONAL("repeated_bytes", elementwise.repeated_bytes),
    OPTIONAL("recomputed", elementwise.recomputed),
    OPTIONAL("fused", elementwise.fused),
    OPTIONAL("eager", elementwise.eager),
    OPTIONAL("role", elementwise.role),
    OPTIONAL("parameter_grad", elementwise.grad_axis),
    {0},
};
static tperf_status count_elementwise(tperf_op *op, const tperf_op_arguments *a,
                                      tperf_error *error) {
    return tperf_op_elementwise(op, &a->elementwise, error);
}

static const tperf_field softmax_fields[] = {
    COMMON,
    REQUIRED("rows", softmax.rows),
    REQUIRED("width", softmax.width),
    OPTIONAL("keep_output", softmax.keep_output),
    OPTIONAL("recomputed", softmax.recomputed),
    OPTIONAL("row_sum", softmax.sum_axis),
    {0},
};
static tperf_status count_softmax(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_softmax(op, &a->softmax, error);
}

static const tperf_field norm_fields[] = {
    COMMON,
    SHARED,
    REQUIRED("tokens", norm.tokens),
    REQUIRED("width", norm.width),
    OPTIONAL("gather", norm.gather_axis),
    OPTIONAL("gathered_tokens", norm.gathered_tokens),
    OPTIONAL("parameters", norm.parameters),
    OPTIONAL("root_mean_square", norm.root_mean_square),
    OPTIONAL("input_kept_elsewhere", norm.input_kept_elsewhere),
    INPUT,
    OPTIONAL("statistics", norm.statistics_axis),
    OPTIONAL("grad_statistics", norm.grad_statistics),
    OPTIONAL("parameter_grad", norm.grad_axis),
    {0},
};
static tperf_status count_norm(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_norm(op, &a->norm, error);
}

static const tperf_field attention_fields[] = {
    COMMON,
    SHARED,
    REQUIRED("batch", attention.batch),
    REQUIRED("heads", attention.heads),
    REQUIRED("queries", attention.queries),
    REQUIRED("keys", attention.keys),
    REQUIRED("head_dim", attention.head_dim),
    OPTIONAL("kv_heads", attention.kv_heads),
    OPTIONAL("keep_scores", attention.keep_scores),
    OPTIONAL("recomputed", attention.recomputed),
    OPTIONAL("gather", attention.gather_axis),
    OPTIONAL("grad_reads_gathered", attention.grad_reads_gathered),
    OPTIONAL("matrix_dtype", matrix_dtype),
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
    SHARED,
    REQUIRED("batch", fused.batch),
    REQUIRED("heads", fused.heads),
    REQUIRED("head_dim", fused.head_dim),
    REQUIRED("queries", fused.queries),
    REQUIRED("keys", fused.keys),
    OPTIONAL("kv_heads", fused.kv_heads),
    OPTIONAL("value_dim", fused.value_dim),
    OPTIONAL("causal", fused.causal),
    OPTIONAL("window", fused.window),
    OPTIONAL("seen", fused.seen),
    OPTIONAL("shards", fused.shards),
    OPTIONAL("dropout", fused.dropout),
    OPTIONAL("sinks", fused.sinks),
    OPTIONAL("values_in_keys", fused.values_in_keys),
    OPTIONAL("kv_dtype", kv_dtype),
    OPTIONAL("matrix_dtype", matrix_dtype),
    OPTIONAL("gather", fused.gather_axis),
    OPTIONAL("ring", fused.ring),
    {0},
};
static tperf_status count_fused(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    tperf_fused_attention shape = a->fused;
    shape.kv_element = a->kv_element;
    return tperf_op_attention(op, &shape, error);
}

static const tperf_field embedding_fields[] = {
    COMMON,
    SHARED,
    REQUIRED("tokens", embedding.tokens),
    REQUIRED("rows", embedding.rows),
    REQUIRED("width", embedding.width),
    OPTIONAL("tied", embedding.tied),
    OPTIONAL("weight_dtype", weight_dtype),
    OPTIONAL("weight_bits", weight_bits),
    OPTIONAL("on", on),
    OPTIONAL("reduce_scatter", embedding.reduce_axis),
    OPTIONAL("all_reduce", embedding.sum_axis),
    {0},
};
static tperf_status count_embedding(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    tperf_embedding shape = a->embedding;
    shape.weight_element = a->weight_element;
    return tperf_op_embedding(op, &shape, error);
}

static const tperf_field cross_entropy_fields[] = {
    COMMON,
    REQUIRED("tokens", cross_entropy.tokens),
    REQUIRED("vocab", cross_entropy.vocab),
    OPTIONAL("row_sum", cross_entropy.axis),
    {0},
};
static tperf_status count_cross_entropy(tperf_op *op, const tperf_op_arguments *a,
                                        tperf_error *error) {
    return tperf_op_cross_entropy(op, &a->cross_entropy, error);
}

static const tperf_field router_fields[] = {
    COMMON,
    SHARED,
    REQUIRED("tokens", router.tokens),
    REQUIRED("width", router.width),
    REQUIRED("experts", router.experts),
    REQUIRED("top_k", router.top_k),
    OPTIONAL("bias", router.bias),
    OPTIONAL("input_kept_elsewhere", router.input_kept_elsewhere),
    INPUT,
    OPTIONAL("parameter_grad", router.grad_axis),
    {0},
};
static tperf_status count_router(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_router(op, &a->router, error);
}

static const tperf_field scan_fields[] = {
    COMMON,
    SHARED,
    REQUIRED("batch", scan.batch),
    REQUIRED("seq", scan.seq),
    REQUIRED("heads", scan.heads),
    REQUIRED("head_dim", scan.head_dim),
    REQUIRED("state", scan.state),
    OPTIONAL("groups", scan.groups),
    OPTIONAL("chunk", scan.chunk),
    OPTIONAL("step", scan.step),
    OPTIONAL("state_element", scan.state_element),
    {0},
};
static tperf_status count_scan(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    return tperf_op_scan(op, &a->scan, error);
}

static const tperf_field custom_fields[] = {
    COMMON,
    SHARED,
    OPTIONAL("forward_tensor_flops", custom.forward.tensor_flops),
    OPTIONAL("forward_vector_flops", custom.forward.vector_flops),
    OPTIONAL("forward_bytes", custom.forward.bytes),
    OPTIONAL("forward_routed", custom.forward.routed),
    OPTIONAL("repeated_bytes", custom.repeated_bytes),
    OPTIONAL("backward_tensor_flops", custom.backward.tensor_flops),
    OPTIONAL("backward_vector_flops", custom.backward.vector_flops),
    OPTIONAL("backward_bytes", custom.backward.bytes),
    OPTIONAL("weight_bytes", custom.weight_bytes),
    OPTIONAL("saved_bytes", custom.saved_bytes),
    OPTIONAL("expert", custom.expert),
    OPTIONAL("by_keys", custom.by_keys),
    {0},
};
tperf_status tperf_op_count_custom(tperf_op *op, const tperf_op_arguments *a, tperf_error *error) {
    (void)error; // tperf_op_validate checks it
    op->forward = a->custom.forward;
    op->repeated_bytes = a->custom.repeated_bytes;
    op->backward = a->custom.backward;
    op->weight_bytes = a->custom.weight_bytes;
    op->parameters = op->weight_bytes / tperf_dtype_bytes(op->dtype);
    op->saved_bytes = a->custom.saved_bytes;
    if (op->weight_bytes > 0) // half of the pass, as for a product
        op->own = (tperf_own_gradients){.tensor_flops = op->backward.tensor_flops / 2,
                                        .bytes = op->backward.bytes / 2};
    op->expert = a->custom.expert;
    op->by_keys = a->custom.by_keys;
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
    {"op.custom", custom_fields, {.name = "custom"}, tperf_op_count_custom},
    {0},
};
