// step.c: see tperf/step.h. A pass consists of its layers' ops in order, the exposed part of the exchanges with
// replicas after the layer that overlaps them, the host's launches, and a message. An op's tasks are the segments of its
// price; a layer takes as long as its cost says.
#include "tperf/step.h"

#include <math.h>
#include <string.h>

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

typedef struct writer {
    const tperf_step *step;
    tperf_task_list *list;
    double now;  // start of the next task
    int section; // of the next task
    int64_t layer;
    bool no_memory; // out of memory: the list is incomplete
} writer;

enum {
    TPERF_ON_COMPUTE = 1 << TPERF_COMPUTE,
    TPERF_ON_HOST = 1 << TPERF_HOST,
    TPERF_ON_COPY = 1 << TPERF_COPY
};

// The ports that a route takes.
static unsigned ports_of(const tperf_route *route) {
    return (route->fast_bytes > 0 ? 1U << TPERF_FAST : 0) |
           (route->nic_bytes > 0 ? 1U << TPERF_NICS : 0);
}

// Adds a route's bytes, so many times, to those that a task sends, and the ports to its resources.
static void send(tperf_task *task, const tperf_route *route, double times) {
    task->resources |= ports_of(route);
    task->fast_bytes += times * route->fast_bytes;
    task->nic_bytes += times * route->nic_bytes;
    for (int i = 0; i < TPERF_TIERS_MAX - 2; i++)
        task->up_bytes[i] += times * route->up_bytes[i];
}

static bool grow(writer *w) {
    tperf_task_list *list = w->list;
    size_t capacity = list->capacity ? 2 * list->capacity : 64;
    tperf_task *tasks = tperf_heap_grow(w->step->heap, list->tasks, capacity, sizeof *tasks);
    if (!tasks) return false;
    list->tasks = tasks;
    list->capacity = capacity;
    return true;
}

// Adds a task from task.start to task.stop, unless its duration is 0, of the writer's section and layer.
static void write_task(writer *w, tperf_task task) {
    tperf_task_list *list = w->list;
    if (!(task.stop > task.start) || w->no_memory) return;
    if (list->n == list->capacity && !grow(w)) {
        w->no_memory = true;
        return;
    }
    task.section = w->section;
    task.layer = w->layer;
    list->tasks[list->n++] = task;
}

// Adds a task that starts now; the next one starts when it ends.
static void write_next(writer *w, tperf_task task) {
    task.start = w->now;
    task.stop = w->now + task.seconds;
    write_task(w, task);
    w->now = task.stop;
}

static tperf_status no_memory(tperf_error *error) {
    return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for the tasks of a step");
}

static void add_route(tperf_route *sum, const tperf_route *route) {
    sum->fast_bytes += route->fast_bytes;
    sum->nic_bytes += route->nic_bytes;
    for (int i = 0; i < TPERF_TIERS_MAX - 2; i++)
        sum->up_bytes[i] += route->up_bytes[i];
}

// The exchanges of every section: exposures and bytes.
static void price_exchanges(tperf_step *s) {
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    const tperf_platform *on = &s->plan.job->on;
    tperf_exchange_times(&s->plan, exchanges);
    tperf_exposures_of(&s->plan, exchanges, tperf_optimizer_time(&s->plan), s->exposures);
    for (int i = 0; i < s->plan.workload->n_sections; i++) {
        s->updates[i] = exchanges[i].update;
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
static tperf_task exchange(const writer *w, tperf_task_kind kind, double seconds, double whole) {
    const tperf_route *sent =
        kind == TPERF_TASK_GATHER ? &w->step->gathered[w->section] : &w->step->reduced[w->section];
    tperf_task task = {.kind = kind, .seconds = seconds};
    send(&task, sent, whole > 0 ? seconds / whole : 0);
    return task;
}

// When `seconds` of an overlapped exchange are done, if it runs beside the tasks from `begin` on as far as the software
// allows.
static double done_beside(const writer *w, size_t begin, double start, double seconds,
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

// Seconds of an exchange that a layer's pass hides, and that come after it.
typedef struct parts {
    double hidden, late;
} parts;

// Of a pass's exchange. A split backward pass that reduces gradients of its own does so in the half that makes them.
static parts exchange_of(const tperf_exposure *e, tperf_pass_kind pass, bool each) {
    double reduced = e->reduce + e->hidden_reduce - e->again;
    if (pass == TPERF_FORWARD) return (parts){e->hidden_gather, e->gather};
    if (each && pass == TPERF_BACKWARD_INPUT)
        return (parts){e->again - e->late_input, e->late_input};
    if (each && pass == TPERF_BACKWARD_WEIGHT)
        return (parts){reduced - e->late_weight, e->late_weight};
    if (pass == TPERF_BACKWARD_WEIGHT) return (parts){0, 0};
    return (parts){e->hidden_reduce, e->reduce};
}

// Writes the exchange that overlaps the pass of a layer, whose tasks start at `begin`: first the hidden part, then, if
// it happens in every pass, the exposed part.
static void write_exchange(writer *w, const tperf_chunk *chunk, tperf_pass_kind pass, size_t begin,
                           double start) {
    bool forward = pass == TPERF_FORWARD, each = each_time(w->step, forward);
    const tperf_exposure *e = &w->step->exposures[w->section];
    const tperf_training *training = w->step->plan.job->training;
    double overlap = tperf_window(w->step->plan.job,
                                  forward ? training->gather_overlap : training->reduce_overlap);
    double whole = forward ? e->gather + e->hidden_gather : e->reduce + e->hidden_reduce;
    parts of = exchange_of(e, pass, each);
    tperf_task_kind kind = forward ? TPERF_TASK_GATHER : TPERF_TASK_REDUCE;
    bool first_layer = w->layer == 0 && chunk->leads;
    if (of.hidden > 0 && (each || !first_layer)) {
        tperf_task task = exchange(w, kind, of.hidden, whole);
        task.when = each ? TPERF_EVERY_TIME : forward ? TPERF_FIRST_TIME : TPERF_LAST_TIME;
        task.beside = true;
        task.start = start;
        // where weight gradients are delayed, it continues beside them
        task.stop = fmax(done_beside(w, begin, start, of.hidden, overlap), start + of.hidden);
        write_task(w, task);
    }
    if (each) write_next(w, exchange(w, kind, of.late, whole));
}

// An op's tasks.
typedef struct op_writer {
    writer *w;
    const tperf_op *op;
    bool again;
} op_writer;

static tperf_task collective(const op_writer *o, const tperf_pass_segment *segment, double times) {
    const tperf_plan *plan = &o->w->step->plan;
    const tperf_comm *comm = segment->comm;
    tperf_group group =
        tperf_comm_group(comm, &plan->job->on, plan->workload->sizes, &plan->candidate->placement);
    tperf_route route = tperf_comm_route(comm, &plan->job->on, group, segment->all);
    double pieces = times * segment->pieces;
    tperf_task task = {.kind = TPERF_TASK_COLLECTIVE,
                       .op = o->op,
                       .comm = comm,
                       .bytes = pieces * comm->bytes / segment->all};
    send(&task, &route, pieces);
    return task;
}

static void write_segment(void *context, const tperf_pass_segment *segment) {
    op_writer *o = context;
    tperf_task task = {.kind = TPERF_TASK_KERNEL, .resources = TPERF_ON_COMPUTE, .op = o->op};
    if (segment->comm) task = collective(o, segment, 1);
    task.again = o->again;
    task.beside = segment->beside;
    task.seconds = segment->seconds;
    task.start = o->w->now + segment->start;
    task.stop = o->w->now + segment->stop;
    write_task(o->w, task);
}

static void write_op(writer *w, const tperf_pass_in *in, bool again) {
    const tperf_plan *plan = &w->step->plan;
    op_writer o = {w, in->op, again};
    w->now += tperf_pass_segments(in, &plan->job->on, plan->workload->sizes,
                                  &plan->candidate->placement, write_segment, &o);
}

// Writes the collectives of so many layers' op that come once an iteration.
static void write_once(writer *w, const tperf_op *op, double times) {
    const tperf_plan *plan = &w->step->plan;
    for (int i = 0; i < op->backward.n_comms; i++) {
        const tperf_comm *comm = &op->backward.comms[i];
        if (!tperf_comm_is_once(comm)) continue;
        tperf_task task =
            collective(&(op_writer){w, op, false},
                       &(tperf_pass_segment){.comm = comm, .pieces = 1, .all = 1}, times);
        task.seconds = times * tperf_comm_time(comm, &plan->job->on, plan->workload->sizes,
                                               &plan->candidate->placement, 1);
        write_next(w, task);
    }
}

static void write_forward(writer *w, size_t begin, size_t end, bool again) {
    for (size_t i = begin; i < end; i++) {
        const tperf_op *op = w->step->plan.workload->ops[i];
        const tperf_pass_cost *forward = &w->step->prices[i].forward;
        if (again && !op->recomputed) continue;
        tperf_pass_cost cost = again ? tperf_pass_again(op, forward) : *forward;
        write_op(w, &(tperf_pass_in){op, &op->forward, &cost, 0}, again);
    }
}

static void write_backward(writer *w, size_t begin, size_t end, tperf_pass_kind pass) {
    write_forward(w, begin, end, true);
    for (size_t i = end; i-- > begin;) {
        const tperf_op *op = w->step->plan.workload->ops[i];
        const tperf_op_cost *price = &w->step->prices[i];
        double put_off = pass == TPERF_BACKWARD ? 0 : price->weight_grad;
        write_op(w, &(tperf_pass_in){op, &op->backward, &price->backward, put_off}, false);
    }
}

// Writes the kernels that the other half of a split backward pass has put off.
static void write_weights(writer *w, size_t begin, size_t end) {
    for (size_t i = end; i-- > begin;)
        write_next(w, (tperf_task){.kind = TPERF_TASK_KERNEL,
                                   .resources = TPERF_ON_COMPUTE,
                                   .op = w->step->plan.workload->ops[i],
                                   .seconds = w->step->prices[i].weight_grad});
}

// Writes the offload or reload of a layer's activations beside its pass.
static void write_offload(writer *w, double start) {
    double bytes = w->step->plan.costs[w->section].offload_bytes;
    if (!(bytes > 0)) return;
    tperf_task task = {.kind = TPERF_TASK_OFFLOAD, .resources = TPERF_ON_COPY, .beside = true};
    task.seconds = tperf_copy_time(w->step->plan.job->on.system, bytes);
    task.bytes = bytes;
    task.start = start;
    task.stop = start + task.seconds;
    write_task(w, task);
}

// Writes the host's work for a layer's pass that began at `start`.
static void write_launches(writer *w, double launches, double start) {
    tperf_task task = {.kind = TPERF_TASK_LAUNCHES, .resources = TPERF_ON_HOST, .beside = true};
    task.seconds = tperf_launch_time(&w->step->plan.job->on, launches);
    task.start = start;
    task.stop = start + task.seconds;
    write_task(w, task);
}

// A layer's pass as its cost says: its seconds, and its launches.
typedef struct layer_pass {
    double seconds, launches;
} layer_pass;

static layer_pass layer_pass_of(const tperf_layer_cost *cost, tperf_pass_kind pass) {
    double put_off = cost->weight_launches;
    switch (pass) {
    case TPERF_FORWARD:
        return (layer_pass){cost->forward.time, cost->forward.launches};
    case TPERF_BACKWARD_INPUT:
        return (layer_pass){cost->input_half, cost->backward.launches - put_off};
    case TPERF_BACKWARD_WEIGHT:
        return (layer_pass){cost->weight_half, put_off};
    default:
        return (layer_pass){cost->backward.time, cost->backward.launches};
    }
}

// Writes one layer, or one end of the model.
static void write_section(writer *w, const tperf_chunk *chunk, tperf_pass_kind pass, int section,
                          int64_t layer) {
    const tperf_workload *workload = w->step->plan.workload;
    size_t begin = tperf_section_begin(workload, section), end = workload->section_end[section];
    size_t first_task = w->list->n;
    double start = w->now;
    w->section = section;
    w->layer = layer;
    if (pass == TPERF_FORWARD)
        write_forward(w, begin, end, false);
    else if (pass == TPERF_BACKWARD_WEIGHT)
        write_weights(w, begin, end);
    else
        write_backward(w, begin, end, pass);
    layer_pass whole = layer_pass_of(&w->step->plan.costs[section], pass);
    w->now = start + whole.seconds;
    write_launches(w, whole.launches, start);
    if (pass != TPERF_BACKWARD_WEIGHT) write_offload(w, start);
    write_exchange(w, chunk, pass, first_task, start);
}

static void write_sections(writer *w, const tperf_chunk *chunk, tperf_pass_kind pass) {
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
    send(&task, &sent, 1);
    send(&task, &gather, 1);
    return task;
}

// Writes a pass's message, which ends when the next stage's pass can start: after the pass, if it travels beside others.
static void write_message(writer *w, const tperf_chunk *chunk, tperf_pass_kind pass) {
    const tperf_message *m = &w->step->message;
    tperf_task task = message(w->step);
    bool stays = pass == TPERF_FORWARD ? chunk->leaves : chunk->enters;
    if (m->way == 0 || stays) {
        task.seconds = m->alone;
        write_next(w, task);
        return;
    }
    task.beside = true;
    task.start = w->now;
    task.stop = w->now + task.seconds;
    write_task(w, task);
    w->now += m->alone;
}

static void write_pass(writer *w, const tperf_chunk *chunk, tperf_pass_kind pass) {
    write_sections(w, chunk, pass);
    if (pass != TPERF_BACKWARD_WEIGHT && w->step->plan.candidate->pipeline->pp > 1)
        write_message(w, chunk, pass);
}

static tperf_status finish(writer *w, tperf_error *error) {
    w->list->length = w->now;
    if (!w->no_memory) return TPERF_OK;
    tperf_task_list_release(w->list);
    return no_memory(error);
}

tperf_status tperf_step_pass(const tperf_step *step, const tperf_chunk *chunk, tperf_pass_kind pass,
                             tperf_task_list *list, tperf_error *error) {
    writer w = {.step = step, .list = list, .section = -1, .layer = -1};
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
    tperf_task task = {.kind = TPERF_TASK_REDUCE, .seconds = tperf_joint_time(s->plan.job, joint)};
    send(&task, &route, 1);
    return task;
}

// Writes the reductions of replicated parameters' gradients, and the gathers of whole update matrices for the optimizer
// step.
static void write_updates(writer *w, const tperf_stage *device) {
    const tperf_workload *workload = w->step->plan.workload;
    int kinds = workload->n_kinds;
    for (w->section = 0; w->section < workload->n_sections; w->section++) {
        double layers = tperf_stage_layers(device, w->section, workload);
        size_t begin = tperf_section_begin(workload, w->section);
        for (size_t i = begin; layers > 0 && i < workload->section_end[w->section]; i++)
            write_once(w, workload->ops[i], layers);
        double seconds = layers * w->step->updates[w->section];
        write_next(w, exchange(w, TPERF_TASK_GATHER, seconds, 0));
        if (w->section < kinds || layers == 0) continue;
        write_next(w, joint_of(w->step, w->section));
    }
}

// Writes a device's single waits: the exchange of its leading layer, and all exposed exchanges that do not occur in
// every pass, of its first chunk: others exchange theirs while that works.
static tperf_status write_waits(const tperf_step *step, const tperf_device *of, bool before,
                                tperf_task_list *list, tperf_error *error) {
    const tperf_stage *device = of->stage;
    writer w = {.step = step,
                .list = list,
                .section = tperf_leading_section(device, step->plan.workload),
                .layer = -1};
    tperf_task_kind kind = before ? TPERF_TASK_GATHER : TPERF_TASK_REDUCE;
    bool each = each_time(step, before);
    const tperf_workload *workload = step->plan.workload;
    for (int i = 0; i < workload->n_sections && !each; i++) {
        const tperf_exposure *e = &step->exposures[i];
        double late = before ? e->gather : e->reduce,
               hidden = before ? e->hidden_gather : e->hidden_reduce;
        double times = tperf_stage_layers(of->first, i, workload);
        w.section = i;
        if (times > 0) write_next(&w, exchange(&w, kind, times * late, late + hidden));
    }
    w.section = tperf_leading_section(device, step->plan.workload);
    const tperf_exposure *e = &step->exposures[w.section];
    tperf_exposure whole = tperf_stage_exposure(device, step->plan.workload, step->exposures);
    write_next(&w, exchange(&w, kind, before ? whole.first_gather : whole.first_reduce,
                            before ? e->gather + e->hidden_gather : e->reduce + e->hidden_reduce));
    if (!before) write_updates(&w, device);
    return finish(&w, error);
}

tperf_status tperf_step_before(const tperf_step *step, const tperf_device *device,
                               tperf_task_list *list, tperf_error *error) {
    return write_waits(step, device, true, list, error);
}

tperf_status tperf_step_after(const tperf_step *step, const tperf_device *device,
                              tperf_task_list *list, tperf_error *error) {
    return write_waits(step, device, false, list, error);
}

tperf_status tperf_step_optimizer(const tperf_step *step, tperf_task_list *list,
                                  tperf_error *error) {
    writer w = {.step = step, .list = list, .section = -1, .layer = -1};
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
        write_next(&w, tasks[i]);
    return finish(&w, error);
}
