// op_kinds.h: the constructors of ops as data: the fields that each reads, and what counts it.
#ifndef TPERF_OP_KINDS_H
#define TPERF_OP_KINDS_H

#include "bind/fields.h"
#include "tperf/op.h"

typedef struct tp_op_arguments {
    const char *name, *dtype, *weight_dtype, *kv_dtype, *matrix_dtype;
    double weight_element, kv_element; // bytes, from the dtypes; 0: as dtype
    union {                            // a field of text in here is the name of an axis
        tp_linear linear;
        tp_summa summa;
        tp_summa_attention summa_attention;
        tp_elementwise elementwise;
        tp_softmax softmax;
        tp_norm norm;
        tp_attention attention;
        tp_fused_attention fused;
        tp_embedding embedding;
        tp_cross_entropy cross_entropy;
        tp_router router;
        tp_scan scan;
        tp_op custom;
    };
} tp_op_arguments;

typedef struct tp_op_kind {
    const char *what; // "op.linear"
    const tp_field *fields;
    tp_op_arguments defaults;
    tp_status (*count)(tp_op *op, const tp_op_arguments *arguments, tp_error *error);
} tp_op_kind;

extern const tp_op_kind tp_op_kinds[]; // ends with one whose `what` is NULL

#endif
