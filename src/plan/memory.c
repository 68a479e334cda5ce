// memory.c: the memory of one GPU. See tperf/plan.h, and docs/memory.md for the sources.
#include <math.h>

#include "plan/held.h"

// A stage's weights: of its layers and of the pipeline's ends, each sharded as dense weights or as experts.
typedef struct weights {
    tperf_weights layers, layer_experts, ends, end_experts;
} weights;

// The inputs to what a stage holds.
typedef struct question {
    const tperf_training *training;
    const tperf_workload *workload;
    const tperf_layer_cost *costs;
    double weight_copies;
    bool experts; // some weights are spread as experts
} question;

// If the stage runs the pipeline in both directions, a device with one end also has the other.
static bool has_first(const question *q, const tperf_stage *stage) {
    return stage->first || (stage->last && q->weight_copies > 1);
}

static bool has_last(const question *q, const tperf_stage *stage) {
    return stage->last || (stage->first && q->weight_copies > 1);
}

static bool has_section(const question *q, const tperf_stage *stage, int section) {
    int kinds = q->workload->n_kinds;
    if (section < kinds) return stage->layers[section] > 0;
    if (section >= kinds + 2) return tperf_stage_shares(stage, section, q->workload);
    return section == kinds ? has_first(q, stage) : has_last(q, stage);
}

static weights weights_of(const question *q, const tperf_stage *stage) {
    weights w = {0};
    int kinds = q->workload->n_kinds;
    for (int kind = 0; kind < kinds; kind++) {
        double layers = q->weight_copies * (double)stage->layers[kind];
        tperf_weights_add(&w.layers, &q->costs[kind].weights, layers);
        if (q->experts) tperf_weights_add(&w.layer_experts, &q->costs[kind].experts, layers);
    }
    for (int end = kinds; end < kinds + 2; end++) {
        if (!has_section(q, stage, end)) continue;
        tperf_weights_add(&w.ends, &q->costs[end].weights, 1);
        if (q->experts) tperf_weights_add(&w.end_experts, &q->costs[end].experts, 1);
    }
    if (has_first(q, stage) && has_last(q, stage))
        tperf_weights_add(&w.ends, &q->costs[kinds + 1].tied, -1);
    for (int i = kinds + 2; i < q->workload->n_sections; i++) {
        if (!has_section(q, stage, i)) continue;
        tperf_weights_add(&w.layers, &q->costs[i].weights, 1);
        if (q->experts) tperf_weights_add(&w.layer_experts, &q->costs[i].experts, 1);
    }
    return w;
}

// The layers of a stage that are recomputed from their input.
static double recomputed_layers(const question *q, const tperf_stage *stage) {
    double layers = 0;
    for (int kind = 0; kind < q->workload->n_kinds; kind++)
        if (q->costs[kind].input_bytes > 0) layers += (double)stage->layers[kind];
    return layers;
}

// k layers recomputed together, of whatever kinds, keep one input; during recomputation the inputs between them come
// back, too. layers: of this kind, out of `all`.
static void recompute_groups(const question *q, const tperf_layer_cost *cost, double layers,
                             double all, double chunks, tperf_stage_activations *a) {
    double k = fmin(q->training->recompute_layers, ceil(all / chunks));
    double groups = fmin(all, chunks * ceil(all / chunks / k));
    a->saved -= (all - groups) * layers / all * cost->input_bytes;
    a->again = fmax(a->again, k * cost->again_bytes + (k - 1) * cost->input_bytes);
}

// Activations of `chunks` equal chunks of layers, with one or both ends of the model. Offloaded activations are back
// for the current layer and the previous one.
static tperf_stage_activations activations_of(const question *q, const tperf_stage *stage,
                                              double chunks, bool first, bool last) {
    tperf_stage_activations a = {0};
    int kinds = q->workload->n_kinds;
    double recomputed = recomputed_layers(q, stage);
    for (int kind = 0; kind < kinds; kind++) {
        double layers = (double)stage->layers[kind];
        if (layers == 0) continue;
        const tperf_layer_cost *cost = &q->costs[kind];
        a.saved += layers * cost->saved_bytes;
        a.host += layers * cost->offload_bytes;
        a.work = fmax(a.work, cost->work_bytes);
        if (cost->input_bytes > 0)
            recompute_groups(q, cost, layers, recomputed, chunks, &a);
        else
            a.again = fmax(a.again, cost->again_bytes + fmin(layers, 2) * cost->offload_bytes);
    }
    if (first) a.saved += q->costs[kinds].saved_bytes;
    if (!last) return a;
    const tperf_layer_cost *end = &q->costs[kinds + 1];
    a.last_saved = end->saved_bytes;
    a.last_host = end->offload_bytes;
    a.work = fmax(a.work, end->work_bytes);
    a.again = fmax(a.again, end->again_bytes + end->offload_bytes);
    return a;
}

// The bytes of weights at these rates per byte, per parameter, per narrow parameter and per gathered byte; likewise
// FLOPs.
static double held(const tperf_weights *w, const tperf_weights *rate) {
    return rate->bytes * w->bytes + rate->count * w->count + rate->narrow * w->narrow +
           rate->matrices * w->matrices + rate->orthogonal * w->orthogonal +
           rate->gathered * w->gathered + rate->frozen * w->frozen;
}

// Bytes of a stage's weight copies, and of the traffic that makes them once per iteration; neither is sharded.
static double copies_of(const weights *w) {
    return w->layers.copies + w->layer_experts.copies + w->ends.copies + w->end_experts.copies;
}

static double steps_of(const weights *w) {
    return w->layers.step + w->layer_experts.step + w->ends.step + w->end_experts.step;
}

// What the owner of a stage's largest matrix holds of it: tperf_amount.
static double owned_of(const question *q, const tperf_stage *stage, tperf_weights rate,
                       tperf_weights end_rate) {
    if (!(q->training->broadcast_layers > 0)) return 0;
    int kinds = q->workload->n_kinds;
    double most = 0;
    for (int i = 0; i < q->workload->n_sections; i++) {
        if (!has_section(q, stage, i)) continue;
        const tperf_weights *w = &q->costs[i].weights;
        bool end = i == kinds || i == kinds + 1;
        most = fmax(most, held(w, end ? &end_rate : &rate) / fmax(w->matrices, 1));
    }
    return most;
}

// An amount of a stage, whose ends may have another rate.
static tperf_amount amount_of(const question *q, const weights *w, const tperf_stage *stage,
                              tperf_weights rate, tperf_weights end_rate) {
    tperf_amount a = {.dense = held(&w->layers, &rate) + held(&w->ends, &end_rate),
                      .owned = owned_of(q, stage, rate, end_rate)};
    if (q->experts) a.experts = held(&w->layer_experts, &rate) + held(&w->end_experts, &end_rate);
    return a;
}

// See tperf_whole_layers. all: weights, too, not only their gradients.
static double largest_whole(const question *q, const tperf_stage *stage, bool all, bool experts) {
    double copies = all ? 2 : 0, largest = 0;
    tperf_weights rate = {
        .gathered = copies, .frozen = copies, .count = q->training->gradient_bytes};
    for (int i = 0; i < q->workload->n_sections; i++) {
        if (!has_section(q, stage, i)) continue;
        double spread = experts ? held(&q->costs[i].experts, &rate) : 0;
        largest = fmax(largest, held(&q->costs[i].weights, &rate) + spread);
    }
    return largest;
}

bool tperf_has_experts(const tperf_workload *workload, const tperf_layer_cost *costs) {
    for (int i = 0; i < workload->n_sections; i++) {
        const tperf_weights *e = &costs[i].experts;
        if (e->bytes > 0 || e->count > 0 || e->gathered > 0 || e->copies > 0 || e->step > 0)
            return true;
    }
    return false;
}

// Bytes that the optimizer step moves. A gradient is read for the norm, read for the update, and cleared. If its state
// is on the host, the GPU only reads it for the norm and clears it.
static tperf_amount updated_of(const question *q, const weights *w, const tperf_stage *stage) {
    const tperf_training *t = q->training;
    double here = 1 - t->offloaded, end = 2 * (t->end_optimizer_bytes - t->optimizer_bytes);
    tperf_weights rate = {
        .bytes = t->kept_bytes > 0 ? 0 : here,
        .frozen = t->kept_bytes > 0 ? 0 : -here,
        .count = here * (2 * t->optimizer_bytes + t->kept_bytes) + (2 + here) * t->gradient_bytes,
        .narrow = here * 2 * t->narrow_bytes,
    };
    tperf_weights end_rate = rate;
    end_rate.count += here * end;
    return amount_of(q, w, stage, rate, end_rate);
}

tperf_stage_weights tperf_stage_weights_of(const tperf_stage *stage, double copies,
                                           const tperf_training *t, const tperf_workload *workload,
                                           const tperf_layer_cost *costs) {
    question q = {t, workload, costs, copies, tperf_has_experts(workload, costs)};
    weights w = weights_of(&q, stage);
    tperf_weights kept = {.bytes = 1};
    if (t->kept_bytes > 0) kept = (tperf_weights){.count = t->kept_bytes, .frozen = 1};
    tperf_weights gradient = {.count = t->gradient_bytes}, gathered = {.bytes = 1};
    tperf_weights bucket = {.count = t->bucket_bytes};
    tperf_weights state = {.count = t->optimizer_bytes, .narrow = t->narrow_bytes};
    tperf_weights end_state = {.count = t->end_optimizer_bytes, .narrow = t->narrow_bytes};
    return (tperf_stage_weights){
        .kept = amount_of(&q, &w, stage, kept, kept),
        .gathered = amount_of(&q, &w, stage, gathered, gathered),
        .gradients = amount_of(&q, &w, stage, gradient, gradient),
        .buckets = amount_of(&q, &w, stage, bucket, bucket),
        .optimizer = amount_of(&q, &w, stage, state, end_state),
        .updated = updated_of(&q, &w, stage),
        .copies = copies_of(&w),
        .steps = steps_of(&w),
        .whole = {{largest_whole(&q, stage, false, false), largest_whole(&q, stage, false, true)},
                  {largest_whole(&q, stage, true, false), largest_whole(&q, stage, true, true)}},
    };
}

tperf_stage_activations tperf_stage_activations_of(const tperf_stage *stage, double copies,
                                                   double chunks, const tperf_training *training,
                                                   const tperf_workload *workload,
                                                   const tperf_layer_cost *costs) {
    question q = {training, workload, costs, copies, false};
    return activations_of(&q, stage, chunks, has_first(&q, stage), has_last(&q, stage));
}

tperf_sharing tperf_sharing_among(const tperf_candidate *candidate, const tperf_job *job,
                                  const tperf_workload *workload, int64_t shards,
                                  int64_t expert_shards) {
    const tperf_training *t = job->training;
    tperf_sharing s = {
        .microbatches = (double)candidate->microbatches,
        .shards = (double)shards,
        .expert_shards = (double)expert_shards,
        .last_in_flight = candidate->pipeline->last_in_flight,
        .counts_passing = job->on.rules->memory_counts_passing,
    };
    tperf_sharing_at(&s, candidate, t);
    // one received and one sent message
    s.messages = candidate->pipeline->pp > 1 ? 2 * workload->boundary_bytes : 0;
    if (s.counts_passing) {
        s.communicators =
            tperf_grid_groups(&workload->grid, candidate->sizes) * t->communicator_bytes;
        s.buffers = t->workspace_bytes + s.communicators;
    }
    return s;
}

tperf_sharing tperf_sharing_of(const tperf_candidate *candidate, const tperf_job *job,
                               const tperf_workload *workload, bool experts) {
    const int64_t *sizes = candidate->sizes;
    return tperf_sharing_among(candidate, job, workload,
                               tperf_grid_shards(&workload->grid, sizes, false),
                               experts ? tperf_grid_shards(&workload->grid, sizes, true) : 1);
}

static tperf_memory memory_of(const tperf_candidate *candidate, const tperf_sharing *sharing,
                              const tperf_training *training, const tperf_workload *workload,
                              const tperf_layer_cost *costs, const tperf_stage *stage) {
    const tperf_pipeline *p = candidate->pipeline;
    tperf_stage_weights w =
        tperf_stage_weights_of(stage, p->weight_copies, training, workload, costs);
    tperf_stage_activations a = tperf_stage_activations_of(
        stage, p->weight_copies, (double)p->virtual_stages, training, workload, costs);
    return tperf_memory_at(&w, &a, stage->in_flight, sharing, training);
}

tperf_memory tperf_memory_of(const tperf_plan *plan) {
    tperf_sharing sharing = tperf_sharing_of(plan->candidate, plan->job, plan->workload,
                                             tperf_has_experts(plan->workload, plan->costs));
    tperf_memory fullest = {0};
    for (size_t i = 0; i < plan->candidate->pipeline->n_stages; i++) {
        tperf_memory m = memory_of(plan->candidate, &sharing, plan->job->training, plan->workload,
                                   plan->costs, &plan->candidate->pipeline->stages[i]);
        if (m.total > fullest.total) fullest = m;
    }
    return fullest;
}

tperf_chunk_memory tperf_chunk_memory_of(const tperf_plan *plan, const tperf_stage *chunk) {
    double copies = plan->candidate->pipeline->weight_copies;
    question q = {plan->job->training, plan->workload, plan->costs, copies, false};
    tperf_stage_activations a = activations_of(&q, chunk, 1, chunk->first, chunk->last);
    tperf_chunk_memory m = {.saved = a.saved + a.last_saved};
    if (!plan->job->on.rules->memory_counts_passing) return m;
    tperf_sharing s = tperf_sharing_of(plan->candidate, plan->job, plan->workload,
                                       tperf_has_experts(plan->workload, plan->costs));
    tperf_stage_weights w =
        tperf_stage_weights_of(chunk, copies, plan->job->training, plan->workload, plan->costs);
    double whole = tperf_whole_layers(&w, &s, plan->job->training);
    m.forward = a.work + s.messages + (plan->candidate->zero >= 3 ? whole : 0);
    m.backward = a.work + s.messages + whole + a.again;
    return m;
}

void tperf_memory_of_devices(const tperf_plan *plan, tperf_memory *devices) {
    tperf_sharing sharing = tperf_sharing_of(plan->candidate, plan->job, plan->workload,
                                             tperf_has_experts(plan->workload, plan->costs));
    for (size_t i = 0; i < plan->candidate->pipeline->n_devices; i++)
        devices[i] = memory_of(plan->candidate, &sharing, plan->job->training, plan->workload,
                               plan->costs, &plan->candidate->pipeline->devices[i]);
}

double tperf_optimizer_time(const tperf_plan *plan) {
    tperf_host_update host = tperf_optimizer_host(plan);
    double seconds = host.out + host.update + host.in + tperf_step_calls_time(&plan->job->on) +
                     tperf_orthogonal_of(plan).time;
    if (plan->job->on.software->optimizer == 0) return seconds;
    return tperf_update_time(plan->job, tperf_optimizer_bytes(plan)) + seconds;
}

// The maximum over devices of the amount at these rates, shared as the optimizer states are.
static double most_of(const tperf_plan *plan, tperf_weights rate, tperf_weights end_rate) {
    const tperf_pipeline *p = plan->candidate->pipeline;
    bool experts = tperf_has_experts(plan->workload, plan->costs);
    question q = {plan->job->training, plan->workload, plan->costs, p->weight_copies, experts};
    tperf_sharing sharing = tperf_sharing_of(plan->candidate, plan->job, plan->workload, experts);
    double most = 0;
    for (size_t i = 0; i < p->n_stages; i++) {
        weights w = weights_of(&q, &p->stages[i]);
        tperf_amount amount = amount_of(&q, &w, &p->stages[i], rate, end_rate);
        most = fmax(most, tperf_share(amount, &sharing, plan->candidate->zero >= 1));
    }
    return most;
}

double tperf_optimizer_bytes(const tperf_plan *plan) {
    const tperf_pipeline *p = plan->candidate->pipeline;
    bool experts = tperf_has_experts(plan->workload, plan->costs);
    tperf_sharing sharing = tperf_sharing_of(plan->candidate, plan->job, plan->workload, experts);
    question q = {plan->job->training, plan->workload, plan->costs, p->weight_copies, experts};
    double most = 0;
    for (size_t i = 0; i < p->n_stages; i++) {
        weights w = weights_of(&q, &p->stages[i]);
        tperf_amount updated = updated_of(&q, &w, &p->stages[i]);
        most = fmax(most, tperf_updated_bytes(updated, steps_of(&w), &sharing));
    }
    return most;
}

tperf_orthogonal tperf_orthogonal_of(const tperf_plan *plan) {
    // Per matrix: decay, both sums of the momentum, cast, norm (two) and quotient, scale, update, cast back.
    enum { OTHER_CALLS = 10 };
    double iterations = plan->job->training->iterations;
    if (iterations == 0) return (tperf_orthogonal){0};
    const tperf_weights none = {0}, one = {.matrices = 1}, work = {.orthogonal = iterations};
    const tperf_system *system = plan->job->on.system;
    tperf_orthogonal o = {.matrices = most_of(plan, one, none), .flops = most_of(plan, work, none)};
    double each = plan->job->on.software->muon_calls * iterations;
    o.calls = (fmax(each, 1) + OTHER_CALLS) * o.matrices;
    o.time =
        fmax(plan->job->on.software->compute * o.flops /
                 (system->accelerator.compute_efficiency * system->accelerator.tensor[TPERF_BF16]),
             tperf_bare_calls_time(&plan->job->on, o.calls));
    return o;
}

tperf_host_update tperf_optimizer_host(const tperf_plan *plan) {
    const tperf_training *t = plan->job->training;
    const tperf_system *system = plan->job->on.system;
    double part = t->offloaded, end = 2 * (t->end_optimizer_bytes - t->optimizer_bytes);
    if (part == 0) return (tperf_host_update){0};
    tperf_weights gradients = {.count = part * t->gradient_bytes};
    tperf_weights back = {.bytes = t->kept_bytes > 0 ? 0 : part,
                          .count = part * t->kept_bytes,
                          .frozen = t->kept_bytes > 0 ? 0 : -part};
    tperf_weights states = {.count = part * 2 * t->optimizer_bytes,
                            .narrow = part * 2 * t->narrow_bytes};
    tperf_weights updated = gradients;
    tperf_weights_add(&updated, &back, 1);
    tperf_weights_add(&updated, &states, 1);
    tperf_weights end_updated = updated;
    end_updated.count += part * end;
    tperf_host_update u = {
        .bytes_out = most_of(plan, gradients, gradients),
        .bytes_in = t->weights_on_host ? 0 : most_of(plan, back, back),
        .bytes_updated = most_of(plan, updated, end_updated),
    };
    u.out = tperf_copy_time(system, u.bytes_out);
    u.in = tperf_copy_time(system, u.bytes_in);
    u.update = u.bytes_updated / system->host.memory_bandwidth;
    return u;
}
