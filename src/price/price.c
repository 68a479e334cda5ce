// price.c: see tperf/price.h. Numbers Qn: tperf/rules.h.
#include "tperf/price.h"

#include <stddef.h>

const tp_software tp_software_none = {
    .compute = 1, .attention = 1, .memory = 1, .comm = 1, .overlap = 1};

tp_status tp_software_validate(const tp_software *s, tp_error *error) {
    const struct {
        const char *name;
        double value, low, high;
    } fields[] = {
        {"compute", s->compute, 0.1, 20},  {"attention", s->attention, 0.1, 20},
        {"memory", s->memory, 0, 20},      {"comm", s->comm, 0, 20},
        {"host", s->host_s, 0, 1},         {"overlap", s->overlap, 0, 1},
        {"optimizer", s->optimizer, 0, 1}, {"comm_setup", s->comm_setup_s, 0, 1},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!(fields[i].value >= fields[i].low && fields[i].value <= fields[i].high))
            return tp_error_set(error, TP_INVALID, "software.%s is %g, not from %g to %g",
                                fields[i].name, fields[i].value, fields[i].low, fields[i].high);
    return TP_OK;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

void tp_pass_cost_add(tp_pass_cost *sum, const tp_pass_cost *part, double times) {
    sum->compute += times * part->compute;
    sum->exposed_memory += times * part->exposed_memory;
    sum->comm += times * part->comm;
    sum->time += times * part->time;
    sum->launches += times * part->launches;
}

// Compute and exposed memory of a pass whose efficiency is a constant.
static tp_pass_cost constant_time(const tp_op *op, const tp_pass *pass, double bytes,
                                  const tp_platform *on) {
    const tp_system *system = on->system;
    double work = 0, efficiency = system->accelerator.compute_efficiency;
    if (pass->tensor_flops > 0)
        work += pass->tensor_flops / (efficiency * system->accelerator.tensor[op->matrix_dtype]);
    if (pass->vector_flops > 0)
        work += pass->vector_flops / (efficiency * system->accelerator.vector[op->dtype]);
    double memory =
        bytes / (system->accelerator.hbm.bandwidth * system->accelerator.hbm.efficiency);
    tp_pass_cost cost = {.compute = (op->fused ? 0 : system->accelerator.launch_s) + work};
    cost.exposed_memory =
        larger(memory - (on->rules->launch_outside_roofline ? work : cost.compute), 0);
    if (system->serves && pass->routed > 0)
        cost.compute +=
            system->accelerator.routing.setup_s + pass->routed * system->accelerator.routing.pair_s;
    return cost;
}

// The same from the shapes of its kernels; false when the system has no curve for one of them.
static bool kernels_time(const tp_op *op, const tp_pass *pass, const tp_system *system,
                         tp_pass_cost *cost) {
    *cost = (tp_pass_cost){0};
    for (int i = 0; i < pass->n_kernels; i++) {
        tp_kernel_time time;
        bool backward = pass == &op->backward;
        if (!tp_system_kernel_time(system, op->matrix_dtype, &pass->kernels[i], backward, &time))
            return false;
        cost->compute += time.compute;
        cost->exposed_memory += time.exposed_memory;
    }
    return pass->n_kernels > 0;
}

// A kernel that only reads and writes, replayed in a captured graph, takes what such kernels were timed at: less than
// the launch of a product.
static bool stream_time(const tp_op *op, const tp_pass *pass, const tp_platform *on,
                        tp_pass_cost *cost) {
    const tp_system *system = on->system;
    bool streams = system->serves && system->accelerator.hbm.stream.efficiency > 0 &&
                   pass != &op->backward && pass->tensor_flops == 0 && pass->routed == 0 &&
                   pass->bytes_per_panel == 0;
    if (!streams) return false;
    double setup = tp_system_stream_time(system, 0, false);
    double launch = op->fused ? 0 : op->eager ? larger(system->accelerator.launch_s, setup) : setup;
    double work = pass->vector_flops /
                  (system->accelerator.compute_efficiency * system->accelerator.vector[op->dtype]);
    double memory = tp_system_stream_time(system, pass->bytes, false) - setup;
    *cost = (tp_pass_cost){.compute = work + launch, .exposed_memory = larger(memory - work, 0)};
    return true;
}

// Compute and exposed memory of a pass as the machine has them.
static tp_pass_cost work_of_pass(const tp_op *op, const tp_pass *pass, const tp_platform *on,
                                 double panels) {
    tp_pass_cost cost = {0};
    if (pass->absent) return cost;
    if (!kernels_time(op, pass, on->system, &cost) && !stream_time(op, pass, on, &cost))
        cost = constant_time(op, pass, pass->bytes + panels * pass->bytes_per_panel, on);
    return cost;
}

double tp_panels_of(const tp_op *op, int64_t panels) {
    return op->panels ? (double)panels : 1;
}

double tp_comm_time(const tp_comm *comm, const tp_platform *on, const int64_t *sizes,
                    const tp_placement *placement, double panels) {
    tp_group group = {sizes[comm->axis_index], placement->fast[comm->axis_index]};
    double own = tp_collective_time(on->system, on->rules, comm->kind, comm->bytes / panels, group);
    return own > 0 ? on->software->comm * own + on->software->comm_setup_s : 0;
}

// Seconds of collectives; *beside: of those that run beside the pass's own work.
static double comm_time(const tp_pass *pass, const tp_platform *on, const int64_t *sizes,
                        const tp_placement *placement, double panels, double *beside) {
    double time = 0;
    *beside = 0;
    for (int i = 0; i < pass->n_comms; i++) {
        const tp_comm *comm = &pass->comms[i];
        *(comm->beside ? beside : &time) += tp_comm_time(comm, on, sizes, placement, panels);
    }
    return time;
}

double tp_late_time(const tp_op *op, const tp_platform *on, double panels, double comm,
                    double work) {
    if (!op->panels) return larger(comm - work, 0);
    if (on->rules->panels_overlap_exactly) return (panels - 1) * larger(comm - work / panels, 0);
    return larger(panels * comm - work, 0);
}

double tp_send_time(const tp_platform *on, double bytes, bool in_domain) {
    return tp_collective_time(on->system, on->rules, TP_SEND, bytes,
                              (tp_group){2, in_domain ? 2 : 1});
}

// The work as the software runs it, with its collectives, and the sum.
static void run_pass(tp_pass_cost *cost, const tp_op *op, const tp_pass *pass,
                     const tp_platform *on, const int64_t *sizes, const tp_placement *placement) {
    const tp_software *software = on->software;
    cost->compute *= op->attention ? software->attention : software->compute;
    cost->exposed_memory *= software->memory;
    double roofline = cost->compute + cost->exposed_memory;
    cost->time = roofline;
    if (pass->n_comms == 0) return;
    double beside, panels = tp_panels_of(op, placement->panels);
    cost->comm = comm_time(pass, on, sizes, placement, panels, &beside);
    cost->comm += tp_late_time(op, on, panels, op->panels ? cost->comm : beside, roofline);
    cost->time = roofline + cost->comm;
}

tp_pass_cost tp_pass_cost_of(const tp_op *op, const tp_pass *pass, const tp_platform *on,
                             const int64_t *sizes, const tp_placement *placement) {
    tp_pass_cost cost = work_of_pass(op, pass, on, tp_panels_of(op, placement->panels));
    run_pass(&cost, op, pass, on, sizes, placement);
    return cost;
}

double tp_pass_equivalent_flops(const tp_op *op, const tp_pass *pass, const tp_system *system) {
    if (pass->tensor_flops == 0 || pass->vector_flops == 0)
        return pass->tensor_flops + pass->vector_flops;
    return pass->tensor_flops + pass->vector_flops * system->accelerator.tensor[op->matrix_dtype] /
                                    system->accelerator.vector[op->dtype];
}

static double op_flops(const tp_op *op, const tp_platform *on) {
    const tp_pass *f = &op->forward, *b = &op->backward;
    if (!on->rules->flops_without_equivalents)
        return tp_pass_equivalent_flops(op, f, on->system) +
               tp_pass_equivalent_flops(op, b, on->system);
    double forward = f->tensor_flops + f->vector_flops;
    bool again = op->recomputed && on->rules->recompute_counts_everywhere;
    return forward * (again ? 2 : 1) + b->tensor_flops + b->vector_flops;
}

tp_op_work tp_op_work_of(const tp_op *op, const tp_platform *on, int64_t panels) {
    double parts = tp_panels_of(op, panels);
    tp_op_work work = {
        work_of_pass(op, &op->forward, on, parts),
        work_of_pass(op, &op->backward, on, parts),
        op_flops(op, on),
    };
    work.forward.launches = 1;
    // the gradients of the input and of the weights
    work.backward.launches = op->backward.absent ? 0 : op->frozen || op->stopped ? 1 : 2;
    return work;
}

tp_op_cost tp_op_cost_of(const tp_op *op, const tp_op_work *work, const tp_platform *on,
                         const int64_t *sizes, const tp_placement *placement) {
    tp_op_cost cost = {work->forward, work->backward, 0};
    run_pass(&cost.forward, op, &op->forward, on, sizes, placement);
    run_pass(&cost.backward, op, &op->backward, on, sizes, placement);
    // The product dW = X^T dY is as large as dX = dY W^T, and nothing waits for it.
    if (op->weight_bytes > 0 && op->backward.tensor_flops > 0 && !op->frozen)
        cost.weight_grad =
            (cost.backward.compute + cost.backward.exposed_memory) / (op->stopped ? 1 : 2);
    if (op->recomputed) {
        if (on->rules->recompute_counts_everywhere)
            tp_pass_cost_add(&cost.backward, &cost.forward, 1);
        else
            cost.backward.time += cost.forward.time;
    }
    return cost;
}
