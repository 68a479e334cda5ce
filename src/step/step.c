// step.c: see tperf/step.h. A pass is its layers' ops in order, what of the exchanges with the replicas nothing hides
// after the layer beside which they run, the host's launches, and a message.
#include <math.h>
#include <string.h>

#include "step/writer.h"

const char *const tp_task_names[TP_TASK_KIND_COUNT] = {
    "kernel",           "collective", "message",   "gather weights",
    "reduce gradients", "launches",   "optimizer", "offload",
};
const char *const tp_resource_names[TP_RESOURCE_COUNT] = {"compute", "fast", "nics", "host",
                                                          "copy"};

void tp_task_list_release(tp_task_list *list) {
    tp_heap_free(list->tasks);
    *list = (tp_task_list){0};
}

void tp_step_release(tp_step *step) {
    tp_heap_free(step->prices);
    step->prices = NULL;
}

static tp_status no_memory(tp_error *error) {
    return tp_error_set(error, TP_NO_MEMORY, "not enough memory for the tasks of a step");
}

// The exchanges of every section: what is hidden, and the bytes.
static void price_exchanges(tp_step *s) {
    tp_exchange exchanges[TP_SECTIONS_MAX];
    const tp_platform *on = &s->job->on;
    tp_exchange_times(s->candidate, s->job, s->network, s->costs, exchanges);
    for (int i = 0; i < s->network->n_kinds + 2; i++) {
        tp_replica_comm comms[TP_REPLICA_COMMS_MAX];
        int n = tp_replica_comms_of(s->candidate, s->job, s->network, s->costs, i, comms);
        s->exposures[i] = tp_exposure_of(&exchanges[i], &s->costs[i], s->job);
        for (int c = 0; c < n; c++) {
            tp_route route = tp_collective_route(on->system, on->rules, comms[c].kind,
                                                 comms[c].bytes, comms[c].group);
            double *gathered = s->gather_bytes[i], *reduced = s->reduce_bytes[i];
            bool again =
                comms[c].gathers && s->candidate->zero >= 3 && s->job->training->reshards > 0;
            double *bytes[] = {comms[c].gathers ? gathered : reduced, again ? reduced : NULL};
            for (int b = 0; b < 2; b++) {
                if (!bytes[b]) continue;
                bytes[b][0] += route.fast_bytes;
                bytes[b][1] += route.nic_bytes;
            }
        }
    }
}

tp_status tp_step_init(tp_step *step, const tp_heap *heap, const tp_candidate *candidate,
                       const tp_job *job, const tp_network *network, const tp_layer_cost *costs,
                       tp_error *error) {
    *step = (tp_step){
        .heap = heap, .candidate = candidate, .job = job, .network = network, .costs = costs};
    step->prices = tp_heap_new(heap, network->n_ops + 1, sizeof *step->prices);
    if (!step->prices) return no_memory(error);
    const tp_placement *placement = &candidate->placement;
    for (size_t i = 0; i < network->n_ops; i++) {
        const tp_op *op = &network->ops[i];
        tp_op_work work = tp_op_work_of(op, &job->on, placement->panels);
        tp_op_cost *price = &step->prices[i];
        price->weight_grad =
            tp_op_cost_of(op, &work, &job->on, network->sizes, placement).weight_grad;
        price->forward = tp_pass_cost_of(op, &op->forward, &job->on, network->sizes, placement);
        price->backward = tp_pass_cost_of(op, &op->backward, &job->on, network->sizes, placement);
    }
    step->hop = tp_hop_time(candidate, job, tp_hop_times(job, network));
    price_exchanges(step);
    return TP_OK;
}

// Whether every micro-batch exchanges weights, or gradients, with the replicas.
static bool each_time(const tp_step *s, bool weights) {
    const tp_training *t = s->job->training;
    return weights ? tp_gathers_each(s->candidate, t) : tp_reduces_each(s->candidate, t);
}

// Of an exchange among the replicas, that of the section and layer at hand.
static tp_task exchange(const tp_writer *w, tp_task_kind kind, double seconds, double whole) {
    const double *bytes = kind == TP_TASK_GATHER ? w->step->gather_bytes[w->section]
                                                 : w->step->reduce_bytes[w->section];
    double part = whole > 0 ? seconds / whole : 0;
    return (tp_task){.kind = kind,
                     .resources = tp_tiers(bytes[0], bytes[1]),
                     .fast_bytes = part * bytes[0],
                     .nic_bytes = part * bytes[1],
                     .seconds = seconds};
}

// When `seconds` of an exchange are done that goes on beside the tasks from `begin` on, as far as the software lets it.
static double done_beside(const tp_writer *w, size_t begin, double start, double seconds) {
    const tp_job *job = w->step->job;
    double overlap = job->training->data_overlap * job->on.software->overlap;
    bool kernels_alone = job->on.rules->data_overlap_excludes_comm;
    for (size_t i = begin; i < w->list->n; i++) {
        const tp_task *task = &w->list->tasks[i];
        if (task->beside || (kernels_alone && task->kind != TP_TASK_KERNEL)) continue;
        double window = overlap * task->seconds;
        if (window >= seconds) return fmax(task->start + seconds / overlap, start + seconds);
        seconds -= window;
    }
    return w->now;
}

// The exchange beside the pass of a layer whose tasks are those from `begin` on: what the pass hides, and then, where it
// happens every time, what it does not.
static void write_exchange(tp_writer *w, const tp_chunk *chunk, bool forward, size_t begin,
                           double start) {
    const tp_exposure *e = &w->step->exposures[w->section];
    bool each = each_time(w->step, forward);
    double hidden = forward ? e->first_gather : e->first_reduce,
           late = forward ? e->gather : e->reduce;
    tp_task_kind kind = forward ? TP_TASK_GATHER : TP_TASK_REDUCE;
    bool first_layer = w->layer == 0 && chunk->leads;
    if (hidden > 0 && (each || !first_layer)) {
        tp_task task = exchange(w, kind, hidden, hidden + late);
        task.when = each ? TP_EVERY_TIME : forward ? TP_FIRST_TIME : TP_LAST_TIME;
        task.beside = true;
        task.start = start;
        // where weight gradients are put off, it goes on beside them
        task.stop = fmax(done_beside(w, begin, start, hidden), start + hidden);
        tp_write(w, task);
    }
    if (each) tp_write_next(w, exchange(w, kind, late, hidden + late));
}

static const tp_op *op_of(const tp_step *s, size_t i, const tp_op_cost **price) {
    *price = &s->prices[i];
    return &s->network->ops[i];
}

static void write_forward(tp_writer *w, size_t begin, size_t end, bool again) {
    const tp_op_cost *price;
    for (size_t i = begin; i < end; i++) {
        const tp_op *op = op_of(w->step, i, &price);
        if (again && !op->recomputed) continue;
        tp_pass_cost cost = again ? tp_pass_again(op, &price->forward) : price->forward;
        tp_write_op(w, op, &op->forward, &cost, 0, again);
    }
}

static void write_backward(tp_writer *w, size_t begin, size_t end, tp_pass_kind pass) {
    const tp_op_cost *price;
    if (pass != TP_BACKWARD_WEIGHT) write_forward(w, begin, end, true);
    for (size_t i = end; i-- > begin;) {
        const tp_op *op = op_of(w->step, i, &price);
        double put_off = pass == TP_BACKWARD ? 0 : price->weight_grad;
        if (pass == TP_BACKWARD_WEIGHT)
            tp_write_weight_grad(w, op, &price->backward, put_off);
        else
            tp_write_op(w, op, &op->backward, &price->backward, put_off, false);
    }
}

// Activations of a layer on their way to the host, or back: beside the pass of the layer, which waits for the rest.
static void write_offload(tp_writer *w, bool forward, double start) {
    const tp_system *system = w->step->job->on.system;
    const tp_layer_cost *cost = &w->step->costs[w->section];
    if (!(cost->offload_bytes > 0)) return;
    tp_task task = {.kind = TP_TASK_OFFLOAD, .resources = TP_ON_COPY, .beside = true};
    task.seconds = cost->offload_bytes / (system->host.bandwidth * system->host.efficiency);
    task.bytes = cost->offload_bytes;
    task.start = start;
    task.stop = start + task.seconds;
    tp_write(w, task);
    w->now += forward ? cost->forward.offload : cost->backward.offload;
}

// One layer, or one end of the model.
static void write_section(tp_writer *w, const tp_chunk *chunk, tp_pass_kind pass, int section,
                          int64_t layer) {
    const tp_network *network = w->step->network;
    size_t begin = tp_section_begin(network, section), end = network->section_end[section];
    size_t first_task = w->list->n;
    double start = w->now;
    w->section = section;
    w->layer = layer;
    if (pass == TP_FORWARD)
        write_forward(w, begin, end, false);
    else
        write_backward(w, begin, end, pass);
    if (pass != TP_BACKWARD_WEIGHT) write_offload(w, pass == TP_FORWARD, start);
    if (pass != TP_BACKWARD_WEIGHT) write_exchange(w, chunk, pass == TP_FORWARD, first_task, start);
}

static void write_sections(tp_writer *w, const tp_chunk *chunk, tp_pass_kind pass) {
    int kinds = w->step->network->n_kinds;
    int64_t n = chunk->n_layers;
    bool forward = pass == TP_FORWARD;
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

// Kernels that the host launches for a pass of a stage.
static double launches_of(const tp_step *s, const tp_stage *stage, bool forward) {
    double sum = 0;
    int kinds = s->network->n_kinds;
    for (int i = 0; i < kinds + 2; i++)
        sum += tp_stage_layers(stage, i, kinds) *
               (forward ? s->costs[i].forward : s->costs[i].backward).launches;
    return sum;
}

// The host's work for a pass from `from` seconds of it on, at most up to `to`; the pass began `from` ago.
static void write_launches(tp_writer *w, double seconds, double from, double to) {
    double stop = fmin(seconds, to) - from;
    tp_task task = {.kind = TP_TASK_LAUNCHES, .resources = TP_ON_HOST, .beside = true};
    task.seconds = task.stop = stop;
    tp_write(w, task);
}

// Which tiers a hop passes, and its bytes: the average over the links between stages.
static tp_task message(const tp_step *s) {
    int64_t pp = s->candidate->pipeline->pp, fast = s->candidate->placement.fast[TP_AXIS_STAGES];
    double bytes = s->network->boundary_bytes, links = (double)pp - 1;
    double slow = fast == 1 ? links : trunc((double)pp / (double)fast - 1);
    tp_task task = {.kind = TP_TASK_MESSAGE, .seconds = s->hop};
    task.fast_bytes = (links - slow) / links * bytes;
    task.nic_bytes = slow / links * bytes;
    task.resources = tp_tiers(task.fast_bytes, task.nic_bytes);
    return task;
}

// Everything of a pass but its message, which no pass for weight gradients has.
static void write_pass(tp_writer *w, const tp_chunk *chunk, tp_pass_kind pass) {
    const tp_step *s = w->step;
    double host_s = s->job->on.software->host_s;
    bool forward = pass == TP_FORWARD;
    tp_stage_time time = tp_stage_time_of(&chunk->stage, s->network, s->costs, host_s);
    double host = host_s * launches_of(s, &chunk->stage, forward);
    double whole = forward ? time.forward : time.backward;
    double put_off = pass == TP_BACKWARD_INPUT || pass == TP_BACKWARD_WEIGHT ? time.weight_grad : 0;
    write_sections(w, chunk, pass);
    if (pass == TP_BACKWARD_WEIGHT) {
        write_launches(w, host, whole - put_off, whole);
        return;
    }
    write_launches(w, host, 0, whole - put_off);
    tp_exposure e = tp_stage_exposure(&chunk->stage, s->network, s->exposures);
    double late = !each_time(s, forward) ? 0 : forward ? e.gather : e.reduce;
    w->now = fmax(w->now, whole - put_off + late); // where the host is what everything waits for
    if (s->candidate->pipeline->pp > 1) tp_write_next(w, message(s));
}

static tp_status finish(tp_writer *w, tp_error *error) {
    w->list->length = w->now;
    if (!w->no_memory) return TP_OK;
    tp_task_list_release(w->list);
    return no_memory(error);
}

tp_status tp_step_pass(const tp_step *step, const tp_chunk *chunk, tp_pass_kind pass,
                       tp_task_list *list, tp_error *error) {
    tp_writer w = {.step = step, .list = list, .section = -1, .layer = -1};
    write_pass(&w, chunk, pass);
    return finish(&w, error);
}

// Whole matrices of updates, gathered for the optimizer's step.
static void write_updates(tp_writer *w, const tp_stage *device) {
    int kinds = w->step->network->n_kinds;
    for (w->section = 0; w->section < kinds; w->section++) {
        double seconds =
            tp_stage_layers(device, w->section, kinds) * w->step->exposures[w->section].update;
        tp_write_next(w, exchange(w, TP_TASK_GATHER, seconds, 0));
    }
}

// What a device waits for once: the exchange of its leading layer, and of all what no pass hides, where that does not
// happen in every pass. Of several chunks the others exchange theirs while the first works.
static tp_status write_waits(const tp_step *step, const tp_stage *device, bool before,
                             tp_task_list *list, tp_error *error) {
    tp_writer w = {.step = step,
                   .list = list,
                   .section = tp_leading_section(device, step->network),
                   .layer = -1};
    tp_task_kind kind = before ? TP_TASK_GATHER : TP_TASK_REDUCE;
    bool each = each_time(step, before);
    double chunks = (double)step->candidate->pipeline->virtual_stages;
    int kinds = step->network->n_kinds;
    for (int i = 0; i < kinds + 2 && !each; i++) {
        const tp_exposure *e = &step->exposures[i];
        double late = before ? e->gather : e->reduce,
               hidden = before ? e->first_gather : e->first_reduce;
        double times = tp_stage_layers(device, i, kinds) / chunks;
        w.section = i;
        if (times > 0) tp_write_next(&w, exchange(&w, kind, times * late, late + hidden));
    }
    w.section = tp_leading_section(device, step->network);
    const tp_exposure *e = &step->exposures[w.section];
    double late = before ? e->gather : e->reduce,
           hidden = before ? e->first_gather : e->first_reduce;
    tp_write_next(&w, exchange(&w, kind, hidden, late + hidden));
    if (!before) write_updates(&w, device);
    return finish(&w, error);
}

tp_status tp_step_before(const tp_step *step, const tp_stage *device, tp_task_list *list,
                         tp_error *error) {
    return write_waits(step, device, true, list, error);
}

tp_status tp_step_after(const tp_step *step, const tp_stage *device, tp_task_list *list,
                        tp_error *error) {
    return write_waits(step, device, false, list, error);
}

tp_status tp_step_optimizer(const tp_step *step, tp_task_list *list, tp_error *error) {
    tp_writer w = {.step = step, .list = list, .section = -1, .layer = -1};
    tp_host_update host = tp_optimizer_host(step->candidate, step->job, step->network, step->costs);
    double all = tp_optimizer_time(step->candidate, step->job, step->network, step->costs);
    const tp_task tasks[] = {
        {.kind = TP_TASK_OFFLOAD,
         .resources = TP_ON_COPY,
         .seconds = host.out,
         .bytes = host.bytes_out},
        {.kind = TP_TASK_OPTIMIZER, .resources = TP_ON_HOST, .seconds = host.update},
        {.kind = TP_TASK_OFFLOAD,
         .resources = TP_ON_COPY,
         .seconds = host.in,
         .bytes = host.bytes_in},
        {.kind = TP_TASK_OPTIMIZER,
         .resources = TP_ON_COMPUTE,
         .seconds = all - (host.out + host.update + host.in)},
    };
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        tp_write_next(&w, tasks[i]);
    return finish(&w, error);
}
