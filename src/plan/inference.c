// inference.c: one replica's time for a prompt and for all decode steps, and its memory. See tperf/inference.h.
#include "tperf/inference.h"

#include <math.h>
#include <stdlib.h>

enum {
    TOKEN_BYTES = 4,  // a token id, which returns to the first stage
    KNOWN_STEPS = 12, // as many as an interval of decode steps is looked at in, and more
};

// An op with collectives, whose cost depends on the placement.
typedef struct placed_op {
    size_t op; // of the workload
    int section;
    tperf_pass_work work;
} placed_op;

// Some ops of a workload: those without collectives summed over sections, and the others.
typedef struct part {
    tperf_pass_cost sections[TPERF_SECTIONS_MAX];
    size_t n_placed;
    placed_op *placed;
} part;

// What all placements share.
typedef struct shared {
    const tperf_serving *serving;
    part prefill, fixed;       // fixed: a step's ops that do not depend on the number of keys
    part varying[KNOWN_STEPS]; // the others, with as many keys
    double keys[KNOWN_STEPS];
    int n_keys;
    // Sections of all stages together.
    double layers[TPERF_SECTIONS_MAX];
} shared;

// One micro-batch's pass through all stages.
typedef struct trip {
    tperf_pass_cost sum;
    double busiest; // seconds of the busiest stage
} trip;

// How often a stage passes a section.
static double times_of(const tperf_stage *stage, int n_kinds, int section) {
    if (section < n_kinds) return (double)stage->layers[section];
    return (section == n_kinds ? stage->first : stage->last) ? 1 : 0;
}

static trip trip_of(const shared *p, const tperf_pass_cost *sections) {
    trip t = {0};
    int n_kinds = p->serving->prefill->n_kinds;
    for (int section = 0; section < n_kinds + 2; section++)
        tperf_pass_cost_add(&t.sum, &sections[section], p->layers[section]);
    for (size_t i = 0; i < p->serving->pipeline->n_stages; i++) {
        const tperf_stage *stage = &p->serving->pipeline->stages[i];
        double time = 0;
        for (int section = 0; section < n_kinds + 2; section++)
            time += times_of(stage, n_kinds, section) * sections[section].time;
        t.busiest = fmax(t.busiest, time);
    }
    return t;
}

static double send_time(const tperf_serving *s, const tperf_placement *placement, double bytes) {
    bool fast = placement->fast[TPERF_AXIS_STAGES] > 1;
    return s->pipeline->pp > 1 ? tperf_send_time(&s->on, bytes, fast) : 0;
}

static tperf_phase phase_of(const trip *t, double sends, double time) {
    return (tperf_phase){time,        t->sum.compute, t->sum.exposed_memory,
                         t->sum.comm, sends,          fmax(time - t->sum.time - sends, 0)};
}

static void add_op(part *sum, const tperf_serving *s, const tperf_workload *workload, size_t i,
                   int section, const tperf_pass *pass) {
    const tperf_op *op = workload->ops[i];
    tperf_pass_work work = tperf_pass_work_of(op, pass, &s->on, 1);
    if (pass->n_comms > 0) {
        sum->placed[sum->n_placed++] = (placed_op){i, section, work};
        return;
    }
    static const tperf_placement none;
    tperf_pass_cost cost = tperf_pass_priced(&work, op, pass, &s->on, workload->sizes, &none);
    tperf_pass_cost_add(&sum->sections[section], &cost, 1);
}

// Fills a part with all ops, except the varying ones (which are in order).
static void add_ops(part *sum, const tperf_serving *s, const tperf_workload *workload,
                    const tperf_varying *varying, size_t n_varying) {
    for (int section = 0; section < workload->n_kinds + 2; section++)
        for (size_t i = tperf_section_begin(workload, section); i < workload->section_end[section];
             i++) {
            if (n_varying && varying->op == i)
                varying++, n_varying--;
            else
                add_op(sum, s, workload, i, section, &workload->ops[i]->forward);
        }
}

// keys: of a decode step; 0: the ops do not depend on them.
static void add_part(const tperf_serving *s, const tperf_workload *workload,
                     const tperf_placement *placement, const part *ops, double keys,
                     tperf_pass_cost *sections) {
    for (int i = 0; i < workload->n_kinds + 2; i++)
        tperf_pass_cost_add(&sections[i], &ops->sections[i], 1);
    for (size_t i = 0; i < ops->n_placed; i++) {
        const placed_op *placed = &ops->placed[i];
        const tperf_op *op = workload->ops[placed->op];
        tperf_pass then;
        if (keys > 0) tperf_decode_pass(s->decode, placed->op, keys, &then);
        tperf_pass_cost cost = tperf_pass_priced(&placed->work, op, keys > 0 ? &then : &op->forward,
                                                 &s->on, workload->sizes, placement);
        tperf_pass_cost_add(&sections[placed->section], &cost, 1);
    }
}

static void serve_prompts(const shared *p, const tperf_placement *placement, tperf_service *out) {
    const tperf_serving *s = p->serving;
    tperf_pass_cost sections[TPERF_SECTIONS_MAX] = {0};
    add_part(s, s->prefill, placement, &p->prefill, 0, sections);
    trip t = trip_of(p, sections);
    double hops = (double)(s->pipeline->pp - 1);
    double sends = hops > 0 ? hops * send_time(s, placement, s->prefill->boundary_bytes) : 0;
    out->prefill = phase_of(&t, sends, t.sum.time + sends);
    out->prefill_busiest = t.busiest;
}

// Shared by the steps of a micro-batch.
typedef struct stepper {
    shared *shared;
    const tperf_placement *placement;
    double sends;
    tperf_pass_cost fixed[TPERF_SECTIONS_MAX];
    double first, last;     // numbers of keys
    tperf_service *service; // whose first and last step are set
} stepper;

// The ops that vary, with so many keys; beyond KNOWN_STEPS the last are forgotten.
static const part *varying_at(shared *p, double keys) {
    const tperf_decode *decode = p->serving->decode;
    for (int i = 0; i < p->n_keys; i++)
        if (p->keys[i] == keys) return &p->varying[i];
    int slot = p->n_keys < KNOWN_STEPS ? p->n_keys++ : KNOWN_STEPS - 1;
    part *ops = &p->varying[slot];
    p->keys[slot] = keys;
    *ops = (part){.placed = ops->placed};
    for (size_t i = 0; i < decode->n_varying; i++) {
        const tperf_varying *v = &decode->varying[i];
        tperf_pass pass;
        tperf_decode_pass(decode, v->op, keys, &pass);
        add_op(ops, p->serving, decode->workloads[0], v->op, v->section, &pass);
    }
    return ops;
}

// With m micro-batches in flight, one returns to the first stage once it has passed all stages, but not before the
// busiest stage has served the others.
static void step_at(const void *context, double keys, double values[TPERF_STEP_VALUES]) {
    const stepper *p = context;
    const tperf_serving *s = p->shared->serving;
    const tperf_workload *workload = s->decode->workloads[0];
    tperf_pass_cost sections[TPERF_SECTIONS_MAX];
    for (int i = 0; i < workload->n_kinds + 2; i++)
        sections[i] = p->fixed[i];
    add_part(s, workload, p->placement, varying_at(p->shared, keys), keys, sections);
    trip t = trip_of(p->shared, sections);
    double time = fmax(t.sum.time + p->sends, (double)s->microbatches * t.busiest);
    tperf_phase phase = phase_of(&t, p->sends, time);
    values[0] = phase.time;
    values[1] = phase.compute;
    values[2] = phase.memory;
    values[3] = phase.tensor_comm;
    values[4] = phase.pipeline_comm;
    values[5] = phase.wait;
    values[6] = values[7] = 0;
    if (keys == p->first) p->service->first_step = time;
    if (keys == p->last) p->service->last_step = time;
}

static void serve_tokens(shared *p, const tperf_placement *placement, tperf_service *out) {
    const tperf_serving *s = p->serving;
    const tperf_workload *workload = s->decode->workloads[0];
    stepper step = {p, placement, .first = (double)s->prompt + 1,
                    .last = (double)(s->prompt + s->generate - 1), .service = out};
    add_part(s, workload, placement, &p->fixed, 0, step.fixed);
    double hops = (double)(s->pipeline->pp - 1);
    if (hops > 0)
        step.sends = hops * send_time(s, placement, workload->boundary_bytes) +
                     send_time(s, placement, TOKEN_BYTES * (double)s->micro_batch);
    double sum[TPERF_STEP_VALUES];
    tperf_decode_sum(s->decode, step.first, step.last, step_at, &step, sum);
    out->decode = (tperf_phase){sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]};
}

// Bytes that the widest op of a section reads and writes besides weights.
static double widest(const tperf_workload *workload, int section) {
    double most = 0;
    for (size_t i = tperf_section_begin(workload, section); i < workload->section_end[section]; i++)
        most = fmax(most, workload->ops[i]->forward.bytes - workload->ops[i]->repeated_bytes -
                              workload->ops[i]->weight_bytes);
    return most;
}

// Buffers of a stage: the residual stream and the working set of its widest op.
static double buffers_of(const tperf_stage *stage, const tperf_workload *workload) {
    double most = 0;
    for (int kind = 0; kind < workload->n_kinds; kind++)
        if (stage->layers[kind]) most = fmax(most, widest(workload, kind));
    if (stage->first) most = fmax(most, widest(workload, workload->n_kinds));
    if (stage->last) most = fmax(most, widest(workload, workload->n_kinds + 1));
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

static void count_layers(shared *p) {
    const tperf_pipeline *pipeline = p->serving->pipeline;
    int n_kinds = p->serving->prefill->n_kinds;
    for (int section = 0; section < n_kinds + 2; section++)
        p->layers[section] = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++)
        for (int section = 0; section < n_kinds + 2; section++)
            p->layers[section] += (double)pipeline->stages[i].repeats *
                                  times_of(&pipeline->stages[i], n_kinds, section);
}

// All but the varying parts, which need not be cleared.
static void prepare(shared *p, const tperf_serving *s, placed_op *room) {
    p->serving = s;
    p->n_keys = 0;
    count_layers(p);
    p->prefill = (part){.placed = room};
    add_ops(&p->prefill, s, s->prefill, NULL, 0);
    if (!s->decode) return;
    const tperf_workload *workload = s->decode->workloads[0];
    room += s->prefill->n_ops;
    p->fixed = (part){.placed = room};
    add_ops(&p->fixed, s, workload, s->decode->varying, s->decode->n_varying);
    room += workload->n_ops;
    for (size_t i = 0; i < KNOWN_STEPS; i++)
        p->varying[i].placed = room + i * s->decode->n_varying;
}

tperf_status tperf_serve(const tperf_serving *serving, tperf_service *service) {
    const tperf_decode *decode = serving->decode;
    size_t n = serving->prefill->n_ops;
    if (decode) n += decode->workloads[0]->n_ops + KNOWN_STEPS * decode->n_varying;
    placed_op *room = malloc(n * sizeof *room);
    if (!room) return TPERF_NO_MEMORY;
    shared p;
    prepare(&p, serving, room);
    *service = (tperf_service){0};
    account(serving, service);
    place(&p, service);
    free(room);
    return TPERF_OK;
}
