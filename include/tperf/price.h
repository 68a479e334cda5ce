// price.h: what an op takes: its counts x the machine x the software that runs it.
// Every question prices ops here and nowhere else: training, search, inference. Formulas: docs/model.md section 3.
#ifndef TPERF_PRICE_H
#define TPERF_PRICE_H

#include "tperf/op.h"

// What a software stack adds to the machine. lua/tperf/software.lua documents every field.
typedef struct tp_software {
    double
        compute; // time of kernels but attention's, in that of the same kernels timed on their own
    double attention;    // the same of attention's kernels
    double memory;       // of HBM traffic that arithmetic does not hide
    double comm;         // of collectives within layers
    double comm_setup_s; // seconds that each of them takes beside
    double
        host_s; // seconds that the host takes to launch a kernel: no pass is faster than its launches
    double overlap; // part of a pass during which data-parallel traffic is under way, [0, 1]
    double
        optimizer; // part of the HBM's bandwidth that the optimizer's step reaches; 0: it takes no time
} tp_software;

// Kernels as fast as timed on their own, launched in no time, and no step of the optimizer.
extern const tp_software tp_software_none;

tp_status tp_software_validate(const tp_software *software, tp_error *error);

// What a step runs on.
typedef struct tp_platform {
    const tp_system *system;
    const tp_rules *rules;
    const tp_software *software;
} tp_platform;

typedef struct tp_pass_cost {
    double compute;        // seconds at the compute peaks, launch included
    double exposed_memory; // seconds of HBM traffic beyond that
    double comm;           // seconds of collectives that nothing hides
    double
        offload; // seconds of copies to or from the host that nothing hides; of whole layers alone
    double time; // the sum, and for a recomputed op's backward pass the forward pass too
    double launches; // kernels that the host launches
} tp_pass_cost;

// A placement of the axes that cut layers, and the panels of SUMMA ops.
typedef struct tp_placement {
    int64_t fast[TP_AXES_MAX];
    int64_t panels;
} tp_placement;

// What no placement and no software changes about an op: its passes without collectives (comm and time are 0), its
// FLOPs.
typedef struct tp_op_work {
    tp_pass_cost forward, backward;
    double flops;
} tp_op_work;

typedef struct tp_op_cost {
    tp_pass_cost forward, backward;
    double weight_grad; // seconds of the backward pass that a schedule may put off
} tp_op_cost;

tp_op_work tp_op_work_of(const tp_op *op, const tp_platform *on, int64_t panels);

// sizes: GPUs along each axis, which the op's collectives name by index.
tp_op_cost tp_op_cost_of(const tp_op *op, const tp_op_work *work, const tp_platform *on,
                         const int64_t *sizes, const tp_placement *placement);

// What of a recomputed op's forward pass the backward pass begins with.
tp_pass_cost tp_pass_again(const tp_op *op, const tp_pass_cost *forward);

// One pass of an op: its own, or one with other counts.
tp_pass_cost tp_pass_cost_of(const tp_op *op, const tp_pass *pass, const tp_platform *on,
                             const int64_t *sizes, const tp_placement *placement);

// The panels in which an op's collectives travel: 1 but for SUMMA's.
double tp_panels_of(const tp_op *op, int64_t panels);

// Seconds of one panel of one of a pass's collectives.
double tp_comm_time(const tp_comm *comm, const tp_platform *on, const int64_t *sizes,
                    const tp_placement *placement, double panels);

// Seconds that a kernel of so much work holds up what comes after it for the collectives beside it: those that run beside
// all of it, `comm` seconds of them, or the panels after the first, `comm` seconds each. The one place that says what a
// kernel hides.
double tp_late_time(const tp_op *op, const tp_platform *on, double panels, double comm,
                    double work);

// Seconds of a message from one GPU to another, of the same fast domain or of another.
double tp_send_time(const tp_platform *on, double bytes, bool in_domain);

void tp_pass_cost_add(tp_pass_cost *sum, const tp_pass_cost *part, double times);

// FLOPs of one pass as the published solver reports them: an op on the tensor cores counts its vector
// FLOPs times tensor peak / vector peak (Q6).
double tp_pass_equivalent_flops(const tp_op *op, const tp_pass *pass, const tp_system *system);

#endif
