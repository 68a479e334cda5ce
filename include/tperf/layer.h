// layer.h: the ops of one transformer layer for one shape, and their time on one machine.
// A shape is what one GPU sees: the sizes of the axes that cut a layer, and the micro-batch. A
// placement says how many GPUs of each axis share a fast domain. Formulas: docs/model.md section 3.
#ifndef TPERF_LAYER_H
#define TPERF_LAYER_H

#include <stddef.h>

#include "tperf/op.h"

enum { TP_AXES_MAX = 4 };

typedef struct tp_layer {
    int n_axes;
    char axes[TP_AXES_MAX][TP_AXIS_NAME_MAX];
    int64_t sizes[TP_AXES_MAX]; // GPUs along each axis
    unsigned gradient_axes;     // bit i: weight gradients are also reduced over axis i
    double boundary_bytes;      // what one micro-batch sends to the next pipeline stage, per GPU
    size_t n_ops;
    tp_op ops[];
} tp_layer;

// Adds an op (the layer has room for it): finds its axes among the layer's, and drops collectives
// among one GPU. An axis that the layer lacks is an error.
tp_status tp_layer_join(tp_layer *layer, const tp_op *op, tp_error *error);

typedef struct tp_pass_cost {
    double compute;        // seconds at the compute peaks, launch included
    double exposed_memory; // seconds of HBM traffic beyond that
    double comm;           // seconds of collectives that nothing hides
    double time;           // the sum, and for a recomputed op's backward pass the forward pass too
} tp_pass_cost;

// A placement of the layer's axes, and the panels of its SUMMA ops.
typedef struct tp_placement {
    int64_t fast[TP_AXES_MAX];
    int64_t panels;
} tp_placement;

typedef struct tp_op_cost {
    tp_pass_cost forward, backward;
} tp_op_cost;

tp_op_cost tp_op_time(const tp_op *op, const tp_layer *layer, const tp_system *system,
                      const tp_rules *rules, const tp_placement *placement);

// FLOPs of one pass as the published solver reports them: an op on the tensor cores counts its
// vector FLOPs times tensor peak / vector peak (Q6).
double tp_pass_equivalent_flops(const tp_op *op, const tp_pass *pass, const tp_system *system);

// Sums over the ops of one layer and one micro-batch, on one GPU.
typedef struct tp_layer_cost {
    tp_pass_cost forward, backward;
    double flops;        // both passes
    double weight_bytes; // one layer's share; gradients have as many
    double saved_bytes;  // activations kept per micro-batch
    double boundary_bytes;
} tp_layer_cost;

// The bytes of tp_layer_cost alone, which no placement changes; its times and FLOPs are 0.
tp_layer_cost tp_layer_bytes(const tp_layer *layer);

tp_layer_cost tp_layer_time(const tp_layer *layer, const tp_system *system, const tp_rules *rules,
                            const tp_placement *placement);

// Refuses a system that lacks a peak which an op needs, its dtype on the tensor or vector units.
tp_status tp_layer_check_system(const tp_layer *layer, const tp_system *system, tp_error *error);

#endif
