// step.c: see tperf/step.h. A pass consists of its layers' ops in order, the exposed part of the exchanges with
// replicas after the layer that overlaps them, the host's launches, and a message.
#include <math.h>
#include <string.h>

#include "step/writer.h"

const char *const tperf_task_names[TPERF_TASK_KIND_COUNT] = {
    "kernel",           "collective", "message",   "gather weights",
    "reduce gradients", "launches",   "optimizer", "offload",
};
const char *const tperf_resource_names[TPERF_RESOURCE_COUNT] = {"compute", "fast", "nics", "host",
                                                                "copy"};

void tperf_task_list_release(tperf_task_list *list) {
    tperf_heap_free(list->tasks);
    *list = (tperf_task_list){0};
}

void tperf_step_release(tperf_step *step) {
    tperf_heap_free(step->prices);
    step->prices = NULL;
}

static tperf_status no_memory(tperf_error *error) {
    return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for the tasks of a step");
}

// The exchanges of every section: exposures and bytes.
static void add_route(tperf_route *sum, const tperf_route *route) {
    sum->fast_bytes += route->fast_bytes;
    sum->nic_bytes += route->nic_bytes;
    for (int i = 0; i < TPERF_TIERS_MAX - 2; i++)
        sum->up_bytes[i] += route->up_bytes[i];
}

static void price_exchanges(tperf_step *s) {
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    const tperf_platform *on = &s->plan.job->on;
    tperf_exchange_times(&s->plan, exchanges);
    tperf_exposures_of(&s->plan, exchanges, tperf_optimizer_time(&s->plan), s->exposures);
    for (int i = 0; i < s->plan.workload->n_sections; i++) {
        s->updates[i] = exchanges[i].update;
        s->joint[i] = i < s->plan.workload->n_kinds ? 0 : tperf_joint_time_of(&s->plan, i);
        tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX];
        int n = tperf_replica_comms_of(&s->plan, i, comms);
        for (int c = 0; c < n; c++) {
            tperf_route route = tperf_collective_route(on->system, on->rules, comms[c].kind,
                                                       comms[c].bytes, comms[c].group);
            bool again = comms[c].gathers && s->plan.candidate->zero >= 3 &&
                         s->plan.job->training->reshards > 0;
            add_route(comms[c].gathers ? &s->gathered[i] : &s->reduced[i], &route);
            if (again) add_route(&s->reduced[i], &route);
        }
    }
}

tperf_status tperf_step_init(tperf_step *step, const tperf_heap *heap, const tperf_plan *plan,
                             tperf_error *error) {
    const tperf_candidate *candidate = plan->candidate;
    const tperf_job *job = plan->job;
    const tperf_workload *workload = plan->workload;
    *step = (tperf_step){.heap = heap, .plan = *plan};
    step->prices = tperf_heap_new(heap, workload->n_ops + 1, sizeof *step->prices);
    if (!step->prices) return no_memory(error);
    const tperf_placement *placement = &candidate->placement;
    for (size_t i = 0; i < workload->n_ops; i++) {
        const tperf_op *op = workload->ops[i];
        tperf_op_work work = tperf_op_work_of(op, &job->on, placement->panels);
        tperf_op_cost *price = &step->prices[i];
        *price = tperf_op_cost_of(op, &work, &job->on, workload->sizes, placement);
        // without the forward pass that a recomputed op's backward pass repeats: its tasks are apart
        price->backward = tperf_pass_priced(&work.backward, op, &op->backward, &job->on,
                                            workload->sizes, placement);
    }
    double hop = tperf_hop_time(candidate, job, tperf_hop_times(job, workload));
    step->message = tperf_message_of(candidate->pipeline, job, hop);
    price_exchanges(step);
    return TPERF_OK;
}

// Whether every micro-batch exchanges weights, or gradients, with the replicas.
static bool each_time(const tperf_step *s, bool weights) {
    const tperf_training *t = s->plan.job->training;
    return weights ? tperf_gathers_each(s->plan.candidate, t)
                   : tperf_reduces_each(s->plan.candidate, t);
}

// Part of an exchange among replicas, for the current section and layer.
static tperf_task exchange(const tperf_writer *w, tperf_task_kind kind, double seconds,
                           double whole) {
    const tperf_route *sent =
        kind == TPERF_TASK_GATHER ? &w->step->gathered[w->section] : &w->step->reduced[w->section];
    tperf_task task = {.kind = kind, .seconds = seconds};
    if (sent->fast_bytes > 0) task.resources |= 1U << TPERF_FAST;
    if (sent->nic_bytes > 0) task.resources |= 1U << TPERF_NICS;
    tperf_task_send(&task, sent, whole > 0 ? seconds / whole : 0);
    return task;
}

// When `seconds` of an overlapped exchange are done, if it runs beside the tasks from `begin` on as far as the software
// allows.
static double done_beside(const tperf_writer *w, size_t begin, double start, double seconds,
                          double overlap) {
    const tperf_job *job = w->step->plan.job;
    bool kernels_alone = job->on.rules->data_overlap_excludes_comm;
    for (size_t i = begin; i < w->list->n; i++) {
        const tperf_task *task = &w->list->tasks[i];
        if (task->beside || (kernels_alone && task->kind != TPERF_TASK_KERNEL)) continue;
        double window = overlap * task->seconds;
        if (window >= seconds) return fmax(task->start + seconds / overlap, start + seconds);
        seconds -= window;
    }
    return w->now;
}

// Writes the exchange that overlaps the pass of a layer, whose tasks start at `begin`: first the hidden part, then, if
// it happens in every pass, the exposed part.
static void write_exchange(tperf_writer *w, const tperf_chunk *chunk, bool forward, size_t begin,
                           double start) {
    const tperf_exposure *e = &w->step->exposures[w->section];
    bool each = each_time(w->step, forward);
    const tperf_training *training = w->step->plan.job->training;
    double overlap = tperf_window(w->step->plan.job,
                                  forward ? training->gather_overlap : training->reduce_overlap);
    double hidden = forward ? e->hidden_gather : e->hidden_reduce,
           late = forward ? e->gather : e->reduce;
    tperf_task_kind kind = forward ? TPERF_TASK_GATHER : TPERF_TASK_REDUCE;
    bool first_layer = w->layer == 0 && chunk->leads;
    if (hidden > 0 && (each || !first_layer)) {
        tperf_task task = exchange(w, kind, hidden, hidden + late);
        task.when = each ? TPERF_EVERY_TIME : forward ? TPERF_FIRST_TIME : TPERF_LAST_TIME;
        task.beside = true;
        task.start = start;
        // where weight gradients are delayed, it continues beside them
        task.stop = fmax(done_beside(w, begin, start, hidden, overlap), start + hidden);
        tperf_write(w, task);
    }
    if (each) tperf_write_next(w, exchange(w, kind, late, hidden + late));
}

static const tperf_op *op_of(const tperf_step *s, size_t i, const tperf_op_cost **price) {
    *price = &s->prices[i];
    return s->plan.workload->ops[i];
}

static void write_forward(tperf_writer *w, size_t begin, size_t end, bool again) {
    const tperf_op_cost *price;
    for (size_t i = begin; i < end; i++) {
        const tperf_op *op = op_of(w->step, i, &price);
        if (again && !op->recomputed) continue;
        tperf_pass_cost cost = again ? tperf_pass_again(op, &price->forward) : price->forward;
        tperf_write_op(w, op, &op->forward, &cost, 0, again);
    }
}

static void write_backward(tperf_writer *w, size_t begin, size_t end, tperf_pass_kind pass) {
    const tperf_op_cost *price;
    if (pass != TPERF_BACKWARD_WEIGHT) write_forward(w, begin, end, true);
    for (size_t i = end; i-- > begin;) {
        const tperf_op *op = op_of(w->step, i, &price);
        double put_off = pass == TPERF_BACKWARD ? 0 : price->weight_grad;
        if (pass == TPERF_BACKWARD_WEIGHT)
            tperf_write_weight_grad(w, op, &price->backward, put_off);
        else
            tperf_write_op(w, op, &op->backward, &price->backward, put_off, false);
    }
}

// Writes the offload or reload of a layer's activations beside its pass, which waits for the rest.
static void write_offload(tperf_writer *w, double start) {
    const tperf_system *system = w->step->plan.job->on.system;
    const tperf_layer_cost *cost = &w->step->plan.costs[w->section];
    if (!(cost->offload_bytes > 0)) return;
    tperf_task task = {.kind = TPERF_TASK_OFFLOAD, .resources = TPERF_ON_COPY, .beside = true};
    task.seconds = cost->offload_bytes / (system->host.bandwidth * system->host.efficiency);
    task.bytes = cost->offload_bytes;
    task.start = start;
    task.stop = start + task.seconds;
    tperf_write(w, task);
    w->now = fmax(w->now, task.stop);
}

// Writes the host's work for a layer's pass that began at `start`, and waits for it.
static void write_launches(tperf_writer *w, tperf_pass_kind pass, double start) {
    const tperf_layer_cost *cost = &w->step->plan.costs[w->section];
    double launches = cost->backward.launches;
    if (pass == TPERF_FORWARD) launches = cost->forward.launches;
    if (pass == TPERF_BACKWARD_INPUT) launches -= cost->weight_launches;
    if (pass == TPERF_BACKWARD_WEIGHT) launches = cost->weight_launches;
    tperf_task task = {.kind = TPERF_TASK_LAUNCHES, .resources = TPERF_ON_HOST, .beside = true};
    task.seconds = tperf_launch_time(&w->step->plan.job->on, launches);
    task.start = start;
    task.stop = start + task.seconds;
    tperf_write(w, task);
    w->now = fmax(w->now, task.stop);
}

// Writes one layer, or one end of the model.
static void write_section(tperf_writer *w, const tperf_chunk *chunk, tperf_pass_kind pass,
                          int section, int64_t layer) {
    const tperf_workload *workload = w->step->plan.workload;
    size_t begin = tperf_section_begin(workload, section), end = workload->section_end[section];
    size_t first_task = w->list->n;
    double start = w->now;
    w->section = section;
    w->layer = layer;
    if (pass == TPERF_FORWARD)
        write_forward(w, begin, end, false);
    else
        write_backward(w, begin, end, pass);
    write_launches(w, pass, start);
    if (pass == TPERF_BACKWARD_WEIGHT) return;
    write_offload(w, start);
    write_exchange(w, chunk, pass == TPERF_FORWARD, first_task, start);
}

static void write_sections(tperf_writer *w, const tperf_chunk *chunk, tperf_pass_kind pass) {
    int kinds = w->step->plan.workload->n_kinds;
    int64_t n = chunk->n_layers;
    bool forward = pass == TPERF_FORWARD;
    int first_end = forward ? kinds : kinds + 1, last_end = forward ? kinds + 1 : kinds;
    if (forward ? chunk->stage.first : chunk->stage.last)
        write_section(w, chunk, pass, first_end, -1);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = forward ? i : n - 1 - i;
        write_section(w, chunk, pass, chunk->kinds[at], at);
    }
    if (forward ? chunk->stage.last : chunk->stage.first)
        write_section(w, chunk, pass, last_end, -1);
    w->section = -1;
    w->layer = -1;
}

// The message of a hop: its tiers and bytes, averaged over the links between stages, and those of gathering its parts.
static tperf_task message(const tperf_step *s) {
    int64_t pp = s->plan.candidate->pipeline->pp,
            fast = s->plan.candidate->placement.fast[TPERF_AXIS_STAGES];
    const tperf_workload *workload = s->plan.workload;
    double part = workload->boundary_bytes / (double)workload->boundary_parts;
    double links = (double)pp - 1;
    double slow = fast == 1 ? links : trunc((double)pp / (double)fast - 1);
    tperf_route gather =
        tperf_collective_route(s->plan.job->on.system, s->plan.job->on.rules, TPERF_ALL_GATHER,
                               workload->boundary_bytes, tperf_hop_group(s->plan.job, workload));
    tperf_task task = {.kind = TPERF_TASK_MESSAGE, .seconds = s->message.alone + s->message.way};
    tperf_route sent = {.fast_bytes = (links - slow) / links * part,
                        .nic_bytes = slow / links * part};
    const tperf_system *system = s->plan.job->on.system;
    tperf_hop hop = {0};
    if (system->network.n_tiers > 0) hop = tperf_hop_times(s->plan.job, workload);
    for (int64_t i = 0; i < system->network.n_tiers; i++)
        sent.up_bytes[i] = part / links *
                           tperf_hop_links(&hop, (double)pp, (double)fast,
                                           (double)s->plan.candidate->sizes[TPERF_AXIS_REPLICAS],
                                           &system->network.tiers[i]);
    tperf_task_send(&task, &sent, 1);
    tperf_task_send(&task, &gather, 1);
    return task;
}

// Writes a pass's message, which ends when the next stage's pass can start: after the pass, if it travels beside others.
static void write_message(tperf_writer *w, const tperf_chunk *chunk, tperf_pass_kind pass) {
    const tperf_message *m = &w->step->message;
    tperf_task task = message(w->step);
    bool stays = pass == TPERF_FORWARD ? chunk->leaves : chunk->enters;
    if (m->way == 0 || stays) {
        task.seconds = m->alone;
        tperf_write_next(w, task);
        return;
    }
    task.beside = true;
    task.start = w->now;
    task.stop = w->now + task.seconds;
    tperf_write(w, task);
    w->now += m->alone;
}

static void write_pass(tperf_writer *w, const tperf_chunk *chunk, tperf_pass_kind pass) {
    write_sections(w, chunk, pass);
    if (pass != TPERF_BACKWARD_WEIGHT && w->step->plan.candidate->pipeline->pp > 1)
        write_message(w, chunk, pass);
}

static tperf_status finish(tperf_writer *w, tperf_error *error) {
    w->list->length = w->now;
    if (!w->no_memory) return TPERF_OK;
    tperf_task_list_release(w->list);
    return no_memory(error);
}

tperf_status tperf_step_pass(const tperf_step *step, const tperf_chunk *chunk, tperf_pass_kind pass,
                             tperf_task_list *list, tperf_error *error) {
    tperf_writer w = {.step = step, .list = list, .section = -1, .layer = -1};
    write_pass(&w, chunk, pass);
    return finish(&w, error);
}

// The reduction of the gradients of weights of which several stages hold copies.
static tperf_task joint_of(const tperf_step *s, int section) {
    const tperf_candidate *candidate = s->plan.candidate;
    tperf_joint joint = tperf_joint_of(s->plan.job, s->plan.workload, s->plan.costs, candidate,
                                       section, candidate->placement.fast[TPERF_AXIS_STAGES]);
    tperf_route route = tperf_collective_route(s->plan.job->on.system, s->plan.job->on.rules,
                                               TPERF_ALL_REDUCE, joint.bytes, joint.group);
    tperf_task task = {.kind = TPERF_TASK_REDUCE, .seconds = s->joint[section]};
    tperf_task_send(&task, &route, 1);
    return task;
}

// Writes the reductions of replicated parameters' gradients, and the gathers of whole update matrices for the optimizer
// step.
static void write_updates(tperf_writer *w, const tperf_stage *device) {
    const tperf_workload *workload = w->step->plan.workload;
    int kinds = workload->n_kinds;
    for (w->section = 0; w->section < workload->n_sections; w->section++) {
        double layers = tperf_stage_layers(device, w->section, workload);
        size_t begin = tperf_section_begin(workload, w->section);
        for (size_t i = begin; layers > 0 && i < workload->section_end[w->section]; i++)
            tperf_write_once(w, workload->ops[i], layers);
        double seconds = layers * w->step->updates[w->section];
        tperf_write_next(w, exchange(w, TPERF_TASK_GATHER, seconds, 0));
        if (w->section < kinds || layers == 0) continue;
        tperf_write_next(w, joint_of(w->step, w->section));
    }
}

// Writes a device's single waits: the exchange of its leading layer, and all exposed exchanges that do not occur in
// every pass. Of several chunks, the others exchange theirs while the first works.
static tperf_status write_waits(const tperf_step *step, const tperf_stage *device, bool before,
                                tperf_task_list *list, tperf_error *error) {
    tperf_writer w = {.step = step,
                      .list = list,
                      .section = tperf_leading_section(device, step->plan.workload),
                      .layer = -1};
    tperf_task_kind kind = before ? TPERF_TASK_GATHER : TPERF_TASK_REDUCE;
    bool each = each_time(step, before);
    double chunks = (double)step->plan.candidate->pipeline->virtual_stages;
    const tperf_workload *workload = step->plan.workload;
    for (int i = 0; i < workload->n_sections && !each; i++) {
        const tperf_exposure *e = &step->exposures[i];
        double late = before ? e->gather : e->reduce,
               hidden = before ? e->hidden_gather : e->hidden_reduce;
        double times = tperf_stage_layers(device, i, workload) / chunks;
        w.section = i;
        if (times > 0) tperf_write_next(&w, exchange(&w, kind, times * late, late + hidden));
    }
    w.section = tperf_leading_section(device, step->plan.workload);
    const tperf_exposure *e = &step->exposures[w.section];
    tperf_exposure whole = tperf_stage_exposure(device, step->plan.workload, step->exposures);
    tperf_write_next(
        &w, exchange(&w, kind, before ? whole.first_gather : whole.first_reduce,
                     before ? e->gather + e->hidden_gather : e->reduce + e->hidden_reduce));
    if (!before) write_updates(&w, device);
    return finish(&w, error);
}

tperf_status tperf_step_before(const tperf_step *step, const tperf_stage *device,
                               tperf_task_list *list, tperf_error *error) {
    return write_waits(step, device, true, list, error);
}

tperf_status tperf_step_after(const tperf_step *step, const tperf_stage *device,
                              tperf_task_list *list, tperf_error *error) {
    return write_waits(step, device, false, list, error);
}

tperf_status tperf_step_optimizer(const tperf_step *step, tperf_task_list *list,
                                  tperf_error *error) {
    tperf_writer w = {.step = step, .list = list, .section = -1, .layer = -1};
    tperf_host_update host = tperf_optimizer_host(&step->plan);
    double all = tperf_optimizer_time(&step->plan);
    double calls = tperf_step_calls_time(&step->plan.job->on);
    const tperf_task tasks[] = {
        {.kind = TPERF_TASK_LAUNCHES, .resources = TPERF_ON_HOST, .seconds = calls},
        {.kind = TPERF_TASK_OFFLOAD,
         .resources = TPERF_ON_COPY,
         .seconds = host.out,
         .bytes = host.bytes_out},
        {.kind = TPERF_TASK_OPTIMIZER, .resources = TPERF_ON_HOST, .seconds = host.update},
        {.kind = TPERF_TASK_OFFLOAD,
         .resources = TPERF_ON_COPY,
         .seconds = host.in,
         .bytes = host.bytes_in},
        {.kind = TPERF_TASK_OPTIMIZER,
         .resources = TPERF_ON_COMPUTE,
         .seconds = all - (host.out + host.update + host.in + calls)},
    };
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        tperf_write_next(&w, tasks[i]);
    return finish(&w, error);
}
