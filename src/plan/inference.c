// inference.c: one replica's time for a prompt and for all decode steps, and its memory. See tperf/inference.h.
#include "tperf/inference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKEN_BYTES = 4,  // a token id, which returns to the first stage
    PHASE_VALUES = 6, // of a tperf_phase
    KNOWN_STEPS = 12, // as many as an interval of decode steps is looked at in, and more
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

// An op's cost, which depends on the placement if it has collectives.
typedef struct priced_op {
    size_t op; // of the workload
    int section;
    tperf_pass_work work;
    cost cost;
    // Of each collective, the GPUs in a domain that the cost is for: many placements differ in other axes.
    int64_t fast[TPERF_COMMS_MAX];
    const struct priced_op *twin; // the same op in an earlier kind of layer, or NULL
    struct priced_op *next;       // of those with collectives
} priced_op;

// Some ops of a workload.
typedef struct part {
    const tperf_workload *workload;
    double keys; // of a decode step; 0: the ops do not depend on them
    trip trip;   // of those without collectives
    size_t n_ops;
    priced_op *ops, *others; // others: the first of those with collectives
    priced_op **end;         // where the next one of them goes
} part;

// What all placements share.
typedef struct shared {
    const tperf_serving *serving;
    int n_sections;
    double *passes;          // how often each stage passes each section: stage by stage
    double *layers;          // how often all stages together pass it
    part prefill, fixed;     // fixed: a step's ops that do not depend on the number of keys
    part steps[KNOWN_STEPS]; // the others, with as many keys
    int n_steps;
    // Those of one placement.
    trip prompt, constant, step;
} shared;

static double larger(double a, double b) {
    return a > b ? a : b;
}

static void add_cost(cost *sum, const cost *one, double times) {
    sum->compute += times * one->compute;
    sum->memory += times * one->memory;
    sum->comm += times * one->comm;
    sum->time += times * one->time;
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
        most = larger(t->stages[i], most);
    return most;
}

static double send_time(const tperf_serving *s, const tperf_placement *placement, double bytes) {
    bool fast = placement->fast[TPERF_AXIS_STAGES] > 1;
    return s->pipeline->pp > 1 ? tperf_send_time(&s->on, bytes, fast) : 0;
}

static tperf_phase phase_of(const trip *t, double sends, double time) {
    return (tperf_phase){time,        t->sum.compute, t->sum.memory,
                         t->sum.comm, sends,          larger(time - t->sum.time - sends, 0)};
}

static cost cost_of(const tperf_pass_work *work, const tperf_op *op, const tperf_pass *pass,
                    const tperf_serving *s, const tperf_workload *workload,
                    const tperf_placement *placement) {
    tperf_pass_cost all = tperf_pass_priced(work, op, pass, &s->on, workload->sizes, placement);
    return (cost){all.compute, all.exposed_memory, all.comm, all.time};
}

// Adds the i-th op of the workload to a part, or to the sections of those without collectives. Kinds of layers share
// most ops: last: of those added for the section before, the one at the same place.
static void add_op(part *sum, cost *sections, const tperf_serving *s, size_t i, int section,
                   const tperf_pass *pass, const priced_op *last) {
    const tperf_op *op = sum->workload->ops[i];
    priced_op *added = &sum->ops[sum->n_ops++];
    bool is_twin = last && sum->workload->ops[last->op] == op;
    *added = (priced_op){.op = i, .section = section, .twin = is_twin ? last : NULL};
    if (is_twin)
        added->cost = last->cost;
    else
        added->work = tperf_pass_work_of(op, pass, &s->on, 1);
    if (pass->n_comms > 0) {
        *sum->end = added;
        sum->end = &added->next;
        return;
    }
    static const tperf_placement none;
    if (!is_twin) added->cost = cost_of(&added->work, op, pass, s, sum->workload, &none);
    add_cost(&sections[section], &added->cost, 1);
}

// The ops of a section that were added last.
typedef struct added {
    int section;
    size_t begin, before; // the first of them, and of those of the section before
} added;

// The one at the same place of the section before as the next one of this section.
static const priced_op *last_at(added *a, const part *sum, int section) {
    if (section != a->section) *a = (added){section, sum->n_ops, a->begin};
    size_t i = a->before + (sum->n_ops - a->begin);
    return i < a->begin ? &sum->ops[i] : NULL;
}

static void empty(const shared *p, part *sum) {
    sum->n_ops = 0;
    sum->others = NULL;
    sum->end = &sum->others;
    clear_trip(p, &sum->trip);
}

// Fills a part with all ops, except the varying ones (which are in order).
static void add_ops(const shared *p, part *sum, const tperf_varying *varying, size_t n_varying) {
    const tperf_workload *workload = sum->workload;
    cost sections[TPERF_SECTIONS_MAX] = {0};
    added a = {0};
    empty(p, sum);
    for (int section = 0; section < p->n_sections; section++)
        for (size_t i = tperf_section_begin(workload, section); i < workload->section_end[section];
             i++) {
            if (n_varying && varying->op == i)
                varying++, n_varying--;
            else
                add_op(sum, sections, p->serving, i, section, &workload->ops[i]->forward,
                       last_at(&a, sum, section));
        }
    add_sections(p, sections, &sum->trip);
}

static bool is_priced(const priced_op *one, const tperf_pass *pass,
                      const tperf_placement *placement) {
    for (int i = 0; i < pass->n_comms; i++)
        if (one->fast[i] != placement->fast[pass->comms[i].axis_index]) return false;
    return true;
}

static void price(const tperf_serving *s, const part *ops, priced_op *one,
                  const tperf_placement *placement) {
    const tperf_op *op = ops->workload->ops[one->op];
    const tperf_pass *pass = &op->forward;
    for (int i = 0; i < pass->n_comms; i++)
        one->fast[i] = placement->fast[pass->comms[i].axis_index];
    tperf_pass then;
    if (ops->keys > 0) {
        tperf_decode_pass(s->decode, one->op, ops->keys, &then);
        pass = &then;
    }
    one->cost = cost_of(&one->work, op, pass, s, ops->workload, placement);
}

static void add_others(const shared *p, const tperf_placement *placement, const part *ops,
                       trip *sum) {
    cost sections[TPERF_SECTIONS_MAX] = {0};
    for (priced_op *one = ops->others; one; one = one->next) {
        const tperf_pass *pass = &ops->workload->ops[one->op]->forward;
        if (one->twin)
            one->cost = one->twin->cost;
        else if (!is_priced(one, pass, placement))
            price(p->serving, ops, one, placement);
        add_cost(&sections[one->section], &one->cost, 1);
    }
    add_sections(p, sections, sum);
}

static void add_part(const shared *p, const tperf_placement *placement, const part *ops,
                     trip *sum) {
    add_trip(p, &ops->trip, sum);
    if (ops->others) add_others(p, placement, ops, sum);
}

static void serve_prompts(shared *p, const tperf_placement *placement, tperf_service *out) {
    const tperf_serving *s = p->serving;
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
    double first, last;     // numbers of keys
    tperf_service *service; // whose first and last step are set
} stepper;

// The ops that vary, with so many keys; beyond KNOWN_STEPS the last are forgotten.
static const part *varying_at(shared *p, double keys) {
    const tperf_decode *decode = p->serving->decode;
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].keys == keys) return &p->steps[i];
    part *ops = &p->steps[p->n_steps < KNOWN_STEPS ? p->n_steps++ : KNOWN_STEPS - 1];
    cost sections[TPERF_SECTIONS_MAX] = {0};
    added a = {0};
    ops->keys = keys;
    empty(p, ops);
    for (size_t i = 0; i < decode->n_varying; i++) {
        const tperf_varying *v = &decode->varying[i];
        tperf_pass pass;
        tperf_decode_pass(decode, v->op, keys, &pass);
        add_op(ops, sections, p->serving, v->op, v->section, &pass, last_at(&a, ops, v->section));
    }
    add_sections(p, sections, &ops->trip);
    return ops;
}

// With m micro-batches in flight, one returns to the first stage once it has passed all stages, but not before the
// busiest stage has served the others.
static void step_at(const void *context, double keys, double *values) {
    const stepper *of = context;
    shared *p = of->shared;
    trip *t = &p->step;
    clear_trip(p, t);
    add_trip(p, &p->constant, t);
    add_part(p, of->placement, varying_at(p, keys), t);
    double time =
        larger(t->sum.time + of->sends, (double)p->serving->microbatches * busiest_of(p, t));
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

static void serve_tokens(shared *p, const tperf_placement *placement, tperf_service *out) {
    const tperf_serving *s = p->serving;
    stepper step = {p, placement, .first = (double)s->prompt + 1,
                    .last = (double)(s->prompt + s->generate - 1), .service = out};
    clear_trip(p, &p->constant);
    add_part(p, placement, &p->fixed, &p->constant);
    double hops = (double)(s->pipeline->pp - 1);
    if (hops > 0)
        step.sends = hops * send_time(s, placement, s->decode->workloads[0]->boundary_bytes) +
                     send_time(s, placement, TOKEN_BYTES * (double)s->micro_batch);
    double sum[PHASE_VALUES];
    tperf_decode_sum(s->decode, step.first, step.last, PHASE_VALUES, step_at, &step, sum);
    out->decode = (tperf_phase){sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]};
}

// Bytes that the widest op of a section reads and writes besides weights.
static double widest(const tperf_workload *workload, int section) {
    double most = 0;
    for (size_t i = tperf_section_begin(workload, section); i < workload->section_end[section]; i++)
        most = larger(most, workload->ops[i]->forward.bytes - workload->ops[i]->repeated_bytes -
                                workload->ops[i]->weight_bytes);
    return most;
}

// Buffers of a stage: the residual stream and the working set of its widest op.
static double buffers_of(const tperf_stage *stage, const tperf_workload *workload) {
    double most = 0;
    for (int kind = 0; kind < workload->n_kinds; kind++)
        if (stage->layers[kind]) most = larger(most, widest(workload, kind));
    if (stage->first) most = larger(most, widest(workload, workload->n_kinds));
    if (stage->last) most = larger(most, widest(workload, workload->n_kinds + 1));
    return workload->boundary_bytes + most;
}

// One stage's GPU holds weights + batch x cache + max(prompts, batch x step) bytes.
typedef struct holdings {
    double weights, cache, prompts, step;
} holdings;

static double total_of(const holdings *h, double batch) {
    return h->weights + batch * h->cache + fmax(h->prompts, batch * h->step);
}

static holdings holdings_of(const tperf_serving *s, const tperf_stage *stage,
                            const tperf_layer_cost *costs) {
    int n_kinds = s->prefill->n_kinds;
    double length = (double)(s->prompt + s->generate);
    holdings h = {.prompts = buffers_of(stage, s->prefill), .step = buffers_of(stage, s->single)};
    for (int kind = 0; kind < n_kinds; kind++) {
        const tperf_cache *c = &s->caches[kind];
        double layers = (double)stage->layers[kind];
        double kept = c->most_tokens > 0 ? fmin(c->most_tokens, length) : length;
        h.weights += layers * (costs[kind].weights.bytes + costs[kind].experts.bytes);
        h.cache += layers * (kept * c->token_bytes + c->state_bytes);
    }
    const tperf_layer_cost *first = &costs[n_kinds], *last = &costs[n_kinds + 1];
    if (stage->first) h.weights += first->weights.bytes + first->experts.bytes;
    if (stage->last) h.weights += last->weights.bytes + last->experts.bytes;
    if (stage->first && stage->last) h.weights -= last->tied.bytes;
    return h;
}

// The largest batch with total_of <= room. Both arms of the maximum bound it; the last two lines correct a quotient
// that rounding moved across an integer.
static double largest_batch(const holdings *h, double room) {
    double left = room - h->weights;
    double batch = floor(fmin((left - h->prompts) / h->cache, left / (h->cache + h->step)));
    if (total_of(h, batch + 1) <= room) batch++;
    if (total_of(h, batch) > room) batch--;
    return fmin(fmax(batch, 0), 9007199254740992.0); // 2^53
}

static void account(const tperf_serving *s, tperf_service *out) {
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    tperf_workload_bytes(s->prefill, costs);
    double room = s->on.system->accelerator.hbm.capacity * (1 - s->reserved);
    double batch = (double)s->batch;
    out->max_batch = INFINITY;
    for (size_t i = 0; i < s->pipeline->n_stages; i++) {
        const tperf_stage *stage = &s->pipeline->stages[i];
        holdings h = holdings_of(s, stage, costs);
        out->cache_sequence += h.cache * (double)stage->repeats;
        out->max_batch = fmin(out->max_batch, largest_batch(&h, room));
        tperf_serving_memory m = {h.weights, batch * h.cache, fmax(h.prompts, batch * h.step),
                                  total_of(&h, batch)};
        if (m.total > out->memory.total) out->memory = m;
    }
}

// The placement with the least latency of a request.
static void place(shared *p, tperf_service *out) {
    double least = INFINITY;
    for (size_t i = 0; i < p->serving->n_placements; i++) {
        tperf_service tried = *out;
        serve_prompts(p, &p->serving->placements[i], &tried);
        if (p->serving->decode) serve_tokens(p, &p->serving->placements[i], &tried);
        double latency = tried.prefill.time + tried.decode.time;
        if (i > 0 && !(latency < least)) continue;
        least = latency;
        tried.placement = i;
        *out = tried;
    }
}

// How often a stage passes a section.
static double times_of(const tperf_stage *stage, int n_kinds, int section) {
    if (section < n_kinds) return (double)stage->layers[section];
    return (section == n_kinds ? stage->first : stage->last) ? 1 : 0;
}

static void count_passes(shared *p) {
    const tperf_pipeline *pipeline = p->serving->pipeline;
    double *passes = p->passes;
    for (size_t i = 0; i < pipeline->n_stages; i++)
        for (int section = 0; section < p->n_sections; section++) {
            *passes = times_of(&pipeline->stages[i], p->n_sections - 2, section);
            p->layers[section] += (double)pipeline->stages[i].repeats * *passes++;
        }
}

// What the parts and trips of a question are written to.
typedef struct room {
    priced_op *ops;
    double *numbers;
} room;

static bool make_room(const tperf_serving *s, room *r) {
    size_t stages = s->pipeline->n_stages, sections = (size_t)s->prefill->n_kinds + 2;
    size_t n = s->prefill->n_ops, trips = 2 + KNOWN_STEPS + 3;
    if (s->decode) n += s->decode->workloads[0]->n_ops + KNOWN_STEPS * s->decode->n_varying;
    r->ops = malloc(n * sizeof *r->ops);
    r->numbers = calloc(stages * (sections + trips) + sections, sizeof *r->numbers);
    if (r->ops && r->numbers) return true;
    free(r->ops);
    free(r->numbers);
    return false;
}

static double *take(double **numbers, size_t n) {
    double *taken = *numbers;
    *numbers += n;
    return taken;
}

static void divide(shared *p, const room *r) {
    const tperf_serving *s = p->serving;
    size_t stages = s->pipeline->n_stages, sections = (size_t)p->n_sections;
    double *numbers = r->numbers;
    priced_op *ops = r->ops;
    p->passes = take(&numbers, stages * sections);
    p->layers = take(&numbers, sections);
    trip *trips[] = {&p->prefill.trip, &p->fixed.trip, &p->prompt, &p->constant, &p->step};
    for (size_t i = 0; i < sizeof trips / sizeof *trips; i++)
        *trips[i] = (trip){.stages = take(&numbers, stages)};
    p->prefill.ops = ops;
    if (!s->decode) return;
    const tperf_workload *workload = s->decode->workloads[0];
    p->fixed.ops = ops + s->prefill->n_ops;
    ops = p->fixed.ops + workload->n_ops;
    for (size_t i = 0; i < KNOWN_STEPS; i++) {
        p->steps[i] = (part){.workload = workload, .trip.stages = take(&numbers, stages)};
        p->steps[i].ops = ops + i * s->decode->n_varying;
    }
}

static void prepare(shared *p, const room *r) {
    const tperf_serving *s = p->serving;
    p->n_sections = s->prefill->n_kinds + 2;
    divide(p, r);
    count_passes(p);
    p->prefill.workload = s->prefill;
    add_ops(p, &p->prefill, NULL, 0);
    if (!s->decode) return;
    p->fixed.workload = s->decode->workloads[0];
    add_ops(p, &p->fixed, s->decode->varying, s->decode->n_varying);
}

tperf_status tperf_serve(const tperf_serving *serving, tperf_service *service) {
    room r;
    if (!make_room(serving, &r)) return TPERF_NO_MEMORY;
    shared p = {.serving = serving};
    prepare(&p, &r);
    *service = (tperf_service){0};
    account(serving, service);
    place(&p, service);
    free(r.ops);
    free(r.numbers);
    return TPERF_OK;
}
