// op_kinds.h: the constructors of ops as data: the fields that each reads, and its function.
#ifndef TPERF_OP_KINDS_H
#define TPERF_OP_KINDS_H

#include "bind/fields.h"
#include "tperf/op.h"

typedef struct tperf_op_arguments {
    const char *name, *dtype, *input, *on, *shared_as, *weight_dtype, *kv_dtype, *matrix_dtype;
    double weight_element, kv_element; // bytes, from the dtypes; 0: as dtype
    double weight_bits;                // instead of weight_dtype; 0: not given
    union {                            // text fields in here are names of axes
        tperf_linear linear;
        tperf_summa summa;
        tperf_summa_attention summa_attention;
        tperf_elementwise elementwise;
        tperf_softmax softmax;
        tperf_norm norm;
        tperf_attention attention;
        tperf_fused_attention fused;
        tperf_embedding embedding;
        tperf_cross_entropy cross_entropy;
        tperf_router router;
        tperf_scan scan;
        tperf_op custom;
    };
} tperf_op_arguments;

typedef struct tperf_op_kind {
    const char *what; // "op.linear"
    const tperf_field *fields;
    tperf_op_arguments defaults;
    tperf_status (*count)(tperf_op *op, const tperf_op_arguments *arguments, tperf_error *error);
} tperf_op_kind;

// Reads what a sequence keeps from the table at `index`, or from its field `keeps`, if it has one.
void tperf_bind_set_kept(lua_State *L, int index, const char *what, tperf_op *op);
void tperf_bind_read_keeps(lua_State *L, int index, const char *what, tperf_op *op);

// Of an op whose counts are given.
tperf_status tperf_op_count_custom(tperf_op *op, const tperf_op_arguments *arguments,
                                   tperf_error *error);

extern const tperf_op_kind tperf_op_kinds[]; // ends with an entry whose `what` is NULL

#endif
