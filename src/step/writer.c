// writer.c: the tasks of one op. See step/writer.h. Which collectives overlap a kernel is decided as in
// src/price/price.c.
#include <math.h>

#include "step/writer.h"

static bool grow(tperf_writer *w) {
    tperf_task_list *list = w->list;
    size_t capacity = list->capacity ? 2 * list->capacity : 64;
    tperf_task *tasks = tperf_heap_grow(w->step->heap, list->tasks, capacity, sizeof *tasks);
    if (!tasks) return false;
    list->tasks = tasks;
    list->capacity = capacity;
    return true;
}

void tperf_write(tperf_writer *w, tperf_task task) {
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

void tperf_write_next(tperf_writer *w, tperf_task task) {
    task.start = w->now;
    task.stop = w->now + task.seconds;
    tperf_write(w, task);
    w->now = task.stop;
}

void tperf_task_send(tperf_task *task, const tperf_route *route, double times) {
    task->fast_bytes += times * route->fast_bytes;
    task->nic_bytes += times * route->nic_bytes;
    for (int i = 0; i < TPERF_TIERS_MAX - 2; i++)
        task->up_bytes[i] += times * route->up_bytes[i];
    if (task->fast_bytes > 0) task->resources |= 1U << TPERF_FAST;
    if (task->nic_bytes > 0) task->resources |= 1U << TPERF_NICS;
}

// Leaves a part of a collective, or several.
static void shrink(tperf_task *task, double part) {
    task->seconds *= part;
    task->bytes *= part;
    task->fast_bytes *= part;
    task->nic_bytes *= part;
    for (int i = 0; i < TPERF_TIERS_MAX - 2; i++)
        task->up_bytes[i] *= part;
}

static tperf_group group_of(const tperf_writer *w, const tperf_comm *comm) {
    const tperf_step *s = w->step;
    return tperf_comm_group(comm, &s->plan.job->on, s->plan.workload->sizes,
                            &s->plan.candidate->placement);
}

// One of an op's collectives: `panels` of its `all` panels.
static tperf_task collective(const tperf_writer *w, const tperf_op *op, const tperf_comm *comm,
                             double panels, double all, bool again) {
    const tperf_step *s = w->step;
    const tperf_platform *on = &s->plan.job->on;
    tperf_route route = tperf_comm_route(comm, on, group_of(w, comm), all);
    double seconds =
        tperf_comm_time(comm, on, s->plan.workload->sizes, &s->plan.candidate->placement, all);
    if (!tperf_comm_is_once(comm)) panels *= tperf_op_times(op);
    tperf_task task = {
        .kind = TPERF_TASK_COLLECTIVE,
        .again = again,
        .op = op,
        .comm = comm,
        .bytes = panels * comm->bytes / all,
        .seconds = panels * seconds,
    };
    tperf_task_send(&task, &route, panels);
    return task;
}

static tperf_task kernel(const tperf_op *op, double seconds, bool again) {
    return (tperf_task){.kind = TPERF_TASK_KERNEL,
                        .resources = TPERF_ON_COMPUTE,
                        .again = again,
                        .op = op,
                        .seconds = seconds};
}

// A kernel waits for its gathers and broadcasts; its results are reduced or sent afterwards.
static bool comes_first(const tperf_comm *comm) {
    return comm->kind == TPERF_ALL_GATHER || comm->kind == TPERF_BROADCAST;
}

void tperf_write_once(tperf_writer *w, const tperf_op *op, double times) {
    for (int i = 0; i < op->backward.n_comms; i++) {
        if (!tperf_comm_is_once(&op->backward.comms[i])) continue;
        tperf_task task = collective(w, op, &op->backward.comms[i], 1, 1, false);
        shrink(&task, times);
        tperf_write_next(w, task);
    }
}

static void write_serial(tperf_writer *w, const tperf_op *op, const tperf_pass *pass, bool first,
                         bool again) {
    for (int i = 0; i < pass->n_comms; i++)
        if (!pass->comms[i].beside && pass->comms[i].chunking == TPERF_UNCHUNKED &&
            !tperf_comm_is_once(&pass->comms[i]) && comes_first(&pass->comms[i]) == first)
            tperf_write_next(w, collective(w, op, &pass->comms[i], 1, 1, again));
}

// The collectives of a pass that overlap its kernel, one after the other: `panels` of `all` panels each.
typedef struct row {
    const tperf_op *op;
    const tperf_pass *pass;
    double panels, all;
    double terms;   // stretches the collectives if each panel waits for a kernel
    double span;    // seconds of all of them
    double slowing; // seconds that they take from the kernel
    bool again;
} row;

static bool in_row(const row *r, const tperf_comm *comm) {
    return (r->op->panels && !tperf_comm_is_once(comm)) || comm->beside;
}

// Writes the parts of a row between `from` and `to` of its span, which begins at `at`.
static void write_beside(tperf_writer *w, const row *r, double at, double from, double to) {
    double begin = 0;
    for (int i = 0; i < r->pass->n_comms; i++) {
        const tperf_comm *comm = &r->pass->comms[i];
        if (!in_row(r, comm)) continue;
        tperf_task task = collective(w, r->op, comm, r->panels, r->all, r->again);
        double whole = r->terms * task.seconds, low = fmax(begin, from),
               high = fmin(begin + whole, to);
        begin += whole;
        if (!(high > low)) continue;
        double part = (high - low) / whole;
        task.beside = true;
        task.start = at + low;
        task.stop = at + high;
        shrink(&task, part);
        tperf_write(w, task);
    }
}

// Seconds of one panel; *slowing: the part taken from the kernel.
static double seconds_of(const tperf_writer *w, const row *r, double *slowing) {
    double sum = 0;
    *slowing = 0;
    for (int i = 0; i < r->pass->n_comms; i++) {
        const tperf_comm *comm = &r->pass->comms[i];
        if (!in_row(r, comm)) continue;
        double seconds = collective(w, r->op, comm, 1, r->all, r->again).seconds;
        sum += seconds;
        *slowing += tperf_comm_share(comm, &w->step->plan.job->on) * seconds;
    }
    return sum;
}

// The row of a pass; *late: how long it delays the kernel's successors. Of SUMMA's panels the first travels by itself,
// each further one while the previous panel is multiplied (docs/model.md section 3.1).
static row row_of(const tperf_writer *w, const tperf_op *op, const tperf_pass *pass, double work,
                  bool again, double *late) {
    row r = {.op = op,
             .pass = pass,
             .panels = 1,
             .all = tperf_panels_of(op, w->step->plan.candidate->placement.panels),
             .terms = 1,
             .again = again};
    const tperf_platform *on = &w->step->plan.job->on;
    double slowing, one = seconds_of(w, &r, &slowing);
    r.span = one;
    r.slowing = r.all * slowing;
    *late = tperf_late_time(op, on, r.all, one, r.slowing, work);
    if (!op->panels || one == 0) return r;
    bool exactly = on->rules->panels_overlap_exactly;
    r.panels = exactly ? r.all - 1 : r.all;
    r.terms = exactly ? fmax(one, work / r.all) / one : 1;
    r.span = r.terms * r.panels * one;
    return r;
}

static void write_first_panel(tperf_writer *w, const tperf_op *op, const tperf_pass *pass,
                              double panels, bool again) {
    for (int i = 0; i < pass->n_comms; i++)
        if (!tperf_comm_is_once(&pass->comms[i]))
            tperf_write_next(w, collective(w, op, &pass->comms[i], 1, panels, again));
}

static bool has_chunks(const tperf_pass *pass) {
    for (int i = 0; i < pass->n_comms; i++)
        if (pass->comms[i].chunking != TPERF_UNCHUNKED) return true;
    return false;
}

// Writes the collectives beside a chunked product of `work` seconds from `start`; returns the delay that they cause.
static double write_chunks(tperf_writer *w, const tperf_op *op, const tperf_pass *pass,
                           double start, double work, bool again) {
    const tperf_step *s = w->step;
    double chunks = (double)pass->chunks, part = work / chunks, late = 0,
           times = tperf_op_times(op);
    for (int i = 0; i < pass->n_comms; i++) {
        const tperf_comm *comm = &pass->comms[i];
        if (comm->chunking == TPERF_UNCHUNKED) continue;
        bool ring = comm->chunking == TPERF_RING;
        tperf_task task = collective(w, op, comm, ring ? 1 : chunks, ring ? 1 : chunks, again);
        double one = ring ? 0 : task.seconds / chunks;
        task.beside = true;
        task.start = start + (ring ? 0 : part);
        task.stop = task.start + fmax(task.seconds, (chunks - 1) * part + one);
        late += times * tperf_late_chunks(comm, &s->plan.job->on, s->plan.workload->sizes,
                                          &s->plan.candidate->placement, chunks, work / times);
        tperf_write(w, task);
    }
    return late;
}

void tperf_write_op(tperf_writer *w, const tperf_op *op, const tperf_pass *pass,
                    const tperf_pass_cost *cost, double put_off, bool again) {
    double work = cost->compute + cost->exposed_memory, late;
    double chunks = has_chunks(pass) ? cost->chunked * work : 0;
    row beside = row_of(w, op, pass, work - chunks, again, &late);
    if (op->panels)
        write_first_panel(w, op, pass, beside.all, again);
    else
        write_serial(w, op, pass, true, again);
    double start = w->now;
    late += write_chunks(w, op, pass, start, chunks, again);
    tperf_task task = kernel(op, work - put_off, again);
    w->now = start + task.seconds + late;
    task.start = start;
    // The kernel waits for each panel, or is slower for the collectives beside it.
    task.stop = op->panels ? w->now : fmin(w->now, start + task.seconds + beside.slowing);
    tperf_write(w, task);
    write_beside(w, &beside, start, 0, w->now - start);
    if (!op->panels) write_serial(w, op, pass, false, again);
}

void tperf_write_weight_grad(tperf_writer *w, const tperf_op *op, const tperf_pass_cost *cost,
                             double put_off) {
    if (!(put_off > 0)) return;
    double work = cost->compute + cost->exposed_memory, start = w->now, late;
    double chunks = has_chunks(&op->backward) ? cost->chunked * work : 0;
    row beside = row_of(w, op, &op->backward, work - chunks, false, &late);
    double done = work - put_off + late; // overlapped by the pass that delayed the work
    tperf_write_next(w, kernel(op, put_off, false));
    write_beside(w, &beside, start - done, done, beside.span);
}
