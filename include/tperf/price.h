// price.h: the time of an op: its counts x the machine x the software. Training, search and inference all price ops
// here and nowhere else. Formulas: docs/model.md section 3.
#ifndef TPERF_PRICE_H
#define TPERF_PRICE_H

#include "tperf/op.h"
#include "tperf/record.h"

// Where a fact of a software stack comes from: a number of its profile (software/*.yaml) that fits to runs change, one
// that they do not, or other fields of the profile and the question.
typedef enum tperf_fact_from { TPERF_FITTED, TPERF_STATED, TPERF_DERIVED } tperf_fact_from;

// The overhead that a software stack adds to the machine, a row for each fact (tperf/record.h):
//   FACT(type, member, name, unit, initial, low, high, doc, from, usual)
// initial: of formulas alone; usual: of a profile that does not state it. Rates are relative to the same kernels timed in
// isolation.
// pytorch_call: an adapter of nn.Linear modules made a frozen product's two passes 218 us longer on the host of an H100
// and 198 us on that of an H200 (PyTorch 2.11), or 23 us for each of its 9 launches. module_calls: a forward pass of
// Megatron-LM's layer, 14 ops, makes 45 (counted by PyTorch 1.13's profiler).
// clang-format off
#define TPERF_SOFTWARE(FACT)                                                                       \
    FACT(NUMBER, compute, "compute", NULL, 1, 0.1, 20,                                             \
         "by how much the matrix products, and all other kernels but fused attention, take longer than timed on their own", \
         FITTED, TPERF_REQUIRED)                                                                   \
    FACT(NUMBER, attention, "attention", NULL, 1, 0.1, 20,                                         \
         "by how much fused attention takes longer than timed on its own", FITTED, TPERF_REQUIRED)                                   \
    FACT(NUMBER, memory, "memory", NULL, 1, 0, 20,                                                 \
         "by how much HBM traffic takes longer than the formulas have it, hidden beside the work or not", \
         FITTED, TPERF_REQUIRED)                                                                   \
    FACT(NUMBER, comm, "comm", NULL, 1, 0, 20,                                                     \
         "by how much tensor-parallel and expert-parallel communication takes longer", FITTED, TPERF_REQUIRED) \
    FACT(NUMBER, host_s, "host", "s", 0, 0, 1,                                                     \
         "seconds that the host of an HGX H100 takes to launch a kernel: no layer's pass is faster than its launches", \
         FITTED, TPERF_REQUIRED)                                                                   \
    FACT(NUMBER, overlap, "overlap", NULL, 1, 0, 1,                                                \
         "part of a pass during which data-parallel traffic is under way, and so hidden",          \
         FITTED, TPERF_REQUIRED)                                                                   \
    FACT(NUMBER, optimizer, "optimizer", NULL, 0, 0, 1,                                            \
         "part of the HBM's bandwidth that the optimizer's step reaches (0.7); 0: the step takes no time", \
         STATED, 0.7)                                                                              \
    FACT(NUMBER, comm_setup_s, "comm_setup", "s", 0, 0, 1,                                         \
         "seconds that each tensor-parallel or expert-parallel collective takes besides (0)", STATED, 0)                    \
    FACT(NUMBER, comm_units, "comm_sms", NULL, 0, 0, 1024,                                         \
         "multiprocessors that a collective takes from concurrent kernels, unless it says otherwise (20)", \
         STATED, 20)                                                                               \
    FACT(FLAG, pytorch_modules, "pytorch_modules", NULL, 0, 0, 1,                                  \
         "true: layers are PyTorch's own modules, whose kernels an HGX H100's host launches in at most module_calls " \
         "calls each (docs/model.md); false: a library's, such as TransformerEngine", STATED, 0)   \
    FACT(NUMBER, pytorch_call_s, "pytorch_call", "s", 0, 0, 1,                                     \
         "seconds in which the host of an HGX H100 launches a kernel by a call of PyTorch alone, which no library's " \
         "module wraps (23 us); 0: in those of host", STATED, 23e-6)                               \
    FACT(NUMBER, module_calls, "module_calls", NULL, 0, 0, 1e6,                                    \
         "such calls that a layer of PyTorch's own modules makes for an op (3)", STATED, 3)        \
    FACT(NUMBER, step_calls, "step_calls", NULL, 0, 0, 1e6,                                        \
         "calls of PyTorch once an iteration, while the GPUs wait: the host reads the loss and starts again with " \
         "empty queues (1200); 0: it does not read the loss after each iteration", STATED, 1200)   \
    FACT(NUMBER, muon_calls, "muon_calls", NULL, 0, 0, 1e6,                                        \
         "calls of PyTorch for a matrix in each of Muon's iterations (3); 0: a compiler makes one call of them all",   \
         STATED, 3)                                                                                \
    FACT(NUMBER, message_calls, "message_calls", NULL, 0, 0, 1e6,                                  \
         "calls of PyTorch between a message of the pipeline and the first kernel of the pass that waited for it (30): " \
         "the GPU has run out of work by then", STATED, 30)                                        \
    FACT(INTEGER, flash, "flash", NULL, 0, 0, 2,                                                   \
         "which FlashAttention fused attention is, 1 or 2; 0: the GPU's fastest kernel", DERIVED, 0) \
    FACT(FLAG, accumulates, "accumulates", NULL, 0, 0, 1,                                          \
         "whether gradients of a micro-batch are added to those kept, or copied to where replicas reduce them", \
         DERIVED, 0)                                                                               \
    FACT(FLAG, fused_accumulation, "fused_accumulation", NULL, 0, 0, 1,                            \
         "whether the product that makes gradients adds them (Megatron-LM's gradient_accumulation_fusion), not a " \
         "kernel of its own", DERIVED, 0)                                                          \
    FACT(NUMBER, gradient_bytes, "gradient_bytes", "bytes", 0, 0, 8,                               \
         "of a parameter's gradient, as the question keeps it; 0: nothing is trained", DERIVED, 0)
// clang-format on

typedef struct tperf_software {
    TPERF_SOFTWARE(TPERF_MEMBER)
} tperf_software;

extern const tperf_record tperf_software_record;
// By the record's rows: `from` and `usual`.
typedef struct tperf_fact {
    tperf_fact_from from;
    double usual;
} tperf_fact;
extern const tperf_fact tperf_software_facts[];

// Every fact's initial value: kernels as fast as in isolation, free launches, and no optimizer step.
extern const tperf_software tperf_software_none;

// Makes a system one as this software runs it: with its kernels of attention; in training, at the clock that lasts.
// Twice is as once.
void tperf_system_run(tperf_system *system, const tperf_software *software);

typedef enum tperf_mode { TPERF_TRAINS, TPERF_SERVES } tperf_mode;

// What a platform points to, as one value: copies may move and be shared by threads.
typedef struct tperf_setup {
    tperf_system described, system; // as its data say; as the software runs it
    tperf_rules rules;
    tperf_software software; // tperf_software_none without one
    bool has_software;
} tperf_setup;

// Checks the system, completes it (tperf_system_complete), and lets the software run it. software: NULL: kernels as
// timed in isolation. A setup's own system gives the same setup again.
tperf_status tperf_setup_init(tperf_setup *setup, const tperf_system *system,
                              const tperf_rules *rules, const tperf_software *software,
                              tperf_mode mode, tperf_error *error);

// The same of a system and software that have been checked.
void tperf_setup_fill(tperf_setup *setup, const tperf_system *system, const tperf_rules *rules,
                      const tperf_software *software, tperf_mode mode);

// The linear costs of collectives along each axis in one placement, computed on demand. Start with known = {0}.
typedef struct tperf_rates {
    unsigned known[TPERF_AXES_MAX]; // bit k: of collective k; bit k of the upper half: it is linear
    tperf_rate of[TPERF_AXES_MAX][TPERF_COLLECTIVE_COUNT];
} tperf_rates;

// The machine, the assumptions and the software that a step runs on.
typedef struct tperf_platform {
    const tperf_system *system;
    const tperf_rules *rules;
    const tperf_software *software;
    tperf_rates *rates; // of the placement that ops are priced in; NULL: not kept
} tperf_platform;

static inline tperf_platform tperf_setup_platform(const tperf_setup *setup) {
    return (tperf_platform){&setup->system, &setup->rules, &setup->software, NULL};
}

typedef struct tperf_pass_cost {
    double compute;        // seconds at the compute peaks, launch included
    double exposed_memory; // seconds of exposed HBM traffic
    double comm;           // seconds of exposed collectives
    // Of whole layers: seconds of exposed copies to or from the host; seconds by which the host's launches outlast the
    // GPU's work.
    double offload, host;
    double time;     // the sum; for a recomputed op's backward pass, the repeated forward pass too
    double launches; // kernels that the host launches
    double carried;  // seconds of all collectives, exposed or not
    double crossing; // the part of them that crosses fast domains
    double slowing;  // seconds that kernels beside all of them lose to their multiprocessors
    double chunked;  // the part of compute and exposed memory in chunked products
    double once; // seconds of collectives that come once an iteration, and are in no other field
} tperf_pass_cost;

// A placement of the axes that cut layers, and the panels of SUMMA ops.
typedef struct tperf_placement {
    int64_t fast[TPERF_AXES_MAX];
    int64_t panels;
} tperf_placement;

// The part of a pass's cost that depends on neither placement nor software.
typedef struct tperf_pass_work {
    int n_kernels; // 0 if it only communicates or is absent, 1 if it has no shape that matters
    tperf_kernel_time kernels[TPERF_KERNELS_MAX];
    double chunked; // the part of the first kernel that is a chunked product
    // Kernels that the host launches, each by a call of the software's modules, or of PyTorch alone; 0 from
    // tperf_pass_work_of.
    double launches, bare_launches;
} tperf_pass_work;

typedef struct tperf_op_work {
    tperf_pass_work forward, backward;
    double flops;
} tperf_op_work;

typedef struct tperf_op_cost {
    tperf_pass_cost forward, backward;
    // The part of the backward pass that a schedule may put off: seconds of the kernels that make the weights' gradient and
    // add it up, and their launches; and seconds by which collectives then delay the rest more, which no longer overlap
    // these kernels.
    double weight_grad, weight_launches, late_split;
} tperf_op_cost;

tperf_op_work tperf_op_work_of(const tperf_op *op, const tperf_platform *on, int64_t panels);

// sizes: GPUs along each axis; the op's collectives name axes by index.
tperf_op_cost tperf_op_cost_of(const tperf_op *op, const tperf_op_work *work,
                               const tperf_platform *on, const int64_t *sizes,
                               const tperf_placement *placement);

// The same in two steps: the cost of the kernels alone, wherever they are placed; then what the placement adds.
tperf_op_cost tperf_op_kernels_of(const tperf_op *op, const tperf_op_work *work,
                                  const tperf_platform *on);
void tperf_op_cost_place(tperf_op_cost *cost, const tperf_op *op, const tperf_platform *on,
                         const int64_t *sizes, const tperf_placement *placement);

// The part of a recomputed op's forward pass that its backward pass repeats first.
tperf_pass_cost tperf_pass_again(const tperf_op *op, const tperf_pass_cost *forward);

// The work of one pass, and its cost.
tperf_pass_work tperf_pass_work_of(const tperf_op *op, const tperf_pass *pass,
                                   const tperf_platform *on, int64_t panels);
tperf_pass_cost tperf_pass_priced(const tperf_pass_work *work, const tperf_op *op,
                                  const tperf_pass *pass, const tperf_platform *on,
                                  const int64_t *sizes, const tperf_placement *placement);

// The cost of one pass of an op: its own, or one with other counts.
tperf_pass_cost tperf_pass_cost_of(const tperf_op *op, const tperf_pass *pass,
                                   const tperf_platform *on, const int64_t *sizes,
                                   const tperf_placement *placement);

// The number of panels in which an op's collectives travel: 1 except for SUMMA.
double tperf_panels_of(const tperf_op *op, int64_t panels);

// The GPUs that a collective runs among.
tperf_group tperf_comm_group(const tperf_comm *comm, const tperf_platform *on, const int64_t *sizes,
                             const tperf_placement *placement);

// Seconds of one panel of one collective of a pass.
double tperf_comm_time(const tperf_comm *comm, const tperf_platform *on, const int64_t *sizes,
                       const tperf_placement *placement, double panels);

// The route of one panel of the collective, out of `panels`.
tperf_route tperf_comm_route(const tperf_comm *comm, const tperf_platform *on, tperf_group group,
                             double panels);

// The fraction of the multiprocessors that a collective takes from concurrent kernels.
double tperf_comm_share(const tperf_comm *comm, const tperf_platform *on);

// A part of a pass: the op's kernels, or one of its collectives. A cost is the sum of the segments that do not overlap
// others: both use the same rules of what a kernel hides (src/price/overlap.h).
typedef struct tperf_pass_segment {
    const tperf_comm *comm; // NULL: the kernels
    double start, stop;     // seconds from the start of the pass
    double seconds;         // in isolation: less than stop - start if it shares a resource
    double pieces,
        all;     // of a collective: those in this segment, and all equal pieces of its vector
    bool beside; // what follows does not wait for it
} tperf_pass_segment;
typedef void tperf_segment_visitor(void *context, const tperf_pass_segment *segment);

// A pass that is priced; put_off: seconds of its kernels that the other half of a split backward pass has, 0 or
// tperf_op_cost's weight_grad.
typedef struct tperf_pass_in {
    const tperf_op *op;
    const tperf_pass *pass;
    const tperf_pass_cost *cost; // without repeated forward passes
    double put_off;
} tperf_pass_in;

// Visits the segments of a pass, except collectives that come once an iteration; returns when what follows can start:
// after the cost's time, less what is put off, plus tperf_op_cost's late_split.
double tperf_pass_segments(const tperf_pass_in *in, const tperf_platform *on, const int64_t *sizes,
                           const tperf_placement *placement, tperf_segment_visitor *visit,
                           void *context);

// Seconds by which something of `seconds` delays what overlaps it for `window` seconds and loses `slowing` to it: at
// least the part that the window does not cover.
static inline double tperf_exposed(double seconds, double slowing, double window) {
    return seconds - window > slowing ? seconds - window : slowing;
}

// Seconds in which a call of the software's modules launches a kernel on the host of an HGX H100.
static inline double tperf_module_call(const tperf_software *software) {
    double own = software->module_calls * software->pytorch_call_s;
    bool shorter = software->pytorch_modules && own > 0 && software->host_s > own;
    return shorter ? own : software->host_s;
}

// The same by a call of PyTorch alone.
static inline double tperf_bare_call(const tperf_software *software) {
    double call = tperf_module_call(software), own = software->pytorch_call_s;
    return own > 0 && own < call ? own : call;
}

// Seconds of so many of the host's calls, which take `call` each on an HGX H100.
static inline double tperf_calls_time(const tperf_platform *on, double call, double calls) {
    double slowness = on->system->host.slowness;
    return call * (slowness > 0 ? slowness : 1) * calls;
}

// Seconds of the host's calls for so many kernels.
static inline double tperf_launch_time(const tperf_platform *on, double launches) {
    return tperf_calls_time(on, tperf_module_call(on->software), launches);
}

// Seconds of a copy of so many bytes to or from the host.
static inline double tperf_copy_time(const tperf_system *system, double bytes) {
    return bytes / (system->host.bandwidth * system->host.efficiency);
}

// Seconds of so many calls of PyTorch alone.
static inline double tperf_bare_calls_time(const tperf_platform *on, double calls) {
    return tperf_calls_time(on, tperf_bare_call(on->software), calls);
}

// Seconds of the calls of PyTorch that come once an iteration.
static inline double tperf_step_calls_time(const tperf_platform *on) {
    return tperf_bare_calls_time(on, on->software->step_calls);
}

// Seconds of those that come with each message.
static inline double tperf_message_calls_time(const tperf_platform *on) {
    return tperf_bare_calls_time(on, on->software->message_calls);
}

// HBM traffic of a parameter's gradient in a micro-batch, beyond the 16 bits that the product writes: it reads and
// writes the kept one in their place, or a kernel reads them and does so.
static inline double tperf_accumulation_bytes(const tperf_software *software) {
    enum { WRITTEN = 2 };
    if (!software->accumulates || software->gradient_bytes == 0) return 0;
    double kept = 2 * software->gradient_bytes;
    return software->fused_accumulation ? kept - WRITTEN : kept + WRITTEN;
}

// Seconds to send a message to another GPU, in the same fast domain or not.
double tperf_send_time(const tperf_platform *on, double bytes, bool in_domain);

static inline void tperf_pass_cost_add(tperf_pass_cost *restrict sum,
                                       const tperf_pass_cost *restrict part, double times) {
    sum->compute += times * part->compute;
    sum->exposed_memory += times * part->exposed_memory;
    sum->comm += times * part->comm;
    sum->offload += times * part->offload;
    sum->host += times * part->host;
    sum->time += times * part->time;
    sum->launches += times * part->launches;
    sum->carried += times * part->carried;
    sum->crossing += times * part->crossing;
    sum->slowing += times * part->slowing;
    sum->once += times * part->once;
}

// FLOPs of one pass as the published solver reports them: an op on the tensor cores counts its vector FLOPs times
// tensor peak / vector peak (Q6).
double tperf_pass_equivalent_flops(const tperf_op *op, const tperf_pass *pass,
                                   const tperf_system *system);

#endif
