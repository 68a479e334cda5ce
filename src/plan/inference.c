// inference.c: one replica's time for a prompt and for all decode steps, and its memory. See tperf/inference.h.
#include "tperf/inference.h"

#include <math.h>

enum { TOKEN_BYTES = 4 }; // a token id, which returns to the first stage

// One micro-batch's pass through all stages.
typedef struct trip {
    tperf_pass_cost sum;
    double busiest; // seconds of the busiest stage
} trip;

static trip trip_of(const tperf_pipeline *pipeline, int n_kinds, const tperf_pass_cost *sections) {
    trip t = {0};
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const tperf_stage *stage = &pipeline->stages[i];
        tperf_pass_cost cost = {0};
        for (int kind = 0; kind < n_kinds; kind++)
            tperf_pass_cost_add(&cost, &sections[kind], (double)stage->layers[kind]);
        if (stage->first) tperf_pass_cost_add(&cost, &sections[n_kinds], 1);
        if (stage->last) tperf_pass_cost_add(&cost, &sections[n_kinds + 1], 1);
        tperf_pass_cost_add(&t.sum, &cost, (double)stage->repeats);
        t.busiest = fmax(t.busiest, cost.time);
    }
    return t;
}

static double send_time(const tperf_serving *s, double bytes) {
    bool fast = s->placement.fast[TPERF_AXIS_STAGES] > 1;
    return s->pipeline->pp > 1 ? tperf_send_time(&s->on, bytes, fast) : 0;
}

static tperf_phase phase_of(const trip *t, double sends, double time) {
    return (tperf_phase){time,        t->sum.compute, t->sum.exposed_memory,
                         t->sum.comm, sends,          fmax(time - t->sum.time - sends, 0)};
}

// Sums over the ops of every section, except the varying ones (which are in order).
static void section_times(const tperf_serving *s, const tperf_workload *workload,
                          const tperf_varying *varying, size_t n_varying,
                          tperf_pass_cost *sections) {
    for (int section = 0; section < workload->n_kinds + 2; section++) {
        sections[section] = (tperf_pass_cost){0};
        for (size_t i = tperf_section_begin(workload, section); i < workload->section_end[section];
             i++) {
            if (n_varying && varying->op == i) {
                varying++, n_varying--;
                continue;
            }
            const tperf_op *op = workload->ops[i];
            tperf_pass_cost cost =
                tperf_pass_cost_of(op, &op->forward, &s->on, workload->sizes, &s->placement);
            tperf_pass_cost_add(&sections[section], &cost, 1);
        }
    }
}

static void serve_prompts(const tperf_serving *s, tperf_service *out) {
    tperf_pass_cost sections[TPERF_SECTIONS_MAX];
    section_times(s, s->prefill, NULL, 0, sections);
    trip t = trip_of(s->pipeline, s->prefill->n_kinds, sections);
    double hops = (double)(s->pipeline->pp - 1);
    double sends = hops > 0 ? hops * send_time(s, s->prefill->boundary_bytes) : 0;
    out->prefill = phase_of(&t, sends, t.sum.time + sends);
    out->prefill_busiest = t.busiest;
}

// Shared by the steps of a micro-batch.
typedef struct stepper {
    const tperf_serving *serving;
    double sends;
    // Ops that do not depend on the number of keys.
    tperf_pass_cost fixed[TPERF_SECTIONS_MAX];
} stepper;

// With m micro-batches in flight, one returns to the first stage once it has passed all stages, but not before the
// busiest stage has served the others.
static void step_at(const void *context, double keys, double values[TPERF_STEP_VALUES]) {
    const stepper *p = context;
    const tperf_serving *s = p->serving;
    const tperf_workload *workload = s->decode->workloads[0];
    tperf_pass_cost sections[TPERF_SECTIONS_MAX];
    for (int i = 0; i < workload->n_kinds + 2; i++)
        sections[i] = p->fixed[i];
    for (size_t i = 0; i < s->decode->n_varying; i++) {
        const tperf_varying *v = &s->decode->varying[i];
        tperf_pass pass;
        tperf_decode_pass(s->decode, v->op, keys, &pass);
        tperf_pass_cost cost =
            tperf_pass_cost_of(workload->ops[v->op], &pass, &s->on, workload->sizes, &s->placement);
        tperf_pass_cost_add(&sections[v->section], &cost, 1);
    }
    trip t = trip_of(s->pipeline, workload->n_kinds, sections);
    double time = fmax(t.sum.time + p->sends, (double)s->microbatches * t.busiest);
    tperf_phase phase = phase_of(&t, p->sends, time);
    values[0] = phase.time;
    values[1] = phase.compute;
    values[2] = phase.memory;
    values[3] = phase.tensor_comm;
    values[4] = phase.pipeline_comm;
    values[5] = phase.wait;
    values[6] = values[7] = 0;
}

static void serve_tokens(const tperf_serving *s, tperf_service *out) {
    const tperf_workload *workload = s->decode->workloads[0];
    stepper p = {.serving = s};
    section_times(s, workload, s->decode->varying, s->decode->n_varying, p.fixed);
    double hops = (double)(s->pipeline->pp - 1);
    if (hops > 0)
        p.sends = hops * send_time(s, workload->boundary_bytes) +
                  send_time(s, TOKEN_BYTES * (double)s->micro_batch);
    double first = (double)s->prompt + 1, last = (double)(s->prompt + s->generate - 1);
    double sum[TPERF_STEP_VALUES], values[TPERF_STEP_VALUES];
    tperf_decode_sum(s->decode, first, last, step_at, &p, sum);
    out->decode = (tperf_phase){sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]};
    step_at(&p, first, values);
    out->first_step = values[0];
    step_at(&p, last, values);
    out->last_step = values[0];
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

tperf_service tperf_serve(const tperf_serving *serving) {
    tperf_service out = {0};
    account(serving, &out);
    serve_prompts(serving, &out);
    if (serving->decode) serve_tokens(serving, &out);
    return out;
}
