// workload.h: the ops of a model for one shape, and their time on one machine.
// A shape is what one GPU sees: the sizes of the axes that cut a layer, and the micro-batch. A placement says how many
// GPUs of each axis share a fast domain. Equal layers are laid out once, as a section; two more sections hold the ops
// that the first pipeline stage runs before its layers (embedding) and the last one after them (final norm, head,
// loss). Formulas: docs/model.md section 3.
#ifndef TPERF_WORKLOAD_H
#define TPERF_WORKLOAD_H

#include <stddef.h>

#include "tperf/price.h"

enum {
    TPERF_KINDS_MAX = 64,
    TPERF_SHARED_MAX = 62, // as many as the set of sections holds
    TPERF_SECTIONS_MAX = TPERF_KINDS_MAX + 2 + TPERF_SHARED_MAX
};

// A set of sections.
typedef struct tperf_section_set {
    uint64_t bits[(TPERF_SECTIONS_MAX + 63) / 64];
} tperf_section_set;

static inline void tperf_section_set_add(tperf_section_set *set, int section) {
    set->bits[section / 64] |= UINT64_C(1) << section % 64;
}

static inline bool tperf_section_set_has(const tperf_section_set *set, int section) {
    return set->bits[section / 64] >> section % 64 & 1;
}

// Parameters on one GPU.
typedef struct tperf_weights {
    double bytes;  // in the dtypes in which ops use them
    double count;  // trained parameters
    double narrow; // of `count`, those in fewer than 32 bits
    // Matrices, and FLOPs of one Newton-Schulz iteration over all of them: src/plan/workload.c.
    double matrices, orthogonal;
    double gathered; // bytes that replicas gather of trained parameters
    double copies;   // bytes of further copies between passes
    double step;     // bytes read and written once per iteration to make these copies
    // The part of `bytes` in parameters that are not trained, which neither count nor gathered includes.
    double frozen;
} tperf_weights;

// What the ops of a block hold; see tperf_layer_cost.
typedef struct tperf_block_bytes {
    tperf_weights weights, experts, tied;
    double saved, again, offload, work;
    bool whole; // all of it is recomputed
} tperf_block_bytes;

// Consecutive ops of layers that are cut over these sizes, such as attention: what workloads are made of, and share. The
// arrays are the caller's; tperf/build.h makes blocks that need no care.
typedef struct tperf_block {
    uint64_t id; // the same for the same ops, joined to the same sizes; never reused
    const tperf_grid *grid;
    int64_t sizes[TPERF_AXES_MAX];
    // Replicas that it is laid out for, beside the own axes; 0: any number, and no op communicates among them.
    int64_t replicas;
    unsigned axes; // bit i: an op looked up axis i; the sizes of others do not matter
    char name[TPERF_NAME_MAX];
    tperf_block_bytes bytes; // tperf_block_bytes_of
    size_t n;
    const tperf_op **ops; // joined: tperf_op_join
} tperf_block;

// Fails unless the block may be part of layers that are cut over these sizes of this grid.
tperf_status tperf_block_check(const tperf_block *block, const tperf_grid *grid,
                               const int64_t *sizes, tperf_error *error);

// Consecutive ops of a section: those of a block, which other sections and workloads may share.
typedef struct tperf_block_part {
    uint64_t id;   // tperf_block's
    unsigned axes; // bit i: their times may depend on the placement of axis i
    unsigned
        inward; // and with further tiers, on that of these, which lie within groups of the former
    size_t end; // ops below this index belong to this or an earlier part
    const char *name; // of the block
    const tperf_block_bytes *bytes;
} tperf_block_part;

typedef struct tperf_workload {
    tperf_grid grid;
    // GPUs along each of the grid's own axes; 1 along the others, unless it is laid out for a number of replicas.
    int64_t sizes[TPERF_AXES_MAX];
    int64_t replicas; // as of its blocks
    // Of a micro-batch's message to the next pipeline stage, as a GPU holds it; and the GPUs that hold the same one, each
    // of which sends a part, which those that receive them gather (1: all of it).
    double boundary_bytes;
    int64_t boundary_parts;
    // Sections: kinds of layers 0 … n_kinds - 1, then first, then last; then weights that ops of several sections share,
    // by the sections whose ops share them. A stage with any of these sections holds one copy.
    int n_kinds, n_sections;
    tperf_section_set holders[TPERF_SHARED_MAX];
    size_t section_end
        [TPERF_SECTIONS_MAX]; // ops below this index belong to this or an earlier section
    size_t n_parts, part_end[TPERF_SECTIONS_MAX]; // likewise
    const tperf_block_part *parts;
    size_t n_ops;
    const tperf_op *ops[]; // joined
} tperf_workload;

// A workload in `room` of tperf_workload_size bytes, without ops: blocks are added section by section, and each section
// is then ended. It is laid out for any number of replicas until the caller sets one. name: of the block in this
// workload; NULL: its own.
size_t tperf_workload_size(size_t n_ops, size_t n_parts);
tperf_workload *tperf_workload_new(void *room, const tperf_grid *grid, const int64_t *sizes,
                                   int n_kinds, size_t n_ops);
void tperf_workload_add(tperf_workload *workload, const tperf_block *block, const char *name);
void tperf_workload_end(tperf_workload *workload, int section);

static inline size_t tperf_section_begin(const tperf_workload *workload, int section) {
    return section ? workload->section_end[section - 1] : 0;
}

// Makes an op part of a layer that is cut over these sizes: looks up the axes of its collectives, and drops those among
// one GPU. Adds the axes that it looked up to *axes (bit i: axis i); the sizes of all others do not matter. Fails if the
// grid lacks an axis, or pipeline stages are to communicate.
tperf_status tperf_op_join(tperf_op *op, const tperf_grid *grid, const int64_t *sizes,
                           unsigned *axes, tperf_error *error);

// The same for an op of a block. Also fails if the op communicates among replicas, and the block is laid out for any
// number of them.
tperf_status tperf_block_join(tperf_block *block, tperf_op *op, tperf_error *error);

// The name of the block that the op of this index is part of.
const char *tperf_workload_block(const tperf_workload *workload, size_t index);

// A layer with experts, overlapped with another micro-batch's pass: what that pass can hide of this layer, and this
// layer of that pass; [forward, backward]. `inside`: kernels between dispatch and combine.
typedef struct tperf_expert_cost {
    // Seconds of full-speed compute that fit beside these collectives.
    double dispatch[2], combine[2];
    double inside[2], outside[2]; // seconds of kernels
    double inside_grad;           // the part of inside[1] in weight gradients
} tperf_expert_cost;

// Sums over the ops of a section (one layer) and one micro-batch, on one GPU.
typedef struct tperf_layer_cost {
    tperf_pass_cost forward, backward;
    double weight_grad, weight_launches, late_split; // see tperf_op_cost
    // Seconds of the two halves of a backward pass that a schedule splits, each with its own wait for the host: together
    // at least the whole pass.
    double input_half, weight_half;
    tperf_expert_cost exchange;
    double flops;          // both passes
    tperf_weights weights; // one layer's share; replicated over data parallelism
    tperf_weights experts; // the same for weights cut as experts are
    tperf_weights tied; // the part of `weights` shared with the section `first`, if on the same GPU
    double saved_bytes; // activations kept per micro-batch
    double input_bytes; // part of saved_bytes: the input of a layer recomputed as a whole
    double again_bytes; // activations recomputed before the backward pass
    double offload_bytes; // activations offloaded to the host meanwhile
    double work_bytes; // the most that one of its kernels reads and writes beside these and weights
} tperf_layer_cost;

static inline void tperf_weights_add(tperf_weights *sum, const tperf_weights *part, double times) {
    sum->bytes += times * part->bytes;
    sum->count += times * part->count;
    sum->narrow += times * part->narrow;
    sum->matrices += times * part->matrices;
    sum->orthogonal += times * part->orthogonal;
    sum->gathered += times * part->gathered;
    sum->copies += times * part->copies;
    sum->step += times * part->step;
    sum->frozen += times * part->frozen;
}

tperf_block_bytes tperf_block_bytes_of(const tperf_op *const *ops, size_t n);

// What an op adds to its layer's cost.
typedef struct tperf_op_price {
    tperf_op_cost cost;
    double flops; // both passes
    double exchanges
        [2]; // seconds of expert exchanges, less the slowdown of kernels beside them; [forward, backward]
    bool exchanging; // its passes dispatch or combine tokens
} tperf_op_price;

// In two steps: wherever the op is placed, from its work; then what the placement adds.
tperf_op_price tperf_op_price_of(const tperf_op *op, const tperf_op_work *work,
                                 const tperf_platform *on);
void tperf_op_price_place(tperf_op_price *price, const tperf_op *op, const tperf_platform *on,
                          const int64_t *sizes, const tperf_placement *placement);

// What the ops of a block add to their layer's cost. A layer's times are sums over its blocks of sums over their ops,
// whoever adds them up, so that they agree to the last digit.
typedef struct tperf_block_price {
    tperf_pass_cost forward, backward;
    double weight_grad, weight_launches, late_split, flops;
    tperf_expert_cost exchange;
    bool inside; // tokens that ops up to here have dispatched are not yet combined
} tperf_block_price;

void tperf_block_price_add(tperf_block_price *sum, const tperf_op_price *price);

// A block's price outside an exchange of tokens that an earlier block began, and inside one.
typedef struct tperf_either_price {
    tperf_block_price outside;
    bool exchanging;          // it exchanges tokens itself
    tperf_block_price inside; // if so; otherwise it follows from the price outside
} tperf_either_price;

// Fills works[n_ops], for a number of panels.
void tperf_workload_work(const tperf_workload *workload, const tperf_platform *on, int64_t panels,
                         tperf_op_work *works);

// Fill costs[n_sections], one per section. tperf_workload_bytes fills in only the bytes, which no placement changes,
// and zeroes the rest. works: from tperf_workload_work for the placement's panels, or NULL.
void tperf_workload_bytes(const tperf_workload *workload, tperf_layer_cost *costs);
void tperf_workload_time(const tperf_workload *workload, const tperf_platform *on,
                         const tperf_placement *placement, const tperf_op_work *works,
                         tperf_layer_cost *costs);

// The second half of tperf_workload_time: adds the times to the costs from tperf_workload_bytes.
void tperf_workload_add_times(const tperf_workload *workload, const tperf_platform *on,
                              const tperf_placement *placement, const tperf_op_work *works,
                              tperf_layer_cost *costs);

// The same from the prices of the parts: prices[n_parts].
void tperf_workload_add_prices(const tperf_workload *workload, const tperf_platform *on,
                               const tperf_either_price *const *prices, tperf_layer_cost *costs);

// Fails if the system lacks a peak that an op needs: its dtype on the tensor or vector units.
tperf_status tperf_workload_check_system(const tperf_workload *workload, const tperf_system *system,
                                         tperf_error *error);

#endif
