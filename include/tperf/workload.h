// workload.h: the ops of a model for one shape, and their time on one machine.
// A shape is what one GPU sees: the sizes of the axes that cut a layer, and the micro-batch. A
// placement says how many GPUs of each axis share a fast domain. Layers that are equal are laid out
// once, as a section; two further sections hold what the first pipeline stage has before its layers
// (embedding) and the last one after them (final norm, head, loss). Formulas: docs/model.md section 3.
#ifndef TPERF_WORKLOAD_H
#define TPERF_WORKLOAD_H

#include <stddef.h>

#include "tperf/price.h"

enum { TPERF_KINDS_MAX = 8, TPERF_SECTIONS_MAX = TPERF_KINDS_MAX + 2 };

typedef struct tperf_workload {
    tperf_grid grid;
    int64_t sizes[TPERF_AXES_MAX]; // GPUs along each of the grid's own axes; 1 along the others
    double boundary_bytes;         // what one micro-batch sends to the next pipeline stage, per GPU
    int n_kinds;                   // of layers: sections 0 … n_kinds - 1; then first, then last
    size_t section_end[TPERF_SECTIONS_MAX]; // ops up to there belong to this and earlier sections
    size_t n_ops, capacity;                 // ops it has, and has room for
    tperf_op ops[];
} tperf_workload;

static inline size_t tperf_section_begin(const tperf_workload *workload, int section) {
    return section ? workload->section_end[section - 1] : 0;
}

// Adds an op at the end: finds its axes among the workload's, and drops collectives among one GPU. An axis that the
// workload lacks is an error, and so is a workload without room.
tperf_status tperf_workload_join(tperf_workload *workload, const tperf_op *op, tperf_error *error);

// Parameters that a GPU holds.
typedef struct tperf_weights {
    double bytes;  // in the dtypes that the ops use them in
    double count;  // that are trained
    double narrow; // of `count`, those in fewer than 32 bits
    double
        orthogonal; // FLOPs of one Newton-Schulz iteration of all matrices, see src/plan/workload.c
    double gathered; // bytes that replicas gather of those that are trained
    double copies;   // bytes of further copies between passes
    double step;     // bytes read and written once an iteration, to make these
    double
        frozen; // of `bytes`, those of parameters that are not trained, which are in neither count nor gathered
} tperf_weights;

// Sums over the ops of a section (one layer) and one micro-batch, on one GPU.
// What of a layer with experts another micro-batch's pass can hide, and what it hides of that one's: forward, backward.
// `inside` are the kernels between dispatch and combine.
typedef struct tperf_expert_cost {
    double dispatch[2],
        combine[2]; // seconds of compute at full speed that these leave room for while they run
    double inside[2], outside[2]; // seconds of kernels
    double inside_grad;           // of inside[1], weight gradients
} tperf_expert_cost;

typedef struct tperf_layer_cost {
    tperf_pass_cost forward, backward;
    double weight_grad; // seconds, see tperf_op_cost
    tperf_expert_cost exchange;
    double flops;          // both passes
    tperf_weights weights; // one layer's share, of what all data-parallel replicas hold
    tperf_weights experts; // of what is cut as experts are
    tperf_weights tied; // part of `weights` that the section `first` holds, too, if on the same GPU
    double saved_bytes; // activations kept per micro-batch
    double input_bytes; // part of saved_bytes: the input of a layer that is recomputed as a whole
    double again_bytes; // activations that recomputation makes again, before the backward pass
    double offload_bytes; // activations that the host keeps meanwhile
    double work_bytes; // the most that one of its kernels reads and writes beside these and weights
} tperf_layer_cost;

static inline void tperf_weights_add(tperf_weights *sum, const tperf_weights *part, double times) {
    sum->bytes += times * part->bytes;
    sum->count += times * part->count;
    sum->narrow += times * part->narrow;
    sum->orthogonal += times * part->orthogonal;
    sum->gathered += times * part->gathered;
    sum->copies += times * part->copies;
    sum->step += times * part->step;
    sum->frozen += times * part->frozen;
}

// works[n_ops], for a number of panels.
void tperf_workload_work(const tperf_workload *workload, const tperf_platform *on, int64_t panels,
                         tperf_op_work *works);

// costs[n_kinds + 2]: every section's. tperf_workload_bytes fills in the bytes alone, which no placement
// changes, and zeroes the rest. works: as tperf_workload_work left them for the placement's panels, or NULL.
void tperf_workload_bytes(const tperf_workload *workload, tperf_layer_cost *costs);
void tperf_workload_time(const tperf_workload *workload, const tperf_platform *on,
                         const tperf_placement *placement, const tperf_op_work *works,
                         tperf_layer_cost *costs);

// The second half of tperf_workload_time: costs are what tperf_workload_bytes made them.
void tperf_workload_add_times(const tperf_workload *workload, const tperf_platform *on,
                              const tperf_placement *placement, const tperf_op_work *works,
                              tperf_layer_cost *costs);

// Refuses a system that lacks a peak which an op needs, its dtype on the tensor or vector units.
tperf_status tperf_workload_check_system(const tperf_workload *workload, const tperf_system *system,
                                         tperf_error *error);

#endif
