// iteration.c: the time of one training iteration. See tperf/plan.h.
#include <math.h>

#include "plan/passes.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

tperf_layer_counts tperf_layer_counts_of(const tperf_stage *stage, const tperf_workload *workload,
                                         const tperf_section_set *sections) {
    tperf_layer_counts h;
    h.n = 0;
    h.leading = tperf_leading_section(stage, workload);
    h.covered = false;
    for (int i = 0; i < workload->n_sections; i++) {
        double layers = tperf_stage_layers(stage, i, workload);
        if (layers == 0 || (sections && !tperf_section_set_has(sections, i))) continue;
        h.parts[h.n].section = i;
        h.parts[h.n++].layers = layers;
    }
    return h;
}

static double layers_in(const tperf_layer_counts *counts, int section) {
    for (int i = 0; i < counts->n; i++)
        if (counts->parts[i].section == section) return counts->parts[i].layers;
    return 0;
}

// Whether a holds at least as much as b and begins with the same section. Rounding is monotonic: a then waits at least
// as long.
static bool covers(const tperf_layer_counts *a, const tperf_layer_counts *b) {
    bool all = a->leading == b->leading;
    for (int i = 0; i < b->n; i++)
        all = all && layers_in(a, b->parts[i].section) >= b->parts[i].layers;
    return all;
}

void tperf_pipeline_layer_counts(const tperf_pipeline *pipeline, const tperf_workload *workload,
                                 const tperf_section_set *sections,
                                 tperf_layer_counts *layer_counts) {
    enum { LEADERS = 4 }; // stages compared: the first ones hold most
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        layer_counts[i] = tperf_layer_counts_of(&pipeline->stages[i], workload, sections);
        if (pipeline->weight_copies > 1) continue; // their mirrors may wait longer
        for (size_t j = 0; j < i && j < LEADERS; j++)
            layer_counts[i].covered =
                layer_counts[i].covered || covers(&layer_counts[j], &layer_counts[i]);
    }
}

// The time saved by overlapping a layer's forward and backward passes if each one's expert exchanges run beside the
// other's kernels, as Megatron-LM pairs them (megatron/core/models/common/model_chunk_schedule_plan.py).
static double hidden_exchanges(const tperf_expert_cost *e, bool delay_grads) {
    double grad = delay_grads ? e->inside_grad : 0;
    return smaller(e->combine[1], e->outside[0]) + smaller(e->dispatch[0], e->inside[1] - grad) +
           smaller(e->dispatch[1], e->inside[0] + grad) + smaller(e->combine[0], e->outside[1]);
}

tperf_layer_time tperf_layer_time_of(const tperf_job *job, const tperf_layer_cost *cost) {
    const tperf_pass_cost *f = &cost->forward, *b = &cost->backward;
    const tperf_training *t = job->training;
    double host = f->host + b->host;
    double work = f->time + b->time - host - (f->offload + b->offload);
    return (tperf_layer_time){
        .forward = f->time,
        .backward = b->time,
        .input = cost->input_half,
        .weight = cost->weight_half,
        .launches = f->launches + b->launches,
        .host = host,
        .kernels = work - (f->comm + b->comm) + (f->slowing + b->slowing),
        .carried = f->carried + b->carried,
        .work = work,
        .hidden = t->hide_experts ? hidden_exchanges(&cost->exchange, t->delay_grads) : 0,
    };
}

tperf_stage_time tperf_stage_time_of(const tperf_stage *stage, const tperf_workload *workload,
                                     const tperf_layer_cost *costs, const tperf_job *job) {
    tperf_layer_counts counts = tperf_layer_counts_of(stage, workload, NULL);
    tperf_layer_time times[TPERF_SECTIONS_MAX];
    for (int i = 0; i < counts.n; i++) {
        int section = counts.parts[i].section;
        times[section] = tperf_layer_time_of(job, &costs[section]);
    }
    return tperf_counted_time(&counts, times, job, true);
}

// Seconds of a pass's collectives that exchanges with replicas do not overlap: links carry one collective at a time
// (Q15), those that the pass hides, too; exchanges that cross domains leave the fast links to the others.
static double links_of(const tperf_pass_cost *pass, const tperf_job *job, bool one_domain) {
    if (!job->on.rules->data_overlap_excludes_comm) return 0;
    return one_domain ? pass->carried : pass->crossing;
}

// overlap: the fraction of the pass that an exchange may overlap; below 0: the software's.
static double window_of(double seconds, double links, const tperf_job *job, double overlap) {
    return larger(seconds - links, 0) * tperf_window(job, overlap);
}

tperf_cover tperf_cover_of(const tperf_job *job, const tperf_layer_cost *cost, bool one_domain) {
    const tperf_training *t = job->training;
    double forward = links_of(&cost->forward, job, one_domain),
           backward = links_of(&cost->backward, job, one_domain);
    return (tperf_cover){
        .forward = window_of(cost->forward.time, forward, job, t->gather_overlap),
        .backward = window_of(cost->backward.time, backward, job, t->reduce_overlap),
        .input = window_of(cost->input_half, backward, job, t->reduce_overlap),
        .weight = window_of(cost->weight_half, 0, job, t->reduce_overlap),
        .share = tperf_comm_share(&(tperf_comm){0}, &job->on),
        .links = forward + backward,
        .once = cost->backward.once,
    };
}

tperf_each tperf_each_of(const tperf_candidate *candidate, const tperf_job *job) {
    const tperf_training *t = job->training;
    return (tperf_each){
        .gathers = tperf_gathers_each(candidate, t),
        .reduces = tperf_reduces_each(candidate, t),
        .gather_overlap = tperf_window(job, t->gather_overlap),
        .reduce_overlap = tperf_window(job, t->reduce_overlap),
        .share = tperf_comm_share(&(tperf_comm){0}, &job->on),
    };
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

static bool in_one_domain(const tperf_candidate *candidate, const tperf_job *job,
                          const tperf_grid *grid) {
    double gpus = 1;
    for (int i = 0; i < grid->n; i++)
        if (!grid->axes[i].folds) gpus *= (double)candidate->sizes[i];
    return gpus <= (double)job->on.system->network.fast.domain;
}

double tperf_sent_each(const tperf_pipeline *pipeline, const tperf_workload *workload,
                       const tperf_job *job) {
    if (!job->on.rules->data_overlap_excludes_comm) return 0;
    if (tperf_sending_of(pipeline, job->training) != TPERF_SENT_BESIDE_PASSES) return 0;
    double layers = 0;
    for (size_t i = 0; i < pipeline->n_stages; i++)
        for (int kind = 0; kind < workload->n_kinds; kind++)
            layers += (double)(pipeline->stages[i].repeats * pipeline->stages[i].layers[kind]);
    return layers > 0 ? (double)(pipeline->pp * pipeline->virtual_stages) / layers : 0;
}

// Seconds of messages beside a pass of each layer, on the links of exchanges that cross domains.
static double sent_beside(const tperf_plan *plan, bool one_domain) {
    double each =
        one_domain ? 0 : tperf_sent_each(plan->candidate->pipeline, plan->workload, plan->job);
    if (each == 0) return 0;
    tperf_hop hop = tperf_hop_times(plan->job, plan->workload);
    return each * tperf_hop_across(&hop, (double)plan->candidate->pipeline->pp,
                                   (double)plan->candidate->placement.fast[TPERF_AXIS_STAGES],
                                   (double)plan->candidate->sizes[TPERF_AXIS_REPLICAS]);
}

void tperf_exposures_of(const tperf_plan *plan, const tperf_exchange *exchanges, double optimizer,
                        tperf_exposure *sections) {
    bool one_domain = in_one_domain(plan->candidate, plan->job, &plan->workload->grid);
    double sent = sent_beside(plan, one_domain);
    tperf_each each = tperf_each_of(plan->candidate, plan->job);
    tperf_sent_beside beside = {each.gather_overlap * sent, each.reduce_overlap * sent};
    for (int i = 0; i < plan->workload->n_sections; i++) {
        tperf_cover cover = tperf_cover_of(plan->job, &plan->costs[i], one_domain);
        double bucket =
            tperf_layers_of_bucket(plan->candidate, plan->job, plan->workload, &plan->costs[i]);
        sections[i] = tperf_exposures_at(&exchanges[i], &cover, beside, bucket,
                                         plan->job->training->gather_in_step, optimizer);
    }
    for (int i = plan->workload->n_kinds; i < plan->workload->n_sections; i++)
        sections[i].update += tperf_joint_time_of(plan, i);
}

tperf_exposure tperf_stage_exposure(const tperf_stage *stage, const tperf_workload *workload,
                                    const tperf_exposure *sections) {
    tperf_layer_counts counts = tperf_layer_counts_of(stage, workload, NULL);
    return tperf_counted_exposures(&counts, sections);
}

static double message_calls(const tperf_job *job) {
    return tperf_message_calls_time(&job->on);
}

// The part of a message beside a pass by which it slows the kernels.
static double message_share(const tperf_job *job) {
    return tperf_comm_share(&(tperf_comm){0}, &job->on);
}

tperf_message tperf_message_of(const tperf_pipeline *pipeline, const tperf_job *job, double hop) {
    tperf_sent sent = tperf_sent_of(hop, message_calls(job), message_share(job));
    double kept = sent.kept;
    switch (tperf_sending_of(pipeline, job->training)) {
    case TPERF_SENT_IN_PASSES:
        return (tperf_message){hop, 2 * hop, 0};
    case TPERF_SENT_BY_PAIRS:
        return (tperf_message){hop, 0, 0};
    case TPERF_SENT_BESIDE_PAIRS:
        return (tperf_message){hop, 2 * kept, 0};
    case TPERF_SENT_BESIDE_PASSES:
        break;
    }
    return (tperf_message){kept, 2 * kept, sent.way};
}

// Sets how a device's messages add up in an iteration.
static void set_messages(tperf_multiples *multiples, const tperf_pipeline *pipeline,
                         const tperf_job *job, double microbatches) {
    tperf_sending sending = tperf_sending_of(pipeline, job->training);
    double chunks = (double)pipeline->virtual_stages, all = 2 * microbatches * chunks, beside = 0;
    double paired = 2 * tperf_pairs_of(pipeline, microbatches);
    if (sending == TPERF_SENT_BY_PAIRS) all -= paired;
    if (sending == TPERF_SENT_BESIDE_PAIRS) beside = paired;
    if (sending == TPERF_SENT_BESIDE_PASSES) beside = all;
    multiples->travels = sending == TPERF_SENT_BESIDE_PASSES;
    multiples->messages = all - beside;
    multiples->beside = beside;
    multiples->calls = message_calls(job);
    multiples->share = message_share(job);
    multiples->ways = pipeline->ways;
    multiples->late = (microbatches - (double)pipeline->min_microbatches) * (chunks - 1);
}

void tperf_terms_init(tperf_terms *terms, const tperf_candidate *candidate, const tperf_job *job,
                      const tperf_workload *workload, double optimizer) {
    const tperf_pipeline *pipeline = candidate->pipeline;
    double microbatches = (double)candidate->microbatches;
    double chunks = (double)pipeline->virtual_stages;
    tperf_each each = tperf_each_of(candidate, job);
    bool fills = tperf_splits_passes(pipeline) && pipeline->bubble_weight_grad < 0;
    bool plain = !tperf_splits_passes(pipeline) && !tperf_overlaps_passes(pipeline);
    double others = (double)pipeline->pp - 1;
    *terms = (tperf_terms){
        .job = job,
        .pipeline = pipeline,
        .workload = workload,
        .microbatches = microbatches,
        .chunks = chunks,
        .each = each,
        .gathers = each.gathers ? 0 : 1 / chunks,
        .reduces = each.reduces ? 0 : 1 / chunks,
        .longest_passes = plain && pipeline->bubble_forward == pipeline->bubble_backward &&
                          pipeline->bubble_forward <= microbatches * others,
        .multiples = {.chunks = chunks,
                      .bubble_forward = pipeline->bubble_forward,
                      .bubble_backward = pipeline->bubble_backward,
                      .bubble_weight = pipeline->bubble_weight_grad,
                      .fills_backward = fills,
                      .fills_forward = fills && !tperf_overlaps_passes(pipeline),
                      .optimizer = optimizer},
        .optimizer = optimizer,
    };
    set_messages(&terms->multiples, pipeline, job, microbatches);
}

tperf_hop tperf_hop_times(const tperf_job *job, const tperf_workload *workload) {
    double bytes = workload->boundary_bytes, part = bytes / (double)workload->boundary_parts;
    tperf_hop hop = {.fast = tperf_send_time(&job->on, part, true),
                     .slow = tperf_send_time(&job->on, part, false),
                     .gather =
                         tperf_collective_time(job->on.system, job->on.rules, TPERF_ALL_GATHER,
                                               bytes, tperf_hop_group(job, workload)),
                     .host = tperf_message_calls_time(&job->on)};
    const tperf_system *system = job->on.system;
    if (system->network.n_tiers == 0) return hop;
    hop.system = system;
    hop.own = tperf_grid_own_gpus(&workload->grid, workload->sizes, INT64_MAX);
    for (int64_t i = 0; i < system->network.n_tiers; i++)
        hop.up[i] = tperf_collective_time(system, job->on.rules, TPERF_SEND, part,
                                          tperf_pair_across(system, &system->network.tiers[i]));
    return hop;
}

double tperf_hop_links(const tperf_hop *hop, double pp, double fast, double dp,
                       const tperf_tier *tier) {
    double domain = (double)hop->system->network.fast.domain, apart = (double)hop->own * dp;
    tperf_group stages = {(int64_t)pp, (int64_t)fast, (int64_t)(domain / fast),
                          (int64_t)fmax(apart * fast / domain, 1)};
    double members = (double)tperf_group_members(hop->system, stages, tier);
    return tier->outside ? pp / members - 1 : pp / fast * (fast / members - 1);
}

// Seconds of a message over all links of a pipeline, within domains and between them.
static void sum_in_tiers(const tperf_hop *hop, double pp, double fast, double dp, double sum[2]) {
    double far = pp / fast - 1;
    sum[0] = (pp - 1 - far) * hop->fast;
    sum[1] = far * hop->slow;
    double before[2] = {hop->fast, hop->slow};
    for (int64_t i = 0; i < hop->system->network.n_tiers; i++) {
        const tperf_tier *tier = &hop->system->network.tiers[i];
        double *last = &before[tier->outside];
        sum[tier->outside] += tperf_hop_links(hop, pp, fast, dp, tier) * (hop->up[i] - *last);
        *last = hop->up[i];
    }
}

double tperf_far_in_tiers(const tperf_hop *hop, double pp, double fast, double dp) {
    double sum[2];
    sum_in_tiers(hop, pp, fast, dp, sum);
    return sum[1] / (pp - 1);
}

double tperf_hop_in_tiers(const tperf_hop *hop, double pp, double fast, double dp,
                          bool slow_links_cost) {
    double sum[2];
    sum_in_tiers(hop, pp, fast, dp, sum);
    return (sum[0] + (slow_links_cost || fast == 1 ? sum[1] : 0)) / (pp - 1);
}

tperf_group tperf_hop_group(const tperf_job *job, const tperf_workload *workload) {
    int64_t parts = workload->boundary_parts;
    return (tperf_group){parts, tperf_gcd(parts, job->on.system->network.fast.domain), 1, 1};
}

double tperf_hop_time(const tperf_candidate *candidate, const tperf_job *job, tperf_hop hop) {
    return tperf_hop_among((double)candidate->pipeline->pp,
                           (double)candidate->placement.fast[TPERF_AXIS_STAGES],
                           (double)candidate->sizes[TPERF_AXIS_REPLICAS], &hop,
                           job->on.rules->slow_pipeline_links_cost);
}

double tperf_layers_passed(const tperf_pipeline *pipeline, const tperf_stage *stage, int section,
                           const tperf_workload *workload) {
    double own = tperf_stage_layers(stage, section, workload);
    if (!(pipeline->weight_copies > 1)) return own;
    return (own + tperf_stage_layers(&pipeline->stages[stage->mirror], section, workload)) / 2;
}

// Seconds of compute, memory and collectives of one micro-batch in a device of a stage, both passes; and its FLOPs.
static tperf_pass_cost breakdown_of_stage(const tperf_pipeline *pipeline, const tperf_stage *stage,
                                          const tperf_workload *workload,
                                          const tperf_layer_cost *costs, double *flops) {
    tperf_pass_cost sum = {0};
    *flops = 0;
    for (int i = 0; i < workload->n_sections; i++) {
        double layers = tperf_layers_passed(pipeline, stage, i, workload);
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
        breakdown_of_stage(pipeline, &pipeline->stages[i], workload, costs, &flops);
        all += (double)pipeline->stages[i].repeats * flops;
    }
    return all / (double)pipeline->pp;
}

// The part of what overlapped passes hide that is not collectives, but waits for the host. both: the longest device's
// passes.
static double hidden_host(const tperf_plan *plan, const tperf_layer_time *times,
                          const tperf_pipeline_time *pipeline, const tperf_pass_cost *both,
                          double hidden) {
    if (!(hidden > 0)) return 0;
    double comm = both->comm - both->slowing;
    if (plan->job->training->hide_experts) {
        comm = 0;
        for (int i = 0; i < plan->workload->n_sections; i++)
            comm += times[i].hidden * tperf_layers_passed(plan->candidate->pipeline,
                                                          pipeline->busiest, i, plan->workload);
    }
    const tperf_stage_time *t = &pipeline->busy;
    return smaller(hidden * larger(1 - comm / (t->forward + t->backward - t->pair), 0),
                   (double)plan->candidate->microbatches * t->host);
}

// Seconds of collectives in a split pass of the longest device beyond a whole one's: no more than it waits.
static double late_in_halves(const tperf_plan *plan, const tperf_pipeline_time *pipeline) {
    double late = 0, more = pipeline->busy.input + pipeline->busy.weight - pipeline->busy.backward;
    for (int i = 0; i < plan->workload->n_sections; i++)
        late +=
            plan->costs[i].late_split *
            tperf_layers_passed(plan->candidate->pipeline, pipeline->busiest, i, plan->workload);
    return smaller(late, larger(more, 0));
}

// An iteration's time, and what it is made of.
typedef struct summary {
    tperf_terms terms;
    tperf_layer_time times[TPERF_SECTIONS_MAX];
    tperf_pipeline_time waiting;  // with what passes wait for exchanges of their own
    tperf_pipeline_time pipeline; // without
    tperf_beat beat, bare;        // likewise
    tperf_parts parts;
    const tperf_stage *once; // tperf_iteration's `waiting`
} summary;

// The same devices without what their passes wait for their replicas.
static tperf_pipeline_time without_waits(const tperf_timed_stages *of,
                                         const tperf_pipeline_time *waiting) {
    const tperf_pipeline *pipeline = of->terms->pipeline;
    bool pairs = tperf_overlaps_passes(pipeline);
    if (!of->sections) return *waiting;
    tperf_timed_stages bare = {of->terms, of->times, NULL};
    size_t longest;
    tperf_stage_time busy = {0}, all = tperf_all_times(&bare, pairs, &longest, &busy);
    busy = tperf_device_time(&bare, (size_t)(waiting->busiest - pipeline->stages), pairs);
    if (pipeline->n_stages == 1) return (tperf_pipeline_time){waiting->busiest, busy, busy};
    tperf_stage_time others = tperf_others_time(&all, &busy, (double)pipeline->pp);
    return (tperf_pipeline_time){waiting->busiest, busy, others};
}

static void sum_up(const tperf_plan *plan, summary *s) {
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    tperf_exposure sections[TPERF_SECTIONS_MAX];
    tperf_terms_init(&s->terms, plan->candidate, plan->job, plan->workload,
                     tperf_optimizer_time(plan));
    for (int i = 0; i < plan->workload->n_sections; i++)
        s->times[i] = tperf_layer_time_of(plan->job, &plan->costs[i]);
    tperf_exchange_times(plan, exchanges);
    tperf_exposures_of(plan, exchanges, s->terms.optimizer, sections);
    const tperf_timed_stages of = {&s->terms, s->times,
                                   tperf_waits_each(&s->terms.each) ? sections : NULL};
    bool splits = tperf_splits_passes(plan->candidate->pipeline);
    s->waiting = tperf_pipeline_time_of(&of);
    s->pipeline = without_waits(&of, &s->waiting);
    tperf_pass_sums sums = tperf_pass_sums_of(&s->waiting.busy, &s->waiting.others, splits);
    s->beat = tperf_beat_of(&s->terms, &sums);
    sums = tperf_pass_sums_of(&s->pipeline.busy, &s->pipeline.others, splits);
    s->bare = tperf_beat_of(&s->terms, &sums);
    double hop =
        tperf_hop_time(plan->candidate, plan->job, tperf_hop_times(plan->job, plan->workload));
    s->parts = tperf_parts_of(&s->terms.multiples, &s->beat,
                              tperf_waits_of(&s->terms, sections, &s->once), hop);
}

tperf_iteration tperf_iteration_of(const tperf_plan *plan) {
    summary s;
    sum_up(plan, &s);
    const tperf_parts *p = &s.parts;
    const tperf_stage_time *busy = &s.pipeline.busy, *waiting = &s.waiting.busy;
    double microbatches = s.terms.microbatches, flops;
    tperf_pass_cost both = breakdown_of_stage(plan->candidate->pipeline, s.pipeline.busiest,
                                              plan->workload, plan->costs, &flops);
    double host = hidden_host(plan, s.times, &s.pipeline, &both, s.bare.hidden);
    double each = s.beat.work - s.beat.hidden - (s.bare.work - s.bare.hidden);
    double apart =
        microbatches * (waiting->forward - busy->forward + (waiting->backward - busy->backward));
    bool splits = tperf_splits_passes(plan->candidate->pipeline);
    double halves = tperf_split_of(s.terms.pipeline, microbatches) / s.terms.chunks *
                    late_in_halves(plan, &s.pipeline);
    double split = s.bare.work - microbatches * (busy->forward + busy->backward);
    const tperf_stage_time *late = &s.waiting.others, *others = &s.pipeline.others;
    return (tperf_iteration){
        .time = tperf_whole(&s.terms.multiples, &s.beat, p),
        .compute = microbatches * both.compute,
        .memory = microbatches * both.exposed_memory,
        .tensor_comm = microbatches * both.comm - (s.bare.hidden - host) + halves,
        .data_comm = p->once + each,
        .pipeline_comm = p->pipeline_comm,
        .bubble = p->bubble,
        .host = microbatches * busy->host - host + larger(split - halves, 0),
        .optimizer = s.terms.optimizer,
        .offload = microbatches * both.offload,
        .flops =
            microbatches * average_flops(plan->candidate->pipeline, plan->workload, plan->costs),
        .pipeline = s.pipeline,
        .hop = p->hop,
        .messages = s.terms.multiples.messages,
        .beside = s.terms.multiples.beside,
        .late = p->late,
        .hidden = s.bare.hidden,
        .each_forward = late->forward - others->forward,
        .each_backward = splits ? late->input - others->input : late->backward - others->backward,
        .together = apart - each,
        .waiting = s.once,
        .pairs = tperf_pairs_of(s.terms.pipeline, microbatches),
        .split = tperf_split_of(s.terms.pipeline, microbatches),
        .filling = p->filling,
    };
}

void tperf_passes_of(const tperf_plan *plan, const tperf_stage *chunks, int64_t n,
                     tperf_chunk_passes *passes, tperf_device_waits *waits, double *way) {
    tperf_exchange exchanges[TPERF_SECTIONS_MAX];
    tperf_exposure sections[TPERF_SECTIONS_MAX];
    double hop =
        tperf_hop_time(plan->candidate, plan->job, tperf_hop_times(plan->job, plan->workload));
    tperf_message message = tperf_message_of(plan->candidate->pipeline, plan->job, hop);
    *way = message.way;
    tperf_each waits_each = tperf_each_of(plan->candidate, plan->job);
    tperf_exchange_times(plan, exchanges);
    tperf_exposures_of(plan, exchanges, tperf_optimizer_time(plan), sections);
    for (int64_t c = 0; c < n; c++) {
        tperf_stage_time t =
            tperf_stage_time_of(&chunks[c], plan->workload, plan->costs, plan->job);
        tperf_exposure e = tperf_stage_exposure(&chunks[c], plan->workload, sections);
        tperf_wait_each(&t, &waits_each, &e);
        passes[c] =
            (tperf_chunk_passes){{t.forward + message.alone, t.backward + message.alone,
                                  t.input + message.alone, t.weight, t.host, t.pair + message.pair},
                                 tperf_chunk_memory_of(plan, &chunks[c])};
    }
    int64_t device = 0;
    for (size_t i = 0; i < plan->candidate->pipeline->n_devices; i++) {
        const tperf_stage *stage = &plan->candidate->pipeline->devices[i];
        tperf_exposure e = tperf_stage_exposure(stage, plan->workload, sections);
        for (int64_t r = 0; r < stage->repeats; r++, device++) {
            const tperf_stage *chunk = device < n ? &chunks[device] : stage; // its first one
            tperf_exposure late = tperf_stage_exposure(chunk, plan->workload, sections);
            waits[device] = (tperf_device_waits){
                e.first_gather + (waits_each.gathers ? 0 : late.gather),
                e.first_reduce + e.update + (waits_each.reduces ? 0 : late.reduce)};
        }
    }
}
