// price.h: what an op takes: its counts x the machine x the software that runs it.
// Every question prices ops here and nowhere else: training, search, inference. Formulas: docs/model.md section 3.
#ifndef TPERF_PRICE_H
#define TPERF_PRICE_H

#include "tperf/op.h"

// What a software stack adds to the machine. lua/tperf/describe/software.lua documents every field.
typedef struct tperf_software {
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
        comm_units; // multiprocessors that a collective takes from kernels beside it, if it does not say
    double
        optimizer; // part of the HBM's bandwidth that the optimizer's step reaches; 0: it takes no time
} tperf_software;

// Kernels as fast as timed on their own, launched in no time, and no step of the optimizer.
extern const tperf_software tperf_software_none;

tperf_status tperf_software_validate(const tperf_software *software, tperf_error *error);

// What a step runs on.
typedef struct tperf_platform {
    const tperf_system *system;
    const tperf_rules *rules;
    const tperf_software *software;
} tperf_platform;

typedef struct tperf_pass_cost {
    double compute;        // seconds at the compute peaks, launch included
    double exposed_memory; // seconds of HBM traffic beyond that
    double comm;           // seconds of collectives that nothing hides
    double
        offload; // seconds of copies to or from the host that nothing hides; of whole layers alone
    double time; // the sum, and for a recomputed op's backward pass the forward pass too
    double launches; // kernels that the host launches
    double slowing;  // seconds that kernels beside all of `comm` would lose to its multiprocessors
    double chunked;  // part of compute and exposed memory that is of a product in chunks
} tperf_pass_cost;

// A placement of the axes that cut layers, and the panels of SUMMA ops.
typedef struct tperf_placement {
    int64_t fast[TPERF_AXES_MAX];
    int64_t panels;
} tperf_placement;

// What no placement and no software changes about an op: its passes without collectives (comm and time are 0), its
// FLOPs.
typedef struct tperf_op_work {
    tperf_pass_cost forward, backward;
    double flops;
} tperf_op_work;

typedef struct tperf_op_cost {
    tperf_pass_cost forward, backward;
    double weight_grad; // seconds of the backward pass that a schedule may put off
} tperf_op_cost;

tperf_op_work tperf_op_work_of(const tperf_op *op, const tperf_platform *on, int64_t panels);

// sizes: GPUs along each axis, which the op's collectives name by index.
tperf_op_cost tperf_op_cost_of(const tperf_op *op, const tperf_op_work *work,
                               const tperf_platform *on, const int64_t *sizes,
                               const tperf_placement *placement);

// What of a recomputed op's forward pass the backward pass begins with.
tperf_pass_cost tperf_pass_again(const tperf_op *op, const tperf_pass_cost *forward);

// One pass of an op: its own, or one with other counts.
tperf_pass_cost tperf_pass_cost_of(const tperf_op *op, const tperf_pass *pass,
                                   const tperf_platform *on, const int64_t *sizes,
                                   const tperf_placement *placement);

// The panels in which an op's collectives travel: 1 but for SUMMA's.
double tperf_panels_of(const tperf_op *op, int64_t panels);

// Seconds of one panel of one of a pass's collectives.
double tperf_comm_time(const tperf_comm *comm, const tperf_platform *on, const int64_t *sizes,
                       const tperf_placement *placement, double panels);

// What it sends, in so many panels one of them.
tperf_route tperf_comm_route(const tperf_comm *comm, const tperf_platform *on, tperf_group group,
                             double panels);

// The part of the multiprocessors that a collective takes from kernels beside it.
double tperf_comm_share(const tperf_comm *comm, const tperf_platform *on);

// Seconds that a pass's kernels, of so much work, hold up what comes after them for the collectives beside them; and the
// sum that tperf_pass_cost has. The one place that says what a kernel hides.
//   beside     collectives beside all of it, `comm` seconds of them, that take `slowing` seconds of compute from it, or of
//              SUMMA the panels after the first, `comm` seconds each
//   chunks     of a product of so much work in c chunks of g each, the collective of T seconds whole or p a chunk:
//              ring max(T - (c - 1) g, slowing); pipeline (c - 1) max(p - g, 0) + p, and what slows
double tperf_late_time(const tperf_op *op, const tperf_platform *on, double panels, double comm,
                       double slowing, double work);
double tperf_late_chunks(const tperf_comm *comm, const tperf_platform *on, const int64_t *sizes,
                         const tperf_placement *placement, double chunks, double work);

// Seconds that something of `seconds` holds up for what runs beside it, and takes `slowing` seconds from: no less than
// what the other does not cover.
static inline double tperf_exposed(double seconds, double slowing, double window) {
    return seconds - window > slowing ? seconds - window : slowing;
}

// Seconds of a message from one GPU to another, of the same fast domain or of another.
double tperf_send_time(const tperf_platform *on, double bytes, bool in_domain);

void tperf_pass_cost_add(tperf_pass_cost *sum, const tperf_pass_cost *part, double times);

// FLOPs of one pass as the published solver reports them: an op on the tensor cores counts its vector
// FLOPs times tensor peak / vector peak (Q6).
double tperf_pass_equivalent_flops(const tperf_op *op, const tperf_pass *pass,
                                   const tperf_system *system);

#endif
