// iteration.c: the time of one training iteration. See tperf/plan.h.
#include <math.h>

#include "plan/exposure.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

// Seconds of a stage's pass: the GPU's, or the host's if launching its kernels one by one takes longer.
static double longer(const tperf_pass_cost *pass, double host_s) {
    double host = host_s * pass->launches;
    return pass->time > host ? pass->time : host;
}

double tperf_stage_layers(const tperf_stage *stage, int section, int n_kinds) {
    return section < n_kinds    ? (double)stage->layers[section]
           : section == n_kinds ? stage->first
                                : stage->last;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

// The time saved by overlapping a layer's forward and backward passes if each one's expert exchanges run beside the
// other's kernels, as Megatron-LM pairs them (megatron/core/models/common/model_chunk_schedule_plan.py).
static double hidden_exchanges(const tperf_expert_cost *e, bool delay_grads) {
    double grad = delay_grads ? e->inside_grad : 0;
    return smaller(e->combine[1], e->outside[0]) + smaller(e->dispatch[0], e->inside[1] - grad) +
           smaller(e->dispatch[1], e->inside[0] + grad) + smaller(e->combine[0], e->outside[1]);
}

// An overlapped forward and backward pass of a stage, no shorter than either. If all collectives hide, those of both
// passes run beside the kernels of both and slow them.
static double pair_of(const tperf_stage_time *t, const tperf_pass_cost *both, double hidden,
                      const tperf_job *job) {
    double one_by_one = t->forward + t->backward, longest = larger(t->forward, t->backward);
    if (job->training->hide_experts)
        return larger(longest,
                      larger(one_by_one - hidden, job->on.software->host_s * both->launches));
    return larger(longest, larger(one_by_one - both->comm + both->slowing, both->comm));
}

tperf_holding tperf_holding_of(const tperf_stage *stage, const tperf_workload *workload,
                               unsigned sections) {
    tperf_holding h = {.leading = tperf_leading_section(stage, workload)};
    for (int i = 0; i < workload->n_kinds + 2; i++) {
        double layers = tperf_stage_layers(stage, i, workload->n_kinds);
        if (layers == 0 || !(sections >> i & 1)) continue;
        h.parts[h.n].section = i;
        h.parts[h.n++].layers = layers;
    }
    return h;
}

static double layers_in(const tperf_holding *holding, int section) {
    for (int i = 0; i < holding->n; i++)
        if (holding->parts[i].section == section) return holding->parts[i].layers;
    return 0;
}

// Whether a holds at least as much as b and begins with the same section. Rounding is monotonic: a then waits at least
// as long.
static bool covers(const tperf_holding *a, const tperf_holding *b) {
    bool all = a->leading == b->leading;
    for (int i = 0; i < b->n; i++)
        all = all && layers_in(a, b->parts[i].section) >= b->parts[i].layers;
    return all;
}

void tperf_holdings_of(const tperf_pipeline *pipeline, const tperf_workload *workload,
                       unsigned sections, tperf_holding *holdings) {
    enum { LEADERS = 4 }; // stages compared: the first ones hold most
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        holdings[i] = tperf_holding_of(&pipeline->stages[i], workload, sections);
        for (size_t j = 0; j < i && j < LEADERS; j++)
            holdings[i].covered = holdings[i].covered || covers(&holdings[j], &holdings[i]);
    }
}

// pairs: also computes the time of a pair.
static inline tperf_stage_time holding_time(const tperf_holding *holding,
                                            const tperf_layer_cost *costs, const tperf_job *job,
                                            bool pairs) {
    tperf_pass_cost forward = {0}, backward = {0}, both = {0};
    double weight_grad = 0, hidden = 0, host_s = job->on.software->host_s;
    for (int i = 0; i < holding->n; i++) {
        double layers = holding->parts[i].layers;
        const tperf_layer_cost *cost = &costs[holding->parts[i].section];
        const tperf_pass_cost *f = &cost->forward, *b = &cost->backward;
        forward.time += layers * f->time;
        backward.time += layers * b->time;
        weight_grad += layers * cost->weight_grad;
        forward.launches += layers * f->launches;
        backward.launches += layers * b->launches;
        if (!pairs) continue;
        both.comm += layers * (f->comm + b->comm);
        both.slowing += layers * (f->slowing + b->slowing);
        if (job->training->hide_experts)
            hidden += layers * hidden_exchanges(&cost->exchange, job->training->delay_grads);
    }
    both.launches = forward.launches + backward.launches;
    tperf_stage_time t = {longer(&forward, host_s), longer(&backward, host_s), weight_grad, 0, 0};
    t.host = t.forward - forward.time + (t.backward - backward.time);
    if (pairs) t.pair = pair_of(&t, &both, hidden, job);
    return t;
}

tperf_stage_time tperf_stage_time_of(const tperf_stage *stage, const tperf_workload *workload,
                                     const tperf_layer_cost *costs, const tperf_job *job) {
    tperf_holding holding = tperf_holding_of(stage, workload, TPERF_ALL_SECTIONS);
    return holding_time(&holding, costs, job, true);
}

tperf_pipeline_time tperf_pipeline_time_of(const tperf_pipeline *pipeline,
                                           const tperf_holding *holdings,
                                           const tperf_workload *workload,
                                           const tperf_layer_cost *costs, const tperf_job *job) {
    tperf_holding own;
    const tperf_stage *stages = pipeline->stages;
    bool pairs = pipeline->pairs != 0 || pipeline->pairs_each != 0;
    tperf_stage_time busy =
        holding_time(tperf_holding_at(holdings, pipeline, 0, workload, &own), costs, job, pairs);
    if (pipeline->n_stages == 1) return (tperf_pipeline_time){&stages[0], busy, busy};
    double repeats = (double)stages[0].repeats;
    tperf_stage_time all = {repeats * busy.forward, repeats * busy.backward,
                            repeats * busy.weight_grad, 0, 0};
    const tperf_stage *busiest = &stages[0];
    for (size_t i = 1; i < pipeline->n_stages; i++) {
        tperf_stage_time s = holding_time(tperf_holding_at(holdings, pipeline, i, workload, &own),
                                          costs, job, pairs);
        repeats = (double)stages[i].repeats;
        all.forward += repeats * s.forward;
        all.backward += repeats * s.backward;
        all.weight_grad += repeats * s.weight_grad;
        if (s.forward + s.backward <= busy.forward + busy.backward) continue;
        busy = s;
        busiest = &stages[i];
    }
    double others = (double)pipeline->pp - 1;
    return (tperf_pipeline_time){busiest,
                                 busy,
                                 {(all.forward - busy.forward) / others,
                                  (all.backward - busy.backward) / others,
                                  (all.weight_grad - busy.weight_grad) / others, 0, 0}};
}

// A collective among replicas, prepared for any number of bytes.
typedef struct exchanger {
    const tperf_job *job;
    tperf_collective kind;
    tperf_group group;
    bool has_rate;
    tperf_rate rate;
} exchanger;

static exchanger exchanger_of(const tperf_job *job, tperf_collective kind, tperf_group group) {
    exchanger e = {.job = job, .kind = kind, .group = group};
    if (group.size > 1)
        e.has_rate = tperf_collective_rate(job->on.system, job->on.rules, kind, group, &e.rate);
    return e;
}

static double exchange(const exchanger *e, double bytes) {
    if (!e->has_rate)
        return tperf_collective_time(e->job->on.system, e->job->on.rules, e->kind, bytes, e->group);
    return bytes > 0 ? e->rate.latency_s + bytes * e->rate.per_byte_s : 0;
}

// The collectives that gather weights and reduce gradients among the GPUs with copies of them.
typedef struct exchangers {
    exchanger gather, reduce;
    int n_copies;
    exchanger copies[TPERF_AXES_MAX];
    double bytes[TPERF_AXES_MAX]; // fraction of the gradient's bytes
} exchangers;

static void make_exchangers(exchangers *e, const tperf_replicas *r, int zero,
                            const tperf_job *job) {
    e->gather = exchanger_of(job, TPERF_ALL_GATHER, r->shards);
    e->reduce = exchanger_of(job, zero ? TPERF_REDUCE_SCATTER : TPERF_ALL_REDUCE, r->shards);
    e->n_copies = (int)r->n_copies;
    for (int i = 0; i < e->n_copies; i++) {
        e->copies[i] = exchanger_of(job, TPERF_ALL_REDUCE, r->copies[i].group);
        e->bytes[i] = r->copies[i].bytes / (zero ? (double)r->shards.size : 1);
    }
}

static tperf_replicas replicas_of(const tperf_candidate *candidate, const tperf_workload *workload,
                                  bool experts) {
    return tperf_grid_replicas(&workload->grid, candidate->sizes, candidate->placement.fast,
                               experts);
}

// Weights travel as they are kept, or cast to the compute dtype if that is smaller; gradients are reduced in the
// precision in which they are kept. Frozen weights travel if they are sharded, but not after an optimizer step, which
// leaves them unchanged.
static double gathered_bytes(const tperf_training *t, const tperf_weights *weights, int zero) {
    double trained = weights->gathered;
    if (t->kept_bytes > 0) trained = fmin(t->kept_bytes * weights->count, trained);
    return trained + (zero >= 3 ? weights->frozen : 0);
}

static bool has_experts(const tperf_workload *workload, const tperf_layer_cost *costs) {
    for (int i = 0; i < workload->n_kinds + 2; i++)
        if (costs[i].experts.bytes > 0) return true;
    return false;
}

static tperf_replica_comm comm_of(const exchanger *e, double bytes, bool gathers, bool experts) {
    return (tperf_replica_comm){e->kind, e->group, bytes, exchange(e, bytes), gathers, experts};
}

// Adds the collectives of one set of weights; returns the new count.
static int add_comms(const exchangers *x, int zero, const tperf_training *t,
                     const tperf_weights *weights, bool experts, tperf_replica_comm *comms, int n) {
    if (zero) comms[n++] = comm_of(&x->gather, gathered_bytes(t, weights, zero), true, experts);
    double gradients = t->gradient_bytes * weights->count;
    comms[n++] = comm_of(&x->reduce, gradients, false, experts);
    for (int i = 0; i < x->n_copies; i++)
        comms[n++] = comm_of(&x->copies[i], gradients * x->bytes[i], false, experts);
    return n;
}

// The collectives of one layer of a section.
static int comms_of(const exchangers *dense, const exchangers *expert, int zero,
                    const tperf_training *t, const tperf_layer_cost *cost,
                    tperf_replica_comm *comms) {
    int n = add_comms(dense, zero, t, &cost->weights, false, comms, 0);
    return cost->experts.bytes > 0 ? add_comms(expert, zero, t, &cost->experts, true, comms, n) : n;
}

int tperf_replica_comms_of(const tperf_candidate *candidate, const tperf_job *job,
                           const tperf_workload *workload, const tperf_layer_cost *costs,
                           int section, tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX]) {
    tperf_replicas copies = replicas_of(candidate, workload, false);
    tperf_replicas experts = replicas_of(candidate, workload, true);
    exchangers dense, expert;
    make_exchangers(&dense, &copies, candidate->zero, job);
    make_exchangers(&expert, &experts, candidate->zero, job);
    return comms_of(&dense, &expert, candidate->zero, job->training, &costs[section], comms);
}

// A matrix is orthogonalised whole: replicas that shard its state gather its update in 16 bits (arXiv 2502.16982,
// section 2.3). Embedding and head are excluded.
static double update_time(int zero, const tperf_job *job, const exchangers *dense,
                          const exchangers *expert, const tperf_layer_cost *cost, bool is_layer) {
    enum { UPDATE_BYTES = 2 };
    if (job->training->iterations == 0 || zero == 0 || !is_layer) return 0;
    double seconds = exchange(&dense->gather, UPDATE_BYTES * cost->weights.count);
    if (cost->experts.count > 0)
        seconds += exchange(&expert->gather, UPDATE_BYTES * cost->experts.count);
    return seconds;
}

static bool has_weights(const tperf_layer_cost *cost) {
    const tperf_weights *w = &cost->weights;
    return w->count > 0 || w->gathered > 0 || w->frozen > 0 || cost->experts.bytes > 0;
}

void tperf_exchange_times_among(const tperf_replicas *copies, const tperf_replicas *experts,
                                int zero, const tperf_job *job, const tperf_workload *workload,
                                const tperf_layer_cost *costs, tperf_exchange *exchanges) {
    exchangers dense, expert;
    make_exchangers(&dense, copies, zero, job);
    if (has_experts(workload, costs)) make_exchangers(&expert, experts, zero, job);
    for (int i = 0; i < workload->n_kinds + 2; i++) {
        tperf_replica_comm comms[TPERF_REPLICA_COMMS_MAX];
        tperf_exchange e = {0};
        exchanges[i] = e;
        if (!has_weights(&costs[i])) continue;
        int n = comms_of(&dense, &expert, zero, job->training, &costs[i], comms);
        for (int c = 0; c < n; c++)
            *(comms[c].gathers ? &e.gather : &e.reduce) += comms[c].seconds;
        // the backward pass gathers again
        e.update = update_time(zero, job, &dense, &expert, &costs[i], i < workload->n_kinds);
        if (zero >= 3 && job->training->reshards > 0) e.reduce += e.gather;
        exchanges[i] = e;
    }
}

void tperf_exchange_times(const tperf_candidate *candidate, const tperf_job *job,
                          const tperf_workload *workload, const tperf_layer_cost *costs,
                          tperf_exchange *exchanges) {
    tperf_replicas copies = replicas_of(candidate, workload, false);
    tperf_replicas experts = replicas_of(candidate, workload, true);
    tperf_exchange_times_among(&copies, &experts, candidate->zero, job, workload, costs, exchanges);
}

// overlap: the fraction of the pass that an exchange may overlap; below 0: the software's.
static double window_of(const tperf_pass_cost *pass, const tperf_job *job, double overlap) {
    double window = pass->time;
    if (job->on.rules->data_overlap_excludes_comm) window -= pass->comm;
    return window * tperf_window(job, overlap);
}

tperf_cover tperf_cover_of(const tperf_job *job, const tperf_layer_cost *cost) {
    const tperf_training *t = job->training;
    double share = tperf_comm_share(&(tperf_comm){0}, &job->on);
    tperf_cover c = {window_of(&cost->forward, job, t->gather_overlap),
                     window_of(&cost->backward, job, t->reduce_overlap), 0, 0};
    if (c.forward > 0) c.slows_forward = share;
    if (c.backward > 0) c.slows_backward = share;
    return c;
}

double tperf_window(const tperf_job *job, double overlap) {
    return overlap < 0 ? job->training->data_overlap * job->on.software->overlap : overlap;
}

double tperf_layers_of_bucket(const tperf_candidate *candidate, const tperf_job *job,
                              const tperf_workload *workload, const tperf_layer_cost *cost) {
    const tperf_training *t = job->training;
    double all = cost->weights.count + cost->experts.count;
    if (!(t->bucket > 0) || !(all > 0)) return 1;
    double replicas = (double)tperf_grid_shards(&workload->grid, candidate->sizes, false);
    return larger(t->bucket, t->bucket_each * replicas) / all;
}

void tperf_exposures_of(const tperf_candidate *candidate, const tperf_job *job,
                        const tperf_workload *workload, const tperf_layer_cost *costs,
                        const tperf_exchange *exchanges, double optimizer,
                        tperf_exposure *sections) {
    for (int i = 0; i < workload->n_kinds + 2; i++) {
        tperf_cover cover = tperf_cover_of(job, &costs[i]);
        double bucket = tperf_layers_of_bucket(candidate, job, workload, &costs[i]);
        sections[i] = tperf_exposure_of(&exchanges[i], &cover, bucket,
                                        job->training->gather_in_step, optimizer);
    }
}

tperf_exposure tperf_stage_exposure(const tperf_stage *stage, const tperf_workload *workload,
                                    const tperf_exposure *sections) {
    tperf_holding holding = tperf_holding_of(stage, workload, TPERF_ALL_SECTIONS);
    return tperf_holding_exposure(&holding, sections, false);
}

tperf_pace tperf_pace_of(const tperf_candidate *candidate, const tperf_training *training,
                         const tperf_workload *workload, double optimizer) {
    tperf_pace p = {
        .pipeline = candidate->pipeline,
        .workload = workload,
        .microbatches = (double)candidate->microbatches,
        .chunks = (double)candidate->pipeline->virtual_stages,
        .gathers_each = tperf_gathers_each(candidate, training),
        .reduces_each = tperf_reduces_each(candidate, training),
        .optimizer = optimizer,
    };
    p.gathers = p.gathers_each ? p.microbatches : 1 / p.chunks;
    p.reduces = p.reduces_each ? p.microbatches : 1 / p.chunks;
    return p;
}

tperf_hop tperf_hop_times(const tperf_job *job, const tperf_workload *workload) {
    double bytes = workload->boundary_bytes;
    return (tperf_hop){tperf_send_time(&job->on, bytes, true),
                       tperf_send_time(&job->on, bytes, false)};
}

double tperf_hop_time(const tperf_candidate *candidate, const tperf_job *job, tperf_hop hop) {
    int64_t pp = candidate->pipeline->pp;
    if (pp == 1) return 0;
    int64_t fast = candidate->placement.fast[TPERF_AXIS_STAGES];
    if (fast == 1) return hop.slow;
    double links = (double)pp - 1;
    double slow_links = trunc((double)pp / (double)fast - 1);
    double slow = job->on.rules->slow_pipeline_links_cost ? hop.slow : 0;
    return ((links - slow_links) * hop.fast + slow_links * slow) / links;
}

// Seconds of compute, memory and collectives of one micro-batch in a stage, both passes; and its FLOPs.
static tperf_pass_cost breakdown_of_stage(const tperf_stage *stage, const tperf_workload *workload,
                                          const tperf_layer_cost *costs, double *flops) {
    tperf_pass_cost sum = {0};
    *flops = 0;
    for (int i = 0; i < workload->n_kinds + 2; i++) {
        double layers = tperf_stage_layers(stage, i, workload->n_kinds);
        tperf_pass_cost_add(&sum, &costs[i].forward, layers);
        tperf_pass_cost_add(&sum, &costs[i].backward, layers);
        *flops += layers * costs[i].flops;
    }
    return sum;
}

static double average_flops(const tperf_pipeline *pipeline, const tperf_workload *workload,
                            const tperf_layer_cost *costs) {
    double all = 0, flops;
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        breakdown_of_stage(&pipeline->stages[i], workload, costs, &flops);
        all += (double)pipeline->stages[i].repeats * flops;
    }
    return all / (double)pipeline->pp;
}

tperf_iteration tperf_iteration_of(const tperf_candidate *candidate, const tperf_job *job,
                                   const tperf_workload *workload, const tperf_layer_cost *costs) {
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    tperf_exposure sections[TPERF_SECTIONS_MAX];
    tperf_pace pace = tperf_pace_of(candidate, job->training, workload,
                                    tperf_optimizer_time(candidate, job, workload, costs));
    tperf_pipeline_time pipeline =
        tperf_pipeline_time_of(candidate->pipeline, NULL, workload, costs, job);
    tperf_exchange_times(candidate, job, workload, costs, exchanges);
    tperf_exposures_of(candidate, job, workload, costs, exchanges, pace.optimizer, sections);
    tperf_waiting waits = tperf_waiting_of(&pace, sections, false);
    tperf_parts p = tperf_parts_of(&pace, &pipeline, &waits,
                                   tperf_hop_time(candidate, job, tperf_hop_times(job, workload)));
    double microbatches = (double)candidate->microbatches, flops;
    tperf_pass_cost busy = breakdown_of_stage(pipeline.busiest, workload, costs, &flops);
    return (tperf_iteration){
        .time = tperf_whole(&p),
        .compute = microbatches * busy.compute,
        .memory = microbatches * busy.exposed_memory,
        .tensor_comm = microbatches * busy.comm - p.hidden,
        .data_comm = p.data_comm,
        .pipeline_comm = p.pipeline_comm,
        .bubble = p.bubble,
        .host = microbatches * pipeline.busy.host,
        .optimizer = p.optimizer,
        .offload = microbatches * busy.offload,
        .flops = microbatches * average_flops(candidate->pipeline, workload, costs),
        .pipeline = pipeline,
        .hop = p.hop,
        .hidden = p.hidden,
        .each_forward = waits.each_forward,
        .each_backward = waits.each_backward,
        .waiting = waits.stage,
        .pairs = tperf_pairs_of(&pace),
    };
}

void tperf_passes_of(const tperf_candidate *candidate, const tperf_job *job,
                     const tperf_workload *workload, const tperf_layer_cost *costs,
                     const tperf_stage *chunks, int64_t n, tperf_chunk_passes *passes,
                     tperf_device_waits *waits) {
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    tperf_exposure sections[TPERF_SECTIONS_MAX];
    double hop = tperf_hop_time(candidate, job, tperf_hop_times(job, workload));
    bool gathers_each = tperf_gathers_each(candidate, job->training);
    bool reduces_each = tperf_reduces_each(candidate, job->training);
    tperf_exchange_times(candidate, job, workload, costs, exchanges);
    tperf_exposures_of(candidate, job, workload, costs, exchanges,
                       tperf_optimizer_time(candidate, job, workload, costs), sections);
    for (int64_t c = 0; c < n; c++) {
        tperf_stage_time t = tperf_stage_time_of(&chunks[c], workload, costs, job);
        tperf_exposure e = tperf_stage_exposure(&chunks[c], workload, sections);
        double forward = hop + (gathers_each ? e.gather : 0);
        double backward = hop + (reduces_each ? e.reduce : 0);
        passes[c] = (tperf_chunk_passes){
            {t.forward + forward, t.backward + backward, t.weight_grad, t.host,
             t.pair + forward + backward},
            tperf_chunk_memory_of(candidate, job, workload, costs, &chunks[c])};
    }
    int64_t device = 0;
    double each = (double)candidate->pipeline->virtual_stages;
    for (size_t i = 0; i < candidate->pipeline->n_devices; i++) {
        const tperf_stage *stage = &candidate->pipeline->devices[i];
        tperf_exposure e = tperf_stage_exposure(stage, workload, sections);
        for (int64_t r = 0; r < stage->repeats; r++)
            waits[device++] = (tperf_device_waits){
                e.first_gather + (gathers_each ? 0 : e.gather / each),
                e.first_reduce + e.update + (reduces_each ? 0 : e.reduce / each)};
    }
}
