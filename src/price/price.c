// price.c: see tperf/price.h. Numbers Qn: tperf/rules.h.
#include "tperf/price.h"

#include <stddef.h>
#include <string.h>

#include "base/inlined.h"
#include "price/overlap.h"

#define INITIAL(type, member, name, unit, initial, ...) .member = (initial),
const tperf_software tperf_software_none = {TPERF_SOFTWARE(INITIAL)};

#define FIELD(type, member, name, unit, initial, low, high, doc, ...)                              \
    TPERF_FIELD(tperf_software, type, member, name, unit, initial, low, high, doc),
static const tperf_record_field fields[] = {TPERF_SOFTWARE(FIELD){0}};
const tperf_record tperf_software_record = {"software", sizeof(tperf_software), fields};

#define FACT(type, member, name, unit, initial, low, high, doc, from, usual) {TPERF_##from, usual},
const tperf_fact tperf_software_facts[] = {TPERF_SOFTWARE(FACT)};

void tperf_system_run(tperf_system *system, const tperf_software *software) {
    if (!system->serves) tperf_system_sustain(system);
    tperf_system_flash(system, software->flash);
}

void tperf_setup_fill(tperf_setup *setup, const tperf_system *system, const tperf_rules *rules,
                      const tperf_software *software, tperf_mode mode) {
    tperf_setup made; // the arguments may be the setup's own
    memset(&made, 0, sizeof made);
    made.described = *system;
    made.described.serves = mode == TPERF_SERVES;
    tperf_system_complete(&made.described);
    made.system = made.described;
    made.rules = *rules;
    made.has_software = software != NULL;
    made.software = software ? *software : tperf_software_none;
    if (software) tperf_system_run(&made.system, software);
    memcpy(setup, &made, sizeof made); // its padding, too: setups are compared by their bytes
}

tperf_status tperf_setup_init(tperf_setup *setup, const tperf_system *system,
                              const tperf_rules *rules, const tperf_software *software,
                              tperf_mode mode, tperf_error *error) {
    tperf_system complete = *system;
    tperf_system_complete(&complete);
    TPERF_TRY(tperf_system_validate(&complete, error));
    if (software) TPERF_TRY(tperf_record_check(&tperf_software_record, software, error));
    tperf_setup_fill(setup, &complete, rules, software, mode);
    return TPERF_OK;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

// What is reached of a rate, where a system says so.
static double part_of(double part) {
    return part > 0 ? part : 1;
}

// The highest rate that the pass's products can reach. If one of two stays in the op's own dtype, it has half of the
// work.
static double tensor_peak(const tperf_op *op, const tperf_pass *pass, const tperf_system *system) {
    const double *peaks = system->accelerator.tensor;
    bool mixed = pass->n_kernels == 2 && pass->kernels[1].wide;
    bool converts = tperf_dtype_bytes(op->matrix_dtype) > tperf_dtype_bytes(op->dtype);
    double part = converts ? part_of(system->accelerator.converted) : 1;
    double peak = part * peaks[op->matrix_dtype];
    return mixed ? 2 / (1 / peak + 1 / peaks[op->dtype]) : peak;
}

// FLOP/s of a pass's products. Those of a recurrence's chunks are small, between masks, decays and solves by the vector
// units.
static double product_rate(const tperf_op *op, const tperf_pass *pass, const tperf_system *system) {
    double rate = system->accelerator.compute_efficiency * tensor_peak(op, pass, system);
    double chunkwise = system->accelerator.chunkwise * system->accelerator.vector[TPERF_FP32];
    return op->chunkwise && chunkwise > 0 && chunkwise < rate ? chunkwise : rate;
}

// Bytes/s of HBM that a pass's kernel reaches. In training, rows in their experts' order are a few thousand at a time,
// copied from and to places all over the memory; serving engines have kernels made for them.
static double bandwidth_of(const tperf_op *op, const tperf_system *system) {
    double streamed = system->accelerator.hbm.bandwidth * system->accelerator.hbm.efficiency;
    bool scattered = op->scattered && !system->serves;
    return scattered ? part_of(system->accelerator.hbm.scattered) * streamed : streamed;
}

// The work of a pass at a constant efficiency.
static tperf_pass_work constant_time(const tperf_op *op, const tperf_pass *pass, double bytes,
                                     const tperf_platform *on) {
    const tperf_system *system = on->system;
    double work = 0, efficiency = system->accelerator.compute_efficiency;
    if (pass->tensor_flops > 0)
        work += (pass->tensor_flops - pass->masked_flops) / product_rate(op, pass, system);
    if (pass->vector_flops > 0)
        work += pass->vector_flops / (efficiency * system->accelerator.vector[op->dtype]);
    double launch = op->fused ? 0 : system->accelerator.launch_s;
    bool outside = on->rules->launch_outside_roofline;
    double moved = bytes / bandwidth_of(op, system);
    tperf_kernel_time time = {
        .setup = outside ? launch : 0,
        .work = outside ? work : launch + work,
        .traffic = op->chunkwise ? 0 : moved,
        .rest = op->chunkwise ? moved : 0,
        .hides = true,
    };
    if (system->serves && pass->routed > 0)
        time.setup +=
            system->accelerator.routing.setup_s + pass->routed * system->accelerator.routing.pair_s;
    tperf_pass_work whole = {.n_kernels = 1};
    if (pass->chunks > 1) {
        time.setup += ((double)pass->chunks - 1) * system->accelerator.launch_s;
        whole.chunked =
            1 / (double)pass->n_kernels; // the gradients of input and weights are equally large
    }
    whole.kernels[0] = time;
    return whole;
}

static double seconds_of(const tperf_kernel_time *time) {
    tperf_kernel_cost cost = tperf_kernel_cost_of(time, 1, 1);
    return cost.compute + cost.exposed_memory;
}

// Pieces run back to back at the clock of one long kernel; their curve would assume the clock of short ones. What the
// whole takes more is added, so that nothing jumps where both take as long.
static void no_faster(const tperf_op *op, const tperf_kernel *whole, const tperf_system *system,
                      bool backward, tperf_kernel_time *pieces) {
    tperf_kernel_time time;
    if (!tperf_system_kernel_time(system, op->matrix_dtype, whole, backward, &time)) return;
    pieces->setup += larger(seconds_of(&time) - seconds_of(pieces), 0);
}

// Makes a kernel one of equal pieces: of the rows of a chunked product, or of what panels divide.
static void cut(tperf_kernel *kernel, tperf_panel_cut what, double pieces) {
    double *size = what == TPERF_CUT_M ? &kernel->m : what == TPERF_CUT_N ? &kernel->n : &kernel->k;
    *size /= pieces;
}

// The same from the shapes of its kernels; false if the system lacks a curve for one of them.
static bool kernels_time(const tperf_op *op, const tperf_pass *pass, const tperf_system *system,
                         double panels, tperf_pass_work *work) {
    *work = (tperf_pass_work){.n_kernels = pass->n_kernels};
    for (int i = 0; i < pass->n_kernels; i++) {
        tperf_kernel_time *time = &work->kernels[i];
        bool backward = pass == &op->backward, chunked = i == 0 && pass->chunks > 1;
        tperf_kernel kernel = pass->kernels[i];
        tperf_dtype dtype = kernel.wide ? op->dtype : op->matrix_dtype;
        double pieces = chunked ? (double)pass->chunks : panels;
        cut(&kernel, chunked ? TPERF_CUT_M : kernel.cut, pieces);
        if (!tperf_system_kernel_time(system, dtype, &kernel, backward, time)) return false;
        if (pieces == 1) continue;
        if (chunked) work->chunked = 1;
        time->setup *= pieces;
        time->work *= pieces;
        time->traffic *= pieces;
        time->rest *= pieces;
        no_faster(op, &pass->kernels[i], system, backward, time);
    }
    return pass->n_kernels > 0;
}

// A memory-bound kernel replayed in a captured graph takes its measured time, which is less than the launch of a
// product.
static bool stream_time(const tperf_op *op, const tperf_pass *pass, const tperf_platform *on,
                        tperf_pass_work *stream) {
    const tperf_system *system = on->system;
    bool streams = system->serves && system->curves.stream.efficiency > 0 &&
                   pass != &op->backward && pass->tensor_flops == 0 && pass->routed == 0 &&
                   pass->bytes_per_panel == 0;
    if (!streams) return false;
    double setup = tperf_system_stream_time(system, 0, false);
    double launch = op->fused ? 0 : op->eager ? larger(system->accelerator.launch_s, setup) : setup;
    double work = pass->vector_flops /
                  (system->accelerator.compute_efficiency * system->accelerator.vector[op->dtype]);
    double traffic = tperf_system_stream_time(system, pass->bytes, false) - setup;
    *stream = (tperf_pass_work){
        .n_kernels = 1,
        .kernels = {{.setup = launch, .work = work, .traffic = traffic, .hides = true}},
    };
    return true;
}

static bool has_kernels(const tperf_pass *pass) {
    double counts = pass->tensor_flops + pass->vector_flops + pass->bytes + pass->bytes_per_panel;
    return counts + pass->routed + pass->host_bytes > 0;
}

tperf_pass_work tperf_pass_work_of(const tperf_op *op, const tperf_pass *pass,
                                   const tperf_platform *on, int64_t panels) {
    tperf_pass_work work = {0};
    if (pass->absent || !has_kernels(pass)) return work;
    double traffic = pass->bytes + tperf_panels_of(op, panels) * pass->bytes_per_panel;
    if (!kernels_time(op, pass, on->system, tperf_panels_of(op, panels), &work) &&
        !stream_time(op, pass, on, &work))
        work = constant_time(op, pass, traffic, on);
    if (pass->host_bytes > 0) work.kernels[0].rest += tperf_copy_time(on->system, pass->host_bytes);
    return work;
}

double tperf_panels_of(const tperf_op *op, int64_t panels) {
    return op->panels ? (double)panels : 1;
}

enum { LINEAR = 16 }; // from a collective's bit in tperf_rates to that of its being linear

static void learn_rate(tperf_rates *rates, const tperf_comm *comm, const tperf_platform *on,
                       tperf_group group) {
    int axis = comm->axis_index;
    unsigned bit = 1U << comm->kind;
    rates->known[axis] |= bit;
    if (group.size > 1 && tperf_collective_rate(on->system, on->rules, comm->kind, group,
                                                &rates->of[axis][comm->kind]))
        rates->known[axis] |= bit << LINEAR;
}

static double own_time(const tperf_comm *comm, const tperf_platform *on, double bytes,
                       tperf_group group) {
    if (comm->routing.top_k > 0)
        return tperf_dispatch_time(on->system, on->rules, &comm->routing, bytes, group);
    return tperf_collective_time(on->system, on->rules, comm->kind, bytes, group);
}

tperf_group tperf_comm_group(const tperf_comm *comm, const tperf_platform *on, const int64_t *sizes,
                             const tperf_placement *placement) {
    int axis = comm->axis_index;
    tperf_group group = {sizes[axis], placement->fast[axis], 1, 1};
    if (on->system->network.n_tiers == 0) return group;
    for (int i = 0; comm->inward >> i; i++) {
        if (!(comm->inward >> i & 1)) continue;
        group.near *= placement->fast[i];
        group.far *= sizes[i] / placement->fast[i];
    }
    return group;
}

TPERF_INLINED double comm_time(const tperf_comm *comm, const tperf_platform *on,
                               const int64_t *sizes, const tperf_placement *placement,
                               double panels) {
    int axis = comm->axis_index;
    tperf_group group = tperf_comm_group(comm, on, sizes, placement);
    tperf_rates *rates = comm->routing.top_k > 0 ? NULL : on->rates;
    double bytes = comm->bytes / panels, own;
    if (rates && !(rates->known[axis] >> comm->kind & 1)) learn_rate(rates, comm, on, group);
    if (rates && rates->known[axis] >> (comm->kind + LINEAR) & 1) {
        const tperf_rate *rate = &rates->of[axis][comm->kind];
        own = bytes == 0 ? 0 : rate->latency_s + bytes * rate->per_byte_s;
    } else {
        own = own_time(comm, on, bytes, group);
    }
    return own > 0 ? on->software->comm * own + on->software->comm_setup_s : 0;
}

double tperf_comm_time(const tperf_comm *comm, const tperf_platform *on, const int64_t *sizes,
                       const tperf_placement *placement, double panels) {
    return comm_time(comm, on, sizes, placement, panels);
}

tperf_route tperf_comm_route(const tperf_comm *comm, const tperf_platform *on, tperf_group group,
                             double panels) {
    double bytes = comm->bytes / panels;
    if (comm->routing.top_k > 0)
        return tperf_dispatch_route(on->system, &comm->routing, bytes, group);
    return tperf_collective_route(on->system, on->rules, comm->kind, bytes, group);
}

double tperf_comm_share(const tperf_comm *comm, const tperf_platform *on) {
    double all = on->system->accelerator.units, taken = comm->units;
    if (comm->beside_chunks) taken = on->system->accelerator.overlap_sms;
    if (taken == 0) taken = on->software->comm_units;
    if (!(taken > 0 && all > 0)) return 0;
    return taken < all ? taken / all : 1;
}

// Whether the host makes a call for a collective: none for what the call of a chunked product sends itself.
static bool is_called(const tperf_comm *comm, const int64_t *sizes) {
    return comm->chunking == TPERF_UNCHUNKED && sizes[comm->axis_index] > 1;
}

// How a collective delays what follows a product in c chunks of g seconds, its seconds whole T or p a chunk: ring
// max(T - (c - 1) g, slowing); pipeline (c - 1) max(p - g, 0) + p, plus the slowing.
static double late_chunks(const tperf_comm *comm, const tperf_platform *on, const int64_t *sizes,
                          const tperf_placement *placement, double chunks, double work) {
    double part = work / chunks, share = tperf_comm_share(comm, on);
    if (comm->chunking == TPERF_RING) {
        double whole = tperf_comm_time(comm, on, sizes, placement, 1);
        return tperf_exposed(whole, share * whole, (chunks - 1) * part);
    }
    double one = tperf_comm_time(comm, on, sizes, placement, chunks);
    return (chunks - 1) * tperf_exposed(one, share * one, part) + one;
}

tperf_comm_times tperf_comm_times_of(const tperf_pass *pass, const tperf_platform *on,
                                     const int64_t *sizes, const tperf_placement *placement,
                                     double panels, double chunk_work) {
    tperf_comm_times t = {0};
    for (int i = 0; i < pass->n_comms; i++) {
        const tperf_comm *comm = &pass->comms[i];
        if (tperf_comm_is_once(comm)) {
            t.once += tperf_comm_time(comm, on, sizes, placement, 1);
            continue;
        }
        double seconds = comm_time(comm, on, sizes, placement, panels),
               slowing = tperf_comm_share(comm, on) * seconds;
        t.calls += is_called(comm, sizes);
        t.carried += seconds;
        if (sizes[comm->axis_index] > placement->fast[comm->axis_index]) t.crossing += seconds;
        t.slowing += slowing;
        if (comm->chunking != TPERF_UNCHUNKED) {
            t.late_chunks +=
                late_chunks(comm, on, sizes, placement, (double)pass->chunks, chunk_work);
            t.chunked = true;
            continue;
        }
        *(comm->beside ? &t.beside : &t.waited) += seconds;
        if (comm->beside) t.slowing_beside += slowing;
    }
    return t;
}

// SUMMA's panels after the first travel beside the products, `comm` seconds each.
static double late_panels(const tperf_platform *on, double panels, double comm, double slowing,
                          double work) {
    work += slowing;
    if (on->rules->panels_overlap_exactly)
        return (panels - 1) * larger(comm - work / panels, 0) + slowing;
    return larger(panels * comm - work, 0) + slowing;
}

double tperf_late_beside_kernels(const tperf_op *op, const tperf_platform *on,
                                 const tperf_comm_times *t, double panels, double kernels) {
    if (op->panels) return late_panels(on, panels, t->waited, panels * t->slowing, kernels);
    return tperf_exposed(t->beside, t->slowing_beside, kernels);
}

double tperf_send_time(const tperf_platform *on, double bytes, bool in_domain) {
    return tperf_collective_time(on->system, on->rules, TPERF_SEND, bytes,
                                 (tperf_group){2, in_domain ? 2 : 1, 1, 1});
}

// Whether the pass multiplies for gradients of the op's own weights.
static bool makes_gradients(const tperf_op *op, const tperf_pass *pass) {
    return pass == &op->backward && op->weight_bytes > 0 && !op->frozen && pass->tensor_flops > 0;
}

// A part of a kernel.
static tperf_kernel_time part_of_kernel(const tperf_kernel_time *time, double part) {
    return (tperf_kernel_time){part * time->setup, part * time->work, part * time->traffic,
                               part * time->rest, time->hides};
}

// The part of a pass's last kernel that makes the weights' gradient: all of it, or half where one stands for both
// products.
static double weight_part(const tperf_op *op, const tperf_pass_work *work) {
    return work->n_kernels > 1 || op->stopped ? 1 : 0.5;
}

// The product dW = X^T dY, which adds its gradients to those kept, or after which a kernel does.
static tperf_kernel_time weight_product(const tperf_op *op, const tperf_pass_work *work,
                                        const tperf_platform *on) {
    const tperf_system *system = on->system;
    tperf_kernel_time time =
        part_of_kernel(&work->kernels[work->n_kernels - 1], weight_part(op, work));
    if (!on->software->accumulates) return time;
    double rate = system->accelerator.hbm.bandwidth * system->accelerator.hbm.efficiency;
    double seconds = op->parameters * tperf_accumulation_bytes(on->software) / rate;
    *(on->software->fused_accumulation ? &time.traffic : &time.rest) += seconds;
    return time;
}

static tperf_kernel_cost kernel_cost(const tperf_op *op, const tperf_kernel_time *time,
                                     const tperf_software *software) {
    double compute = op->attention ? software->attention : software->compute;
    return tperf_kernel_cost_of(time, compute, software->memory);
}

// What a pass's launches take, in calls of the software's modules.
static double launches_of(const tperf_pass_work *work, const tperf_software *software) {
    double call = tperf_module_call(software);
    if (call == 0) return work->launches + work->bare_launches;
    return work->launches + work->bare_launches * tperf_bare_call(software) / call;
}

// Adds a kernel to its pass; returns its seconds.
static double run_kernel(tperf_pass_cost *cost, const tperf_op *op, const tperf_kernel_time *time,
                         const tperf_software *software) {
    tperf_kernel_cost one = kernel_cost(op, time, software);
    cost->compute += one.compute;
    cost->exposed_memory += one.exposed_memory;
    return one.compute + one.exposed_memory;
}

// The kernels of a pass in this software.
static tperf_pass_cost run_kernels(const tperf_pass_work *work, const tperf_op *op,
                                   const tperf_pass *pass, const tperf_platform *on) {
    const tperf_software *software = on->software;
    tperf_pass_cost cost = {.launches = launches_of(work, software)};
    int last = software->accumulates && makes_gradients(op, pass) ? work->n_kernels - 1 : -1;
    for (int i = 0; i < work->n_kernels; i++) {
        double seconds = 0, part = i == last ? weight_part(op, work) : 0;
        if (part < 1) {
            tperf_kernel_time rest = part_of_kernel(&work->kernels[i], 1 - part);
            seconds += run_kernel(&cost, op, &rest, software);
        }
        if (part > 0) {
            tperf_kernel_time product = weight_product(op, work, on);
            seconds += run_kernel(&cost, op, &product, software);
        }
        if (i == 0) cost.chunked = work->chunked * seconds;
    }
    cost.time = cost.compute + cost.exposed_memory;
    if (cost.chunked > 0) cost.chunked /= cost.time;
    double times = tperf_op_times(op);
    cost.compute *= times;
    cost.exposed_memory *= times;
    cost.time *= times;
    cost.launches *= times;
    return cost;
}

// Adds a pass's collectives to the cost of its kernels. put_off: seconds of these in the other half of a split pass.
// Returns tperf_op_cost's late_split.
static double add_comms(tperf_pass_cost *cost, const tperf_op *op, const tperf_pass *pass,
                        const tperf_platform *on, const int64_t *sizes,
                        const tperf_placement *placement, double put_off) {
    if (pass->n_comms == 0) return 0;
    double times = tperf_op_times(op), kernels = cost->time / times,
           chunks = cost->chunked * kernels;
    double panels = tperf_panels_of(op, placement->panels);
    tperf_comm_times t = tperf_comm_times_of(pass, on, sizes, placement, panels, chunks);
    // Without kernels, the op's own call is that of its first collective.
    double calls = has_kernels(pass) ? t.calls : larger(t.calls - 1, 0);
    if (cost->launches > 0) cost->launches += times * calls;
    cost->once = t.once;
    cost->carried = times * panels * t.carried;
    cost->crossing = times * panels * t.crossing;
    cost->slowing = panels * t.slowing;
    double window = kernels - (t.chunked ? chunks : 0);
    double late = tperf_late_beside_kernels(op, on, &t, panels, window);
    cost->comm = times * (t.waited + late + t.late_chunks);
    cost->slowing *= times;
    cost->time += cost->comm;
    if (put_off == 0 || !(op->panels || t.beside > 0)) return 0;
    window = larger(window - put_off / times, 0);
    return times * (tperf_late_beside_kernels(op, on, &t, panels, window) - late);
}

tperf_pass_cost tperf_pass_priced(const tperf_pass_work *work, const tperf_op *op,
                                  const tperf_pass *pass, const tperf_platform *on,
                                  const int64_t *sizes, const tperf_placement *placement) {
    tperf_pass_cost cost = run_kernels(work, op, pass, on);
    add_comms(&cost, op, pass, on, sizes, placement, 0);
    return cost;
}

tperf_pass_cost tperf_pass_cost_of(const tperf_op *op, const tperf_pass *pass,
                                   const tperf_platform *on, const int64_t *sizes,
                                   const tperf_placement *placement) {
    tperf_pass_work work = tperf_pass_work_of(op, pass, on, placement->panels);
    return tperf_pass_priced(&work, op, pass, on, sizes, placement);
}

double tperf_pass_equivalent_flops(const tperf_op *op, const tperf_pass *pass,
                                   const tperf_system *system) {
    if (pass->tensor_flops == 0 || pass->vector_flops == 0)
        return pass->tensor_flops + pass->vector_flops;
    return pass->tensor_flops + pass->vector_flops * system->accelerator.tensor[op->matrix_dtype] /
                                    system->accelerator.vector[op->dtype];
}

static double op_flops(const tperf_op *op, const tperf_platform *on) {
    const tperf_pass *f = &op->forward, *b = &op->backward;
    double times = tperf_op_times(op);
    if (!on->rules->flops_without_equivalents)
        return times * (tperf_pass_equivalent_flops(op, f, on->system) +
                        tperf_pass_equivalent_flops(op, b, on->system));
    double forward = f->tensor_flops + f->vector_flops;
    bool again = op->recomputed && on->rules->recompute_counts_everywhere;
    return times * (forward * (again ? 2 : 1) + b->tensor_flops + b->vector_flops);
}

// Adds the host's calls for a pass of so many kernels, n times. Without kernels, its first collective is a call of its
// own. An adapter's are calls of PyTorch alone, as are all but the first of a loop.
static void add_calls(tperf_pass_work *work, const tperf_op *op, const tperf_pass *pass,
                      double kernels, double n) {
    if (pass->absent) return;
    if (!has_kernels(pass)) {
        kernels = pass->n_comms > 0;
        n = 1;
    }
    double bare = op->adapter ? kernels : op->looped ? larger(kernels - 1, 0) : 0;
    work->launches += n * (kernels - bare);
    work->bare_launches += n * bare;
}

tperf_op_work tperf_op_work_of(const tperf_op *op, const tperf_platform *on, int64_t panels) {
    tperf_op_work work = {
        tperf_pass_work_of(op, &op->forward, on, panels),
        tperf_pass_work_of(op, &op->backward, on, panels),
        op_flops(op, on),
    };
    if (op->joined) return work;
    double calls = op->calls > 1 && !op->single ? (double)op->calls : 1;
    if (!op->fused) add_calls(&work.forward, op, &op->forward, calls, 1);
    // the gradients of the input and of the weights
    double gradients = op->single || op->frozen || op->stopped ? 1 : 2;
    if (op->backward_calls > 0)
        add_calls(&work.backward, op, &op->backward, (double)op->backward_calls, 1);
    else
        add_calls(&work.backward, op, &op->backward, calls, gradients);
    return work;
}

tperf_pass_cost tperf_pass_again(const tperf_op *op, const tperf_pass_cost *forward) {
    tperf_pass_cost again = *forward;
    double kept = op->kept_part * (forward->compute + forward->exposed_memory);
    again.compute -= op->kept_part * forward->compute;
    again.exposed_memory -= op->kept_part * forward->exposed_memory;
    again.time -= kept;
    return again;
}

// A recomputed pass counts in the time alone, and its collectives where others could travel (Q17).
static void repeat_forward(tperf_pass_cost *backward, const tperf_pass_cost *again) {
    backward->time += again->time;
    backward->carried += again->carried;
    backward->crossing += again->crossing;
}

tperf_op_cost tperf_op_kernels_of(const tperf_op *op, const tperf_op_work *work,
                                  const tperf_platform *on) {
    tperf_op_cost cost = {.forward = run_kernels(&work->forward, op, &op->forward, on),
                          .backward = run_kernels(&work->backward, op, &op->backward, on)};
    if (!makes_gradients(op, &op->backward)) return cost;
    tperf_kernel_time product = weight_product(op, &work->backward, on);
    tperf_kernel_cost last = kernel_cost(op, &product, on->software);
    cost.weight_grad = tperf_op_times(op) * (last.compute + last.exposed_memory);
    // One kernel that makes both gradients is launched with the input's.
    if (!op->single) cost.weight_launches = cost.backward.launches / (op->stopped ? 1 : 2);
    return cost;
}

void tperf_op_cost_place(tperf_op_cost *cost, const tperf_op *op, const tperf_platform *on,
                         const int64_t *sizes, const tperf_placement *placement) {
    add_comms(&cost->forward, op, &op->forward, on, sizes, placement, 0);
    cost->late_split =
        add_comms(&cost->backward, op, &op->backward, on, sizes, placement, cost->weight_grad);
    if (op->recomputed) {
        tperf_pass_cost again = tperf_pass_again(op, &cost->forward);
        if (on->rules->recompute_counts_everywhere)
            tperf_pass_cost_add(&cost->backward, &again, 1);
        else
            repeat_forward(&cost->backward, &again);
    }
}

tperf_op_cost tperf_op_cost_of(const tperf_op *op, const tperf_op_work *work,
                               const tperf_platform *on, const int64_t *sizes,
                               const tperf_placement *placement) {
    tperf_op_cost cost = tperf_op_kernels_of(op, work, on);
    tperf_op_cost_place(&cost, op, on, sizes, placement);
    return cost;
}
