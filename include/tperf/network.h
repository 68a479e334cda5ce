// network.h: the ops of a model for one shape, and their time on one machine.
// A shape is what one GPU sees: the sizes of the axes that cut a layer, and the micro-batch. A
// placement says how many GPUs of each axis share a fast domain. Layers that are equal are laid out
// once, as a section; two further sections hold what the first pipeline stage has before its layers
// (embedding) and the last one after them (final norm, head, loss). Formulas: docs/model.md section 3.
#ifndef TPERF_NETWORK_H
#define TPERF_NETWORK_H

#include <stddef.h>

#include "tperf/op.h"

enum { TP_AXES_MAX = 4, TP_KINDS_MAX = 8, TP_SECTIONS_MAX = TP_KINDS_MAX + 2 };

typedef struct tp_network {
    int n_axes;
    char axes[TP_AXES_MAX][TP_AXIS_NAME_MAX];
    int64_t sizes[TP_AXES_MAX]; // GPUs along each axis
    unsigned gradient_axes; // bit i: weight gradients are reduced over axis i as well as over dp
    int expert_axis;        // the axis inside dp that experts are spread over; -1: none
    double boundary_bytes;  // what one micro-batch sends to the next pipeline stage, per GPU
    int n_kinds;            // of layers: sections 0 … n_kinds - 1; then first, then last
    size_t section_end[TP_SECTIONS_MAX]; // ops up to there belong to this and earlier sections
    size_t n_ops, capacity;              // ops it has, and has room for
    tp_op ops[];
} tp_network;

static inline size_t tp_section_begin(const tp_network *network, int section) {
    return section ? network->section_end[section - 1] : 0;
}

// Adds an op at the end: finds its axes among the network's, and drops collectives among one GPU. An axis that the
// network lacks is an error, and so is a network without room.
tp_status tp_network_join(tp_network *network, const tp_op *op, tp_error *error);

typedef struct tp_pass_cost {
    double compute;        // seconds at the compute peaks, launch included
    double exposed_memory; // seconds of HBM traffic beyond that
    double comm;           // seconds of collectives that nothing hides
    double time;           // the sum, and for a recomputed op's backward pass the forward pass too
} tp_pass_cost;

// A placement of the network's axes, and the panels of its SUMMA ops.
typedef struct tp_placement {
    int64_t fast[TP_AXES_MAX];
    int64_t panels;
} tp_placement;

typedef struct tp_op_cost {
    tp_pass_cost forward, backward;
    double weight_grad; // seconds of the backward pass that a schedule may put off
} tp_op_cost;

// One pass of an op that joined the network: its own, or one with other counts.
tp_pass_cost tp_pass_time(const tp_op *op, const tp_pass *pass, const tp_network *network,
                          const tp_system *system, const tp_rules *rules,
                          const tp_placement *placement);

tp_op_cost tp_op_time(const tp_op *op, const tp_network *network, const tp_system *system,
                      const tp_rules *rules, const tp_placement *placement);

// FLOPs of one pass as the published solver reports them: an op on the tensor cores counts its vector
// FLOPs times tensor peak / vector peak (Q6).
double tp_pass_equivalent_flops(const tp_op *op, const tp_pass *pass, const tp_system *system);

// Sums over the ops of a section (one layer) and one micro-batch, on one GPU.
typedef struct tp_layer_cost {
    tp_pass_cost forward, backward;
    double weight_grad;  // seconds, see tp_op_cost
    double flops;        // both passes
    double weight_bytes; // one layer's share, of what all data-parallel replicas hold
    double expert_bytes; // of what the expert axis spreads
    double
        tied_bytes; // part of weight_bytes that the section `first` holds, too, if on the same GPU
    double saved_bytes; // activations kept per micro-batch
    double input_bytes; // part of saved_bytes: the input of a layer that is recomputed as a whole
    double again_bytes; // activations that recomputation makes again, before the backward pass
    double work_bytes; // the most that one of its kernels reads and writes beside these and weights
} tp_layer_cost;

// What no placement changes about an op: its passes without collectives (comm and time are 0), its FLOPs.
typedef struct tp_op_work {
    tp_pass_cost forward, backward;
    double flops;
} tp_op_work;

// works[n_ops], for a number of panels.
void tp_network_work(const tp_network *network, const tp_system *system, const tp_rules *rules,
                     int64_t panels, tp_op_work *works);

// costs[n_kinds + 2]: every section's. tp_network_bytes fills in the bytes alone, which no placement
// changes, and zeroes the rest. works: as tp_network_work left them for the placement's panels, or NULL.
void tp_network_bytes(const tp_network *network, tp_layer_cost *costs);
void tp_network_time(const tp_network *network, const tp_system *system, const tp_rules *rules,
                     const tp_placement *placement, const tp_op_work *works, tp_layer_cost *costs);

// Refuses a system that lacks a peak which an op needs, its dtype on the tensor or vector units.
tp_status tp_network_check_system(const tp_network *network, const tp_system *system,
                                  tp_error *error);

#endif
