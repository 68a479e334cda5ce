// exposure.h: the steps of an iteration's formula, inlined where candidates are walked so that each stands only once.
// Private to src/plan and src/search. See tperf/plan.h, docs/model.md section 6.
#ifndef TPERF_PLAN_EXPOSURE_H
#define TPERF_PLAN_EXPOSURE_H

#include "base/inlined.h"
#include "base/minmax.h"
#include "tperf/plan.h"

// The layers of a stage by section, without empty sections.
typedef struct tperf_layer_counts {
    int n, leading; // tperf_leading_section
    // An earlier stage holds at least as much of each section and begins with the same one: this one waits no longer.
    bool covered;
    struct {
        int section;
        double layers;
    } parts[TPERF_SECTIONS_MAX];
} tperf_layer_counts;

// sections: those that count; NULL: all. A section with neither ops nor weights costs nothing.
tperf_layer_counts tperf_layer_counts_of(const tperf_stage *stage, const tperf_workload *workload,
                                         const tperf_section_set *sections);
void tperf_pipeline_layer_counts(const tperf_pipeline *pipeline, const tperf_workload *workload,
                                 const tperf_section_set *sections,
                                 tperf_layer_counts *layer_counts);

// The counts of stage i: known[i], or computed into *own if known is NULL.
static inline const tperf_layer_counts *
tperf_layer_counts_at(const tperf_layer_counts *known, const tperf_pipeline *pipeline, size_t i,
                      const tperf_workload *workload, tperf_layer_counts *own) {
    if (known) return &known[i];
    *own = tperf_layer_counts_of(&pipeline->stages[i], workload, NULL);
    return own;
}

// The cover of a layer's exchanges with replicas: seconds of its passes that they may overlap, and the fraction of an
// exchange's seconds by which it slows such a pass. once: seconds of its own collectives, once an iteration.
typedef struct tperf_cover {
    double forward, backward, slows_forward, slows_backward, once;
} tperf_cover;

// bucket: the number of layers in a bucket.
TPERF_INLINED tperf_exposure tperf_exposures_at(const tperf_exchange *x, const tperf_cover *c,
                                                double bucket, bool gather_in_step,
                                                double optimizer) {
    double gather = tperf_larger(x->gather - c->forward, c->slows_forward * x->gather);
    double reduce = tperf_larger(x->reduce - c->backward, c->slows_backward * x->reduce);
    tperf_exposure e = {.gather = gather,
                        .reduce = reduce,
                        .hidden_gather = x->gather - gather,
                        .hidden_reduce = x->reduce - reduce,
                        .update = x->update + c->once};
    e.first_gather = bucket * e.hidden_gather;
    e.first_reduce = bucket * e.hidden_reduce;
    if (gather_in_step) e.first_gather = tperf_larger(e.first_gather - optimizer, 0);
    return e;
}

// The leading part is at most what the stage hides.
TPERF_INLINED tperf_exposure tperf_counted_exposures(const tperf_layer_counts *counts,
                                                     const tperf_exposure *sections) {
    const tperf_exposure *first = &sections[counts->leading];
    double none = 0;
    tperf_exposure sum = {none, none, none, none, first->first_gather, first->first_reduce, none};
    for (int i = 0; i < counts->n; i++) {
        const tperf_exposure *e = &sections[counts->parts[i].section];
        double layers = counts->parts[i].layers;
        sum.gather += layers * e->gather;
        sum.reduce += layers * e->reduce;
        sum.update += layers * e->update;
        sum.hidden_gather += layers * e->hidden_gather;
        sum.hidden_reduce += layers * e->hidden_reduce;
    }
    sum.first_gather = tperf_smaller(sum.first_gather, sum.hidden_gather);
    sum.first_reduce = tperf_smaller(sum.first_reduce, sum.hidden_reduce);
    return sum;
}

// What a pipeline's time depends on, of a layer's cost: of its passes, and of both together.
typedef struct tperf_layer_time {
    double forward, backward, input, weight; // seconds; the halves of a backward pass that is split
    double launches, host; // of both passes; seconds by which they outlast the GPU's work
    double comm, slowing;  // seconds
    double hidden;         // seconds saved if overlapped passes hide each other's expert exchanges
} tperf_layer_time;

// What the parts of an iteration are multiples of; seconds of the optimizer step.
typedef struct tperf_multiples {
    double chunks, bubble_forward, bubble_backward, bubble_weight, optimizer;
    // A weight gradient that fills a wait counts no longer than the pass that the device waits for: an input gradient or,
    // unless pairs of both overlap, a forward pass (docs/model.md section 6.1).
    bool fills_backward, fills_forward;
    // Messages that passes wait for, and those beside passes; of these the seconds of the host's calls, and the part of
    // the rest by which they slow the kernels.
    double messages, beside, calls, share;
    bool travels; // TPERF_SENT_BESIDE_PASSES
    double ways;  // then: messages on the critical path
    double late;  // then: messages that may reach a steady pass late
} tperf_multiples;

// Shared by all placements of a candidate.
typedef struct tperf_terms {
    const tperf_pipeline *pipeline;
    const tperf_layer_counts *stages; // of the pipeline's stages; may be NULL
    const tperf_workload *workload;
    double microbatches, chunks;
    const tperf_job *job;
    // Of one micro-batch's passes, by section; NULL unless they wait for exchanges of their own (ZeRO 2 and 3).
    const tperf_layer_time *times;
    double work; // of the busiest stage, if times are given
    bool gathers_each, reduces_each;
    // Exposed exchanges of a chunk per iteration: gathers, reductions.
    double gathers, reduces;
    tperf_multiples multiples;
    double optimizer;
} tperf_terms;

void tperf_terms_init(tperf_terms *terms, const tperf_candidate *candidate, const tperf_job *job,
                      const tperf_workload *workload, double optimizer);

// The stage that waits longest for its replicas: seconds per iteration, and the part that every micro-batch's passes
// wait.
typedef struct tperf_waiting {
    double time, each_forward, each_backward;
} tperf_waiting;

// A stage that may wait. mirror: NULL, or the counts that every other micro-batch passes instead. slack: seconds by
// which its work falls short of the busiest stage's; so much of what it waits for every micro-batch delays nothing.
typedef struct tperf_waiter {
    const tperf_layer_counts *counts, *mirror;
    double slack;
} tperf_waiter;

// Makes *worst the wait of a stage, where it waits longer; returns where it does. Weights are gathered once, or for every micro-batch if they are sharded (ZeRO 3); likewise gradients (ZeRO 2). Only a device's
// first chunk waits for a single exchange: the other chunks' weights travel while it works, and their gradients are
// complete before its own. waits_each: tperf_waits_each.
TPERF_INLINED bool tperf_wait_longer(tperf_waiting *worst, const tperf_terms *terms,
                                     tperf_waiter stage, const tperf_exposure *sections,
                                     bool waits_each) {
    tperf_exposure e = tperf_counted_exposures(stage.counts, sections);
    if (stage.mirror) {
        tperf_exposure other = tperf_counted_exposures(stage.mirror, sections);
        if (terms->gathers_each) e.gather = (e.gather + other.gather) / 2;
        if (terms->reduces_each) e.reduce = (e.reduce + other.reduce) / 2;
    }
    double gather = terms->gathers * e.gather, reduce = terms->reduces * e.reduce;
    double each = 0, once = e.first_gather + e.first_reduce + e.update;
    if (!waits_each) {
        double all = once + gather + reduce;
        bool later = all > worst->time;
        worst->time = tperf_larger(all, worst->time);
        return later;
    }
    *(terms->gathers_each ? &each : &once) += gather;
    *(terms->reduces_each ? &each : &once) += reduce;
    double time = tperf_larger(each - stage.slack, 0) + once;
    bool longer = time > worst->time;
    worst->each_forward = longer ? e.gather : worst->each_forward;
    worst->each_backward = longer ? e.reduce : worst->each_backward;
    worst->time = longer ? time : worst->time;
    return longer;
}

TPERF_INLINED tperf_waiting tperf_no_waiting(void) {
    return (tperf_waiting){0, 0, 0};
}

// Whether passes wait for exchanges of their own micro-batch.
static inline bool tperf_waits_each(const tperf_terms *terms) {
    return terms->gathers_each || terms->reduces_each;
}

// Leaves the parts that every micro-batch's passes wait only where they do.
TPERF_INLINED void tperf_wait_each(tperf_waiting *worst, const tperf_terms *terms) {
    if (!terms->gathers_each) worst->each_forward = 0;
    if (!terms->reduces_each) worst->each_backward = 0;
}

// The number of overlapped pairs. A pair belongs to one chunk.
static inline double tperf_pairs_of(const tperf_pipeline *pipeline, double microbatches) {
    return pipeline->pairs + pipeline->pairs_each * microbatches;
}

// What a candidate's time depends on, of its pipeline's.
typedef struct tperf_pass_sums {
    // Of the busiest stage: both passes; less by overlapping them; more by splitting the backward pass.
    double passes, saved, split_wait;
    double forward, backward, input, weight; // the average of the others
} tperf_pass_sums;

static inline tperf_pass_sums tperf_pass_sums_of(const tperf_pipeline_time *t) {
    double passes = t->busy.forward + t->busy.backward;
    double split_wait = t->busy.input + t->busy.weight - t->busy.backward;
    return (tperf_pass_sums){passes,
                             passes - t->busy.pair,
                             split_wait > 0 ? split_wait : 0, // but for rounding
                             t->others.forward,
                             t->others.backward,
                             t->others.input,
                             t->others.weight};
}

// The number of split backward passes of chunks.
static inline double tperf_split_of(const tperf_pipeline *pipeline, double microbatches) {
    return pipeline->split + pipeline->split_each * microbatches;
}

// Whether the schedule splits backward passes on the critical path.
static inline bool tperf_splits_passes(const tperf_pipeline *pipeline) {
    return pipeline->split != 0 || pipeline->split_each != 0;
}

// Seconds that split passes of the busiest stage take beyond whole ones.
static inline double tperf_split_wait_of(const tperf_terms *terms, const tperf_pass_sums *sums) {
    return tperf_split_of(terms->pipeline, terms->microbatches) * sums->split_wait / terms->chunks;
}

static inline double tperf_hidden_of(const tperf_terms *terms, const tperf_pass_sums *sums) {
    double pairs = tperf_pairs_of(terms->pipeline, terms->microbatches);
    if (pairs == 0) return 0;
    return pairs * sums->saved / terms->chunks;
}

// What placements with equal layer costs share, of the parts of an iteration.
typedef struct tperf_beat {
    double work, hidden;
    double forward, backward,
        weight; // of the other stages; backward: of the input alone, if passes are split
} tperf_beat;

// hidden: tperf_hidden_of.
TPERF_INLINED tperf_beat tperf_beat_of(const tperf_terms *terms, const tperf_pass_sums *sums,
                                       double hidden) {
    return (tperf_beat){
        .work = terms->microbatches * sums->passes + tperf_split_wait_of(terms, sums),
        .forward = sums->forward,
        .backward = tperf_splits_passes(terms->pipeline) ? sums->input : sums->backward,
        .hidden = hidden,
        .weight = sums->weight,
    };
}

// The parts of an iteration that add up to its time: those of its beat and the optimizer step, and these.
typedef struct tperf_parts {
    double data_comm, pipeline_comm, bubble;
    double hop;     // tperf_iteration's
    double late;    // of pipeline_comm
    double filling; // seconds of each weight gradient of the bubble
} tperf_parts;

// What a pass keeps of a message that travels beside others: the host's calls, and the kernels that the rest slows; and
// what is on the way between the end of the pass and the start of the next stage's.
typedef struct tperf_sent {
    double kept, way;
} tperf_sent;

TPERF_INLINED tperf_sent tperf_sent_of(double hop, double calls, double share) {
    calls = tperf_smaller(hop, calls);
    double way = hop - calls;
    return (tperf_sent){calls + share * way, way};
}

// Seconds by which a message reaches a steady pass of interleaved chunks late: it travels beside another pass, the
// shorter of the two kinds.
TPERF_INLINED double tperf_late_by(const tperf_multiples *multiples, const tperf_beat *beat,
                                   tperf_sent sent) {
    double shorter = tperf_smaller(beat->forward, beat->backward) / multiples->chunks;
    return tperf_larger(sent.way - (shorter + sent.kept), 0);
}

// hop: seconds of a message between stages. Without messages and exchanges with replicas (waiting and hop are 0), the
// whole is a lower bound for every placement, to the last bit, since terms are added in the same order and rounding is
// monotonic.
TPERF_INLINED tperf_parts tperf_parts_of(const tperf_multiples *multiples, const tperf_beat *beat,
                                         const tperf_waiting *waiting, double hop) {
    tperf_sent sent = tperf_sent_of(hop, multiples->calls, multiples->share);
    double pipeline_comm = multiples->messages * hop + multiples->beside * sent.kept;
    double late = 0;
    if (multiples->travels) {
        late = multiples->late * tperf_late_by(multiples, beat, sent);
        pipeline_comm += multiples->ways * sent.way + late;
        hop = sent.kept;
    }
    hop *= multiples->chunks;
    double forward = beat->forward + waiting->each_forward + hop;
    double backward = beat->backward + waiting->each_backward + hop;
    double filling = beat->weight;
    if (multiples->fills_backward) filling = tperf_smaller(filling, backward);
    if (multiples->fills_forward) filling = tperf_smaller(filling, forward);
    return (tperf_parts){
        .data_comm = waiting->time,
        .pipeline_comm = pipeline_comm,
        .bubble = multiples->bubble_forward * forward + multiples->bubble_backward * backward +
                  multiples->bubble_weight * filling,
        .hop = hop,
        .late = late,
        .filling = filling,
    };
}

TPERF_INLINED double tperf_whole(const tperf_multiples *multiples, const tperf_beat *beat,
                                 const tperf_parts *p) {
    return beat->work + p->bubble + p->data_comm + p->pipeline_comm + multiples->optimizer -
           beat->hidden;
}

// one_domain: all GPUs are in one fast domain.
tperf_cover tperf_cover_of(const tperf_job *job, const tperf_layer_cost *cost, bool one_domain);

// The number of layers of a section in one bucket. Buckets are sized in unsharded parameters: it may be below one.
double tperf_layers_of_bucket(const tperf_candidate *candidate, const tperf_job *job,
                              const tperf_workload *workload, const tperf_layer_cost *cost);

// Replicas of dense weights and of experts, at a ZeRO stage, in a pipeline of so many stages.
typedef struct tperf_among {
    const tperf_replicas *dense, *experts;
    int zero;
    int64_t stages;
} tperf_among;

// Like tperf_exchange_times, among known replicas. Of costs only the bytes are read.
void tperf_exchange_times_among(const tperf_among *among, const tperf_job *job,
                                const tperf_workload *workload, const tperf_layer_cost *costs,
                                tperf_exchange *exchanges);

tperf_layer_time tperf_layer_time_of(const tperf_job *job, const tperf_layer_cost *cost);

// The same with further tiers.
double tperf_hop_in_tiers(const tperf_hop *hop, double pp, double fast, double dp,
                          bool slow_links_cost);

// Seconds of a hop on average over pp stages, of which `fast` share a domain, in one of dp pipelines; tperf_hop_time.
static inline double tperf_hop_among(double pp, double fast, double dp, const tperf_hop *hop,
                                     bool slow_links_cost) {
    if (pp == 1) return 0;
    double whole = hop->gather + hop->host;
    if (hop->system) return tperf_hop_in_tiers(hop, pp, fast, dp, slow_links_cost) + whole;
    if (fast == 1) return hop->slow + whole;
    double links = pp - 1, slow_links = (double)(int64_t)(pp / fast - 1);
    double slow = slow_links_cost ? hop->slow : 0;
    return ((links - slow_links) * hop->fast + slow_links * slow) / links + whole;
}

#endif
