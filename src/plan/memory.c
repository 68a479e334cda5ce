// memory.c: the memory of one GPU. See tperf/plan.h, and docs/memory.md for the sources.
#include <math.h>

#include "tperf/plan.h"

// A stage's weights: of its layers and of the pipeline's ends, each sharded as dense weights or as experts.
typedef struct weights {
    tperf_weights layers, layer_experts, ends, end_experts;
} weights;

// A stage's activation bytes: per micro-batch in flight; of the section `last`; recomputed; of one pass; on the host.
typedef struct activations {
    double saved, last_saved, again, work, host;
} activations;

typedef struct question {
    const tperf_candidate *candidate;
    const tperf_job *job;
    const tperf_workload *workload;
    const tperf_layer_cost *costs;
    double microbatches;
    bool experts;                 // some weights are spread as experts
    double shards, expert_shards; // parts into which ZeRO cuts a weight
    int groups;                   // groups in which a GPU communicates
} question;

// If the stage runs the pipeline in both directions, a device with one end also has the other.
static bool has_first(const question *q, const tperf_stage *stage) {
    return stage->first || (stage->last && q->candidate->pipeline->weight_copies > 1);
}

static bool has_last(const question *q, const tperf_stage *stage) {
    return stage->last || (stage->first && q->candidate->pipeline->weight_copies > 1);
}

static weights weights_of(const question *q, const tperf_stage *stage) {
    weights w = {0};
    int kinds = q->workload->n_kinds;
    for (int kind = 0; kind < kinds; kind++) {
        double layers = q->candidate->pipeline->weight_copies * (double)stage->layers[kind];
        tperf_weights_add(&w.layers, &q->costs[kind].weights, layers);
        if (q->experts) tperf_weights_add(&w.layer_experts, &q->costs[kind].experts, layers);
    }
    for (int end = kinds; end < kinds + 2; end++) {
        if (!(end == kinds ? has_first(q, stage) : has_last(q, stage))) continue;
        tperf_weights_add(&w.ends, &q->costs[end].weights, 1);
        if (q->experts) tperf_weights_add(&w.end_experts, &q->costs[end].experts, 1);
    }
    if (has_first(q, stage) && has_last(q, stage))
        tperf_weights_add(&w.ends, &q->costs[kinds + 1].tied, -1);
    return w;
}

// k layers recomputed together keep one input; during recomputation the inputs between them come back, too.
static void recompute_groups(const question *q, const tperf_layer_cost *cost, double layers,
                             double chunks, activations *a) {
    double k = fmin(q->job->training->recompute_layers, ceil(layers / chunks));
    double groups = fmin(layers, chunks * ceil(layers / chunks / k));
    a->saved -= (layers - groups) * cost->input_bytes;
    a->again = fmax(a->again, k * cost->again_bytes + (k - 1) * cost->input_bytes);
}

// Activations of `chunks` equal chunks of layers, with one or both ends of the model. Offloaded activations are back
// for the current layer and the previous one.
static activations activations_of(const question *q, const tperf_stage *stage, double chunks,
                                  bool first, bool last) {
    activations a = {0};
    int kinds = q->workload->n_kinds;
    for (int kind = 0; kind < kinds; kind++) {
        double layers = (double)stage->layers[kind];
        if (layers == 0) continue;
        const tperf_layer_cost *cost = &q->costs[kind];
        a.saved += layers * cost->saved_bytes;
        a.host += layers * cost->offload_bytes;
        a.work = fmax(a.work, cost->work_bytes);
        if (cost->input_bytes > 0)
            recompute_groups(q, cost, layers, chunks, &a);
        else
            a.again = fmax(a.again, cost->again_bytes + fmin(layers, 2) * cost->offload_bytes);
    }
    if (first) a.saved += q->costs[kinds].saved_bytes;
    if (!last) return a;
    a.last_saved = q->costs[kinds + 1].saved_bytes;
    a.work = fmax(a.work, q->costs[kinds + 1].work_bytes);
    return a;
}

// The bytes of weights at these rates per byte, per parameter, per narrow parameter and per gathered byte; likewise
// FLOPs.
static double held(const tperf_weights *w, const tperf_weights *rate) {
    return rate->bytes * w->bytes + rate->count * w->count + rate->narrow * w->narrow +
           rate->orthogonal * w->orthogonal + rate->gathered * w->gathered +
           rate->frozen * w->frozen;
}

// Bytes of a stage's weight copies, and of the traffic that makes them once per iteration; neither is sharded.
static double copies_of(const weights *w) {
    return w->layers.copies + w->layer_experts.copies + w->ends.copies + w->end_experts.copies;
}

static double steps_of(const weights *w) {
    return w->layers.step + w->layer_experts.step + w->ends.step + w->end_experts.step;
}

// The same for a stage, whose ends may have another rate.
static double spread(const question *q, const weights *w, tperf_weights rate,
                     tperf_weights end_rate, bool sharded) {
    double all = held(&w->layers, &rate) + held(&w->ends, &end_rate);
    if (sharded) all /= q->shards;
    if (!q->experts) return all;
    double experts = held(&w->layer_experts, &rate) + held(&w->end_experts, &end_rate);
    if (sharded && experts > 0) experts /= q->expert_shards;
    return all + experts;
}

// PyTorch's DistributedDataParallel has a place for every gradient in its buckets.
static double buckets_of(const question *q, const weights *w) {
    tperf_weights rate = {.count = q->job->training->bucket_bytes};
    return q->shards > 1 ? spread(q, w, rate, rate, false) : 0;
}

// The current layer and the prefetched one are whole, as are one layer's gradients (torch.distributed.fsdp,
// BackwardPrefetch.BACKWARD_PRE); if only gradients are sharded, only these.
static double whole_layers(const question *q, const tperf_stage *stage) {
    int zero = q->candidate->zero, kinds = q->workload->n_kinds;
    const tperf_training *t = q->job->training;
    bool whole = tperf_reduces_each(q->candidate, t);
    double copies = zero >= 3 && t->reshards > 0 ? 2 : 0;
    tperf_weights rate = {
        .gathered = copies, .frozen = copies, .count = whole ? t->gradient_bytes : 0};
    double largest = 0;
    if (zero < 2 || q->shards == 1) return 0;
    for (int i = 0; i < kinds + 2; i++) {
        bool here = i < kinds    ? stage->layers[i] > 0
                    : i == kinds ? has_first(q, stage)
                                 : has_last(q, stage);
        double experts = q->expert_shards > 1 ? held(&q->costs[i].experts, &rate) : 0;
        if (here) largest = fmax(largest, held(&q->costs[i].weights, &rate) + experts);
    }
    return largest;
}

// One received and one sent message.
static double messages_of(const question *q) {
    return q->candidate->pipeline->pp > 1 ? 2 * q->workload->boundary_bytes : 0;
}

static tperf_memory memory_of(const question *q, const tperf_stage *stage) {
    const tperf_training *t = q->job->training;
    const tperf_pipeline *pipeline = q->candidate->pipeline;
    int zero = q->candidate->zero;
    weights w = weights_of(q, stage);
    tperf_weights kept = {.bytes = 1};
    if (t->kept_bytes > 0) kept = (tperf_weights){.count = t->kept_bytes, .frozen = 1};
    tperf_weights gradient = {.count = t->gradient_bytes}, gathered = {.bytes = 1};
    tperf_weights state = {.count = t->optimizer_bytes, .narrow = t->narrow_bytes};
    tperf_weights end_state = {.count = t->end_optimizer_bytes, .narrow = t->narrow_bytes};
    activations a = activations_of(q, stage, (double)pipeline->virtual_stages, has_first(q, stage),
                                   has_last(q, stage));
    bool reduced = tperf_reduces_each(q->candidate, t);
    tperf_memory m = {
        .weights = spread(q, &w, kept, kept, zero >= 3) + copies_of(&w),
        .gradients = spread(q, &w, gradient, gradient, reduced) + buckets_of(q, &w),
        .optimizer = spread(q, &w, state, end_state, zero >= 1),
        .activations = fmin(stage->in_flight, q->microbatches) * a.saved +
                       fmin(pipeline->last_in_flight, q->microbatches) * a.last_saved,
        .host = fmin(stage->in_flight, q->microbatches) * a.host,
    };
    if (zero >= 3 && t->reshards == 0 && q->shards > 1)
        m.weights += spread(q, &w, gathered, gathered, false);
    m.host += t->offloaded * m.optimizer;
    m.optimizer -= t->offloaded * m.optimizer;
    if (q->job->on.rules->memory_counts_passing) {
        m.passing = a.again + a.work + whole_layers(q, stage) + messages_of(q);
        m.buffers = t->workspace_bytes + q->groups * t->communicator_bytes;
    }
#define PART(name, held) m.total += m.name;
    TPERF_MEMORY_PARTS(PART)
#undef PART
    return m;
}

static bool has_experts(const tperf_workload *workload, const tperf_layer_cost *costs) {
    for (int i = 0; i < workload->n_kinds + 2; i++) {
        const tperf_weights *e = &costs[i].experts;
        if (e->bytes > 0 || e->count > 0 || e->gathered > 0 || e->copies > 0 || e->step > 0)
            return true;
    }
    return false;
}

static question question_of(const tperf_candidate *candidate, const tperf_job *job,
                            const tperf_workload *workload, const tperf_layer_cost *costs) {
    const int64_t *sizes = candidate->sizes;
    bool experts = has_experts(workload, costs);
    return (question){
        .experts = experts,
        .candidate = candidate,
        .job = job,
        .workload = workload,
        .costs = costs,
        .microbatches = (double)candidate->microbatches,
        .shards = (double)tperf_grid_shards(&workload->grid, sizes, false),
        .expert_shards = experts ? (double)tperf_grid_shards(&workload->grid, sizes, true) : 1,
        .groups = tperf_grid_groups(&workload->grid, sizes),
    };
}

tperf_memory tperf_memory_of(const tperf_candidate *candidate, const tperf_job *job,
                             const tperf_workload *workload, const tperf_layer_cost *costs) {
    question q = question_of(candidate, job, workload, costs);
    tperf_memory fullest = {0};
    for (size_t i = 0; i < candidate->pipeline->n_stages; i++) {
        tperf_memory m = memory_of(&q, &candidate->pipeline->stages[i]);
        if (m.total > fullest.total) fullest = m;
    }
    return fullest;
}

tperf_chunk_memory tperf_chunk_memory_of(const tperf_candidate *candidate, const tperf_job *job,
                                         const tperf_workload *workload,
                                         const tperf_layer_cost *costs, const tperf_stage *chunk) {
    question q = question_of(candidate, job, workload, costs);
    activations a = activations_of(&q, chunk, 1, chunk->first, chunk->last);
    tperf_chunk_memory m = {.saved = a.saved + a.last_saved};
    if (!job->on.rules->memory_counts_passing) return m;
    double whole = whole_layers(&q, chunk);
    m.forward = a.work + messages_of(&q) + (candidate->zero >= 3 ? whole : 0);
    m.backward = a.work + messages_of(&q) + whole + a.again;
    return m;
}

void tperf_memory_of_devices(const tperf_candidate *candidate, const tperf_job *job,
                             const tperf_workload *workload, const tperf_layer_cost *costs,
                             tperf_memory *devices) {
    question q = question_of(candidate, job, workload, costs);
    for (size_t i = 0; i < candidate->pipeline->n_devices; i++)
        devices[i] = memory_of(&q, &candidate->pipeline->devices[i]);
}

double tperf_orthogonal_time(const tperf_job *job, double flops) {
    const tperf_system *system = job->on.system;
    if (flops == 0) return 0;
    return job->on.software->compute * flops /
           (system->accelerator.compute_efficiency * system->accelerator.tensor[TPERF_BF16]);
}

double tperf_optimizer_time(const tperf_candidate *candidate, const tperf_job *job,
                            const tperf_workload *workload, const tperf_layer_cost *costs) {
    double part = job->on.software->optimizer;
    tperf_host_update host = tperf_optimizer_host(candidate, job, workload, costs);
    double seconds =
        host.out + host.update + host.in +
        tperf_orthogonal_time(job, tperf_optimizer_flops(candidate, job, workload, costs));
    if (part == 0) return seconds;
    double bytes = tperf_optimizer_bytes(candidate, job, workload, costs);
    return bytes / (part * job->on.system->accelerator.hbm.bandwidth) + seconds;
}

// The maximum over devices of the amount at these rates per byte, parameter and narrow parameter.
static double most_updated(const tperf_candidate *candidate, const tperf_job *job,
                           const tperf_workload *workload, const tperf_layer_cost *costs,
                           tperf_weights rate, double end_count) {
    question q = question_of(candidate, job, workload, costs);
    double most = 0;
    tperf_weights end_rate = rate;
    end_rate.count += end_count;
    for (size_t i = 0; i < candidate->pipeline->n_stages; i++) {
        weights w = weights_of(&q, &candidate->pipeline->stages[i]);
        most = fmax(most, spread(&q, &w, rate, end_rate, candidate->zero >= 1) +
                              rate.step * steps_of(&w));
    }
    return most;
}

// A gradient is read for the norm, read for the update, and cleared. If its state is on the host, the GPU only reads it
// for the norm and clears it.
double tperf_optimizer_bytes(const tperf_candidate *candidate, const tperf_job *job,
                             const tperf_workload *workload, const tperf_layer_cost *costs) {
    const tperf_training *t = job->training;
    double here = 1 - t->offloaded, end = 2 * (t->end_optimizer_bytes - t->optimizer_bytes);
    tperf_weights rate = {
        .step = 1,
        .bytes = t->kept_bytes > 0 ? 0 : here,
        .frozen = t->kept_bytes > 0 ? 0 : -here,
        .count = here * (2 * t->optimizer_bytes + t->kept_bytes) + (2 + here) * t->gradient_bytes,
        .narrow = here * 2 * t->narrow_bytes,
    };
    return most_updated(candidate, job, workload, costs, rate, here * end);
}

double tperf_optimizer_flops(const tperf_candidate *candidate, const tperf_job *job,
                             const tperf_workload *workload, const tperf_layer_cost *costs) {
    tperf_weights rate = {.orthogonal = job->training->iterations};
    if (job->training->iterations == 0) return 0;
    question q = question_of(candidate, job, workload, costs);
    double most = 0;
    for (size_t i = 0; i < candidate->pipeline->n_stages; i++) {
        weights w = weights_of(&q, &candidate->pipeline->stages[i]);
        most = fmax(most, spread(&q, &w, rate, (tperf_weights){0}, candidate->zero >= 1));
    }
    return most;
}

tperf_host_update tperf_optimizer_host(const tperf_candidate *candidate, const tperf_job *job,
                                       const tperf_workload *workload,
                                       const tperf_layer_cost *costs) {
    const tperf_training *t = job->training;
    const tperf_system *system = job->on.system;
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
    tperf_host_update u = {
        .bytes_out = most_updated(candidate, job, workload, costs, gradients, 0),
        .bytes_in = most_updated(candidate, job, workload, costs, back, 0),
        .bytes_updated = most_updated(candidate, job, workload, costs, updated, part * end),
    };
    u.out = u.bytes_out / (system->host.bandwidth * system->host.efficiency);
    u.in = u.bytes_in / (system->host.bandwidth * system->host.efficiency);
    u.update = u.bytes_updated / system->host.memory_bandwidth;
    return u;
}
