// bind_op.c: tperf.core.op: constructors of ops, each from one table of fields. tperf.op documents them.
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"

static const char type_name[] = "tperf.op";

typedef struct arguments {
    const char *name, *dtype;
    union {
        tp_linear linear;
        tp_summa summa;
        tp_summa_attention summa_attention;
        tp_elementwise elementwise;
        tp_softmax softmax;
        tp_norm norm;
        tp_attention attention;
    };
} arguments;

#define INTEGER(field, member)                                                                     \
    { field, TP_FIELD_INTEGER, offsetof(arguments, member), true }
#define OPTIONAL(field, kind, member)                                                              \
    { field, TP_FIELD_##kind, offsetof(arguments, member), false }
#define NUMBER(field, member)                                                                      \
    { field, TP_FIELD_NUMBER, offsetof(arguments, member), true }
#define COMMON OPTIONAL("name", TEXT, name), OPTIONAL("dtype", TEXT, dtype)

// What an op of one kind reads, where it starts from, and what counts it.
typedef struct kind {
    const char *what; // "op.linear"
    const tp_field *fields;
    arguments defaults;
    tp_status (*count)(tp_op *op, const arguments *arguments, tp_error *error);
} kind;

static const tp_field linear_fields[] = {
    COMMON,
    INTEGER("tokens", linear.tokens),
    INTEGER("n_in", linear.n_in),
    INTEGER("n_out", linear.n_out),
    OPTIONAL("reduce_scatter", TEXT, linear.reduce_axis),
    OPTIONAL("input_grad", TEXT, linear.grad_axis),
    {0},
};
static tp_status count_linear(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_linear(op, &a->linear, error);
}

static const tp_field summa_fields[] = {
    COMMON,
    INTEGER("tokens", summa.tokens),
    INTEGER("n_in", summa.n_in),
    INTEGER("n_out", summa.n_out),
    INTEGER("n_in_columns", summa.n_in_columns),
    INTEGER("n_in_rows", summa.n_in_rows),
    OPTIONAL("columns", TEXT, summa.columns_axis),
    OPTIONAL("rows", TEXT, summa.rows_axis),
    {0},
};
static tp_status count_summa(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_summa(op, &a->summa, error);
}

static const tp_field summa_attention_fields[] = {
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
static tp_status count_summa_scores(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_summa_scores(op, &a->summa_attention, error);
}
static tp_status count_summa_attend(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_summa_attend(op, &a->summa_attention, error);
}

static const tp_field elementwise_fields[] = {
    COMMON,
    NUMBER("elements", elementwise.elements),
    OPTIONAL("parameters", INTEGER, elementwise.parameters),
    NUMBER("forward_flops", elementwise.forward_flops),
    NUMBER("backward_flops", elementwise.backward_flops),
    NUMBER("forward_bytes", elementwise.forward_bytes),
    NUMBER("backward_bytes", elementwise.backward_bytes),
    OPTIONAL("saved_bytes", NUMBER, elementwise.saved_bytes),
    OPTIONAL("recomputed", FLAG, elementwise.recomputed),
    OPTIONAL("parameter_grad", TEXT, elementwise.grad_axis),
    {0},
};
static tp_status count_elementwise(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_elementwise(op, &a->elementwise, error);
}

static const tp_field softmax_fields[] = {
    COMMON,
    NUMBER("rows", softmax.rows),
    INTEGER("width", softmax.width),
    OPTIONAL("keep_output", FLAG, softmax.keep_output),
    OPTIONAL("recomputed", FLAG, softmax.recomputed),
    OPTIONAL("row_sum", TEXT, softmax.sum_axis),
    {0},
};
static tp_status count_softmax(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_softmax(op, &a->softmax, error);
}

static const tp_field norm_fields[] = {
    COMMON,
    INTEGER("tokens", norm.tokens),
    INTEGER("width", norm.width),
    OPTIONAL("gather", TEXT, norm.gather_axis),
    OPTIONAL("gathered_tokens", INTEGER, norm.gathered_tokens),
    OPTIONAL("statistics", TEXT, norm.statistics_axis),
    OPTIONAL("grad_statistics", NUMBER, norm.grad_statistics),
    OPTIONAL("parameter_grad", TEXT, norm.grad_axis),
    {0},
};
static tp_status count_norm(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_norm(op, &a->norm, error);
}

static const tp_field attention_fields[] = {
    COMMON,
    INTEGER("batch", attention.batch),
    INTEGER("heads", attention.heads),
    INTEGER("queries", attention.queries),
    INTEGER("keys", attention.keys),
    INTEGER("head_dim", attention.head_dim),
    OPTIONAL("keep_scores", FLAG, attention.keep_scores),
    OPTIONAL("recomputed", FLAG, attention.recomputed),
    OPTIONAL("gather", TEXT, attention.gather_axis),
    OPTIONAL("grad_reads_gathered", FLAG, attention.grad_reads_gathered),
    {0},
};
static tp_status count_scores(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_scores(op, &a->attention, error);
}
static tp_status count_attend(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_attend(op, &a->attention, error);
}
static tp_status count_flash_attention(tp_op *op, const arguments *a, tp_error *error) {
    return tp_op_flash_attention(op, &a->attention, error);
}

static const kind kinds[] = {
    {"op.linear", linear_fields, {.name = "linear"}, count_linear},
    {"op.summa", summa_fields, {.name = "summa"}, count_summa},
    {"op.summa_scores", summa_attention_fields, {.name = "scores"}, count_summa_scores},
    {"op.summa_attend",
     summa_attention_fields,
     {.name = "attend", .summa_attention.keep_scores = true},
     count_summa_attend},
    {"op.elementwise", elementwise_fields, {.name = "elementwise"}, count_elementwise},
    {"op.softmax", softmax_fields, {.name = "softmax", .softmax.keep_output = true}, count_softmax},
    {"op.norm", norm_fields, {.name = "norm"}, count_norm},
    {"op.scores", attention_fields, {.name = "scores"}, count_scores},
    {"op.attend",
     attention_fields,
     {.name = "attend", .attention.keep_scores = true},
     count_attend},
    {"op.flash_attention", attention_fields, {.name = "attention"}, count_flash_attention},
};

static tp_dtype check_dtype(lua_State *L, const char *what, const char *name) {
    for (int i = 0; i < TP_DTYPE_COUNT; i++)
        if (strcmp(name, tp_dtype_names[i]) == 0) return (tp_dtype)i;
    tp_bind_fail(L, "%s: unknown dtype '%s'", what, name);
    return TP_BF16;
}

static void copy_name(lua_State *L, const char *what, const char *name, char *out, size_t size) {
    if (strlen(name) >= size)
        tp_bind_fail(L, "%s: the name '%s' is longer than %d bytes", what, name, (int)size - 1);
    strcpy(out, name);
}

static void check_axes(lua_State *L, const kind *k, const arguments *a) {
    for (const tp_field *f = k->fields; f->name; f++) {
        if (f->kind != TP_FIELD_TEXT || f->offset < offsetof(arguments, linear)) continue;
        const char *axis = *(const char *const *)((const char *)a + f->offset);
        if (axis && strlen(axis) >= TP_AXIS_NAME_MAX)
            tp_bind_fail(L, "%s: the axis name '%s' is longer than %d bytes", k->what, axis,
                         TP_AXIS_NAME_MAX - 1);
    }
}

static int construct(lua_State *L) {
    const kind *k = &kinds[lua_tointeger(L, lua_upvalueindex(1))];
    arguments a = k->defaults;
    a.dtype = "bf16";
    tp_fields_read(L, 1, k->what, k->fields, &a);
    check_axes(L, k, &a);
    tp_op *op = lua_newuserdatauv(L, sizeof *op, 0);
    memset(op, 0, sizeof *op);
    luaL_setmetatable(L, type_name);
    copy_name(L, k->what, a.name, op->name, sizeof op->name);
    op->dtype = check_dtype(L, k->what, a.dtype);
    tp_error error;
    if (k->count(op, &a, &error) != TP_OK)
        return tp_bind_fail(L, "%s '%s': %s", k->what, op->name, error.message);
    if (tp_op_validate(op, &error) != TP_OK) return tp_bind_raise(L, &error);
    return 1;
}

const tp_op *tp_bind_check_op(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

static int to_string(lua_State *L) {
    const tp_op *op = tp_bind_check_op(L, 1);
    lua_pushfstring(L, "op '%s': %f and %f FLOP, %f and %f bytes", op->name,
                    op->forward.tensor_flops + op->forward.vector_flops,
                    op->backward.tensor_flops + op->backward.vector_flops, op->forward.bytes,
                    op->backward.bytes);
    return 1;
}

void tp_bind_op(lua_State *L) {
    luaL_newmetatable(L, type_name);
    lua_pushcfunction(L, to_string);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
    lua_newtable(L);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        lua_pushinteger(L, (lua_Integer)i);
        lua_pushcclosure(L, construct, 1);
        lua_setfield(L, -2, kinds[i].what + strlen("op."));
    }
}
