// inference.c: one replica's time for a prompt and for all decode steps. See tperf/inference.h.
#include "tperf/inference.h"

#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "plan/inference_memory.h"

enum {
    TOKEN_BYTES = 4,  // a token id, which returns to the first stage
    PHASE_VALUES = 6, // of a tperf_phase
    KNOWN_STEPS = 24, // as many as two intervals of decode steps are looked at in, and more
    KNOWN_COSTS = 4,  // of an op with collectives
};

// The parts of a pass's cost that phases report.
typedef struct cost {
    double compute, memory, comm, time;
} cost;

// One micro-batch's pass through all stages, or some ops' part of it.
typedef struct trip {
    cost sum;
    double *stages; // seconds of each stage
} trip;

// An op's cost with so many GPUs in a domain, of each collective: many placements differ in other axes.
typedef struct placed_cost {
    int64_t fast[TPERF_COMMS_MAX];
    const tperf_placement *at; // with further tiers, all of the placement counts
    cost cost;
} placed_cost;

// An op with collectives, whose cost depends on the placement.
typedef struct priced_op {
    size_t op; // of the workload
    int section;
    tperf_pass_work work;
    placed_cost known[KNOWN_COSTS]; // beyond them the last is forgotten
    int n_known;
    const cost *cost;             // the current placement's
    const struct priced_op *twin; // the same op in an earlier kind of layer, or NULL
} priced_op;

// Some ops of a workload.
typedef struct part {
    const tperf_workload *workload;
    double keys; // of a decode step; 0: the ops do not depend on them
    trip trip;   // of those without collectives
    size_t n_others;
    priced_op *others; // those with collectives
} part;

// An op as it was added to a part.
typedef struct added {
    size_t op;
    cost cost;        // without collectives
    priced_op *other; // with collectives
} added;

// What all placements share.
struct tperf_inference_scratch {
    const tperf_inference *serving; // of the current question
    int n_sections;
    double *passes;          // how often each stage passes each section: stage by stage
    double *layers;          // how often all stages together pass it
    part prefill, fixed;     // fixed: a step's ops that do not depend on the number of keys
    int form;                // of the decode, whose ops `fixed` has
    part steps[KNOWN_STEPS]; // the others, with as many keys
    int n_steps;
    trip prompt, constant, step; // those of one placement
    added *added;                // of the part that is filled
    size_t n_added;
};
typedef tperf_inference_scratch shared;

static void add_cost(cost *sum, const cost *one, double times) {
    sum->compute += times * one->compute;
    sum->memory += times * one->memory;
    sum->comm += times * one->comm;
    sum->time += times * one->time;
}

static void clear_sections(const shared *p, cost *sections) {
    memset(sections, 0, (size_t)p->n_sections * sizeof *sections);
}

static void add_sections(const shared *p, const cost *sections, trip *sum) {
    const double *passes = p->passes;
    for (int section = 0; section < p->n_sections; section++)
        add_cost(&sum->sum, &sections[section], p->layers[section]);
    for (size_t i = 0; i < p->serving->pipeline->n_stages; i++) {
        double time = 0;
        for (int section = 0; section < p->n_sections; section++)
            time += *passes++ * sections[section].time;
        sum->stages[i] += time;
    }
}

static void add_trip(const shared *p, const trip *one, trip *sum) {
    add_cost(&sum->sum, &one->sum, 1);
    for (size_t i = 0; i < p->serving->pipeline->n_stages; i++)
        sum->stages[i] += one->stages[i];
}

static void clear_trip(const shared *p, trip *t) {
    t->sum = (cost){0};
    memset(t->stages, 0, p->serving->pipeline->n_stages * sizeof *t->stages);
}

static double busiest_of(const shared *p, const trip *t) {
    double most = 0;
    for (size_t i = 0; i < p->serving->pipeline->n_stages; i++)
        most = tperf_larger(t->stages[i], most);
    return most;
}

static double send_time(const tperf_inference *s, const tperf_placement *placement, double bytes) {
    bool fast = placement->fast[TPERF_AXIS_STAGES] > 1;
    return s->pipeline->pp > 1 ? tperf_send_time(&s->on, bytes, fast) : 0;
}

static tperf_phase phase_of(const trip *t, double sends, double time) {
    return (tperf_phase){time,        t->sum.compute, t->sum.memory,
                         t->sum.comm, sends,          tperf_larger(time - t->sum.time - sends, 0)};
}

static cost cost_of(const tperf_pass_work *work, const tperf_op *op, const tperf_pass *pass,
                    const tperf_inference *s, const tperf_workload *workload,
                    const tperf_placement *placement) {
    tperf_pass_cost all = tperf_pass_priced(work, op, pass, &s->on, workload->sizes, placement);
    return (cost){all.compute, all.exposed_memory, all.comm, all.time};
}

// Adds the i-th op of the workload to a part, or to the sections of those without collectives. Kinds of layers share
// most ops: last: of those added for the section before, the one at the same place.
static void add_op(shared *p, part *sum, cost *sections, tperf_varying at, const tperf_pass *pass,
                   const added *last) {
    const tperf_op *op = sum->workload->ops[at.op];
    const tperf_inference *s = p->serving;
    added *now = &p->added[p->n_added++];
    *now = (added){.op = at.op};
    if (last && sum->workload->ops[last->op] != op) last = NULL;
    if (pass->n_comms > 0) {
        now->other = &sum->others[sum->n_others++];
        *now->other =
            (priced_op){.op = at.op, .section = at.section, .twin = last ? last->other : NULL};
        if (!last) now->other->work = tperf_pass_work_of(op, pass, &s->on, 1);
        return;
    }
    static const tperf_placement none;
    if (last) {
        now->cost = last->cost;
    } else {
        tperf_pass_work work = tperf_pass_work_of(op, pass, &s->on, 1);
        now->cost = cost_of(&work, op, pass, s, sum->workload, &none);
    }
    add_cost(&sections[at.section], &now->cost, 1);
}

// The ops of a section that were added last.
typedef struct recent {
    int section;
    size_t begin, before; // the first of them, and of those of the section before
} recent;

// The one at the same place of the section before as the next one of this section.
static const added *last_at(recent *r, const shared *p, int section) {
    if (section != r->section) *r = (recent){section, p->n_added, r->begin};
    size_t i = r->before + (p->n_added - r->begin);
    return i < r->begin ? &p->added[i] : NULL;
}

static void empty(shared *p, part *sum) {
    p->n_added = sum->n_others = 0;
    clear_trip(p, &sum->trip);
}

// Fills a part with all ops, except the varying ones (which are in order).
static void add_ops(shared *p, part *sum, const tperf_varying *varying, size_t n_varying) {
    const tperf_workload *workload = sum->workload;
    cost sections[TPERF_SECTIONS_MAX];
    clear_sections(p, sections);
    recent r = {0};
    empty(p, sum);
    for (int section = 0; section < p->n_sections; section++)
        for (size_t i = tperf_section_begin(workload, section); i < workload->section_end[section];
             i++) {
            if (n_varying && varying->op == i)
                varying++, n_varying--;
            else
                add_op(p, sum, sections, (tperf_varying){section, i}, &workload->ops[i]->forward,
                       last_at(&r, p, section));
        }
    add_sections(p, sections, &sum->trip);
}

static bool is_placed(const placed_cost *one, const tperf_pass *pass,
                      const tperf_placement *placement, bool tiered) {
    if (tiered && pass->n_comms > 0) return one->at == placement;
    for (int i = 0; i < pass->n_comms; i++)
        if (one->fast[i] != placement->fast[pass->comms[i].axis_index]) return false;
    return true;
}

static cost price(const tperf_inference *s, const part *ops, const priced_op *one,
                  const tperf_placement *placement) {
    const tperf_op *op = ops->workload->ops[one->op];
    const tperf_pass *pass = &op->forward;
    tperf_pass then;
    if (ops->keys > 0) {
        tperf_decode_pass(s->decode, one->op, ops->keys, &then);
        pass = &then;
    }
    return cost_of(&one->work, op, pass, s, ops->workload, placement);
}

static const cost *cost_at(const tperf_inference *s, const part *ops, priced_op *one,
                           const tperf_placement *placement) {
    const tperf_pass *pass = &ops->workload->ops[one->op]->forward;
    bool tiered = s->on.system->network.n_tiers > 0;
    if (one->twin) return one->twin->cost;
    for (int i = 0; i < one->n_known; i++)
        if (is_placed(&one->known[i], pass, placement, tiered)) return &one->known[i].cost;
    placed_cost *now = &one->known[one->n_known < KNOWN_COSTS ? one->n_known++ : KNOWN_COSTS - 1];
    for (int i = 0; i < pass->n_comms; i++)
        now->fast[i] = placement->fast[pass->comms[i].axis_index];
    now->at = placement;
    now->cost = price(s, ops, one, placement);
    return &now->cost;
}

static void add_others(const shared *p, const tperf_placement *placement, const part *ops,
                       trip *sum) {
    cost sections[TPERF_SECTIONS_MAX];
    clear_sections(p, sections);
    for (priced_op *one = ops->others; one < ops->others + ops->n_others; one++) {
        one->cost = cost_at(p->serving, ops, one, placement);
        add_cost(&sections[one->section], one->cost, 1);
    }
    add_sections(p, sections, sum);
}

static void add_part(const shared *p, const tperf_placement *placement, const part *ops,
                     trip *sum) {
    add_trip(p, &ops->trip, sum);
    if (ops->n_others) add_others(p, placement, ops, sum);
}

static void serve_prompts(shared *p, const tperf_placement *placement,
                          tperf_inference_result *out) {
    const tperf_inference *s = p->serving;
    trip *t = &p->prompt;
    clear_trip(p, t);
    add_part(p, placement, &p->prefill, t);
    double hops = (double)(s->pipeline->pp - 1);
    double sends = hops > 0 ? hops * send_time(s, placement, s->prefill->boundary_bytes) : 0;
    out->prefill = phase_of(t, sends, t->sum.time + sends);
    out->prefill_busiest = busiest_of(p, t);
}

// Shared by the steps of a micro-batch.
typedef struct stepper {
    shared *shared;
    const tperf_placement *placement;
    double sends;
    double first, last;              // numbers of keys
    tperf_inference_result *service; // whose first and last step are set
} stepper;

// The ops that vary, with so many keys; beyond KNOWN_STEPS the last are forgotten.
static const part *varying_at(shared *p, double keys) {
    const tperf_decode *decode = p->serving->decode;
    const tperf_decode_form *form = &decode->forms[p->form];
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].keys == keys) return &p->steps[i];
    part *ops = &p->steps[p->n_steps < KNOWN_STEPS ? p->n_steps++ : KNOWN_STEPS - 1];
    cost sections[TPERF_SECTIONS_MAX];
    clear_sections(p, sections);
    recent r = {0};
    ops->keys = keys;
    ops->workload = form->workload;
    empty(p, ops);
    for (size_t i = 0; i < form->n_varying; i++) {
        const tperf_varying *v = &form->varying[i];
        tperf_pass pass;
        tperf_decode_pass(decode, v->op, keys, &pass);
        add_op(p, ops, sections, *v, &pass, last_at(&r, p, v->section));
    }
    add_sections(p, sections, &ops->trip);
    return ops;
}

// The busiest stage of two trips together, and their sum.
static double busiest_of_both(const shared *p, const trip *a, const trip *b, trip *both) {
    double most = 0;
    both->sum = a->sum;
    add_cost(&both->sum, &b->sum, 1);
    for (size_t i = 0; i < p->serving->pipeline->n_stages; i++)
        most = tperf_larger(a->stages[i] + b->stages[i], most);
    return most;
}

// The same of a step; only placements of ops with collectives differ in what varies.
static double busiest_of_step(shared *p, const tperf_placement *placement, const part *varying) {
    trip *t = &p->step;
    if (!varying->n_others) return busiest_of_both(p, &p->constant, &varying->trip, t);
    clear_trip(p, t);
    add_trip(p, &p->constant, t);
    add_part(p, placement, varying, t);
    return busiest_of(p, t);
}

static void set_constant(shared *p, const tperf_placement *placement) {
    clear_trip(p, &p->constant);
    add_part(p, placement, &p->fixed, &p->constant);
}

// Makes `fixed` that of a form.
static void set_form(shared *p, int number) {
    const tperf_decode_form *form = &p->serving->decode->forms[number];
    p->form = number;
    p->fixed.workload = form->workload;
    add_ops(p, &p->fixed, form->varying, form->n_varying);
}

// With m micro-batches in flight, one returns to the first stage once it has passed all stages, but not before the
// busiest stage has served the others.
static void step_at(const void *context, double keys, double *values) {
    const stepper *of = context;
    shared *p = of->shared;
    const trip *t = &p->step;
    int form = tperf_decode_form_at(p->serving->decode, keys);
    if (form != p->form) {
        set_form(p, form);
        set_constant(p, of->placement);
    }
    double busiest = busiest_of_step(p, of->placement, varying_at(p, keys));
    double time = tperf_larger(t->sum.time + of->sends, (double)p->serving->microbatches * busiest);
    tperf_phase phase = phase_of(t, of->sends, time);
    values[0] = phase.time;
    values[1] = phase.compute;
    values[2] = phase.memory;
    values[3] = phase.tensor_comm;
    values[4] = phase.pipeline_comm;
    values[5] = phase.wait;
    if (keys == of->first) of->service->first_step = time;
    if (keys == of->last) of->service->last_step = time;
}

static void serve_tokens(shared *p, const tperf_placement *placement, tperf_inference_result *out) {
    const tperf_inference *s = p->serving;
    stepper step = {p, placement, .first = (double)s->prompt + 1,
                    .last = (double)(s->prompt + s->generate - 1), .service = out};
    set_constant(p, placement);
    double hops = (double)(s->pipeline->pp - 1);
    if (hops > 0)
        step.sends = hops * send_time(s, placement, s->decode->workloads[0]->boundary_bytes) +
                     send_time(s, placement, TOKEN_BYTES * (double)s->micro_batch);
    double sum[PHASE_VALUES];
    tperf_decode_sum(s->decode, step.first, step.last,
                     &(tperf_step_values){step_at, &step, PHASE_VALUES}, sum);
    out->decode = (tperf_phase){sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]};
}

// The placement with the least latency of a request.
static void place(shared *p, tperf_inference_result *out) {
    double least = INFINITY;
    for (size_t i = 0; i < p->serving->n_placements; i++) {
        tperf_inference_result tried = *out;
        serve_prompts(p, &p->serving->placements[i], &tried);
        if (p->serving->decode) serve_tokens(p, &p->serving->placements[i], &tried);
        double latency = tried.prefill.time + tried.decode.time;
        if (i > 0 && !(latency < least)) continue;
        least = latency;
        tried.placement = i;
        *out = tried;
    }
}

static void count_passes(shared *p) {
    const tperf_pipeline *pipeline = p->serving->pipeline;
    double *passes = p->passes;
    memset(p->layers, 0, (size_t)p->n_sections * sizeof *p->layers);
    for (size_t i = 0; i < pipeline->n_stages; i++)
        for (int section = 0; section < p->n_sections; section++) {
            *passes = tperf_stage_layers(&pipeline->stages[i], section, p->serving->prefill);
            p->layers[section] += (double)pipeline->stages[i].repeats * *passes++;
        }
}

// What the parts and trips of a question take.
typedef struct room {
    size_t stages, sections, trips;           // numbers
    size_t prefill, decode, varying, longest; // ops with collectives, and of the longer workload
} room;

static size_t count_others(const tperf_workload *workload) {
    size_t n = 0;
    for (size_t i = 0; i < workload->n_ops; i++)
        n += workload->ops[i]->forward.n_comms > 0;
    return n;
}

static room room_of(const tperf_inference *s) {
    const tperf_decode *d = s->decode;
    room r = {.stages = s->pipeline->n_stages,
              .sections = (size_t)s->prefill->n_kinds + 2,
              .trips = 2 + KNOWN_STEPS + 3,
              .prefill = count_others(s->prefill),
              .longest = s->prefill->n_ops};
    if (!d) return r;
    for (const tperf_decode_form *form = d->forms; form < d->forms + d->n_forms; form++) {
        size_t varying = 0, others = count_others(form->workload);
        for (size_t i = 0; i < form->n_varying; i++)
            varying += form->workload->ops[form->varying[i].op]->forward.n_comms > 0;
        if (varying > r.varying) r.varying = varying;
        if (others > r.decode) r.decode = others;
        if (form->workload->n_ops > r.longest) r.longest = form->workload->n_ops;
    }
    return r;
}

size_t tperf_inference_scratch_size(const tperf_inference *serving) {
    room r = room_of(serving);
    size_t others = r.prefill + r.decode + KNOWN_STEPS * r.varying;
    size_t numbers = r.stages * (r.sections + r.trips) + r.sections;
    return sizeof(tperf_inference_scratch) + others * sizeof(priced_op) +
           r.longest * sizeof(added) + numbers * sizeof(double);
}

static double *take(double **numbers, size_t n) {
    double *taken = *numbers;
    *numbers += n;
    return taken;
}

// Divides the room after the struct.
static void divide(shared *p) {
    const tperf_inference *s = p->serving;
    room r = room_of(s);
    priced_op *others = (priced_op *)(p + 1);
    p->prefill = (part){.workload = s->prefill, .others = others};
    p->fixed = (part){.others = others += r.prefill};
    others += r.decode;
    for (size_t i = 0; i < KNOWN_STEPS; i++)
        p->steps[i] = (part){.others = others + i * r.varying};
    p->added = (added *)(others + KNOWN_STEPS * r.varying);
    double *numbers = (double *)(p->added + r.longest);
    p->passes = take(&numbers, r.stages * r.sections);
    p->layers = take(&numbers, r.sections);
    trip *trips[] = {&p->prefill.trip, &p->fixed.trip, &p->prompt, &p->constant, &p->step};
    for (size_t i = 0; i < sizeof trips / sizeof *trips; i++)
        trips[i]->stages = take(&numbers, r.stages);
    for (size_t i = 0; i < KNOWN_STEPS; i++)
        p->steps[i].trip.stages = take(&numbers, r.stages);
}

static void prepare(shared *p) {
    const tperf_inference *s = p->serving;
    p->n_sections = s->prefill->n_kinds + 2;
    p->n_steps = 0;
    divide(p);
    count_passes(p);
    add_ops(p, &p->prefill, NULL, 0);
    if (s->decode) set_form(p, 0);
}

tperf_inference_result tperf_infer(const tperf_inference *serving) {
    shared *p = serving->scratch;
    p->serving = serving;
    prepare(p);
    tperf_inference_result service = {0};
    tperf_inference_hold(serving, &service);
    place(p, &service);
    return service;
}
