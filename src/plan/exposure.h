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

// How passes wait for exchanges of their own micro-batch (ZeRO 2 and 3).
typedef struct tperf_each {
    bool gathers, reduces;
    // Parts of a pass that these may overlap, and the fraction of their seconds by which they slow it.
    double gather_overlap, reduce_overlap, share;
} tperf_each;

// The cover of a layer's exchanges with replicas: seconds of its passes that they may overlap (input, weight: of the
// halves of a split backward pass), and the fraction of an exchange's seconds by which it slows such a pass. links:
// tperf_exposure's; once: seconds of its own collectives, once an iteration.
typedef struct tperf_cover {
    double forward, backward, input, weight, share, links, once;
} tperf_cover;

// Of a pass of each layer, the seconds that exchanges would overlap and messages have the links for.
typedef struct tperf_sent_beside {
    double forward, backward;
} tperf_sent_beside;

// bucket: the number of layers in a bucket.
TPERF_INLINED tperf_exposure tperf_exposures_at(const tperf_exchange *x, const tperf_cover *c,
                                                tperf_sent_beside sent, double bucket,
                                                bool gather_in_step, double optimizer) {
    double forward = tperf_larger(c->forward - sent.forward, 0);
    double backward = tperf_larger(c->backward - sent.backward, 0);
    double input = tperf_larger(c->input - sent.backward, 0);
    double gather = tperf_larger(x->gather - forward, c->share * x->gather);
    double reduce = tperf_larger(x->reduce - backward, c->share * x->reduce);
    double reduced = x->reduce - x->again;
    tperf_exposure e = {.gather = gather,
                        .reduce = reduce,
                        .hidden_gather = x->gather - gather,
                        .hidden_reduce = x->reduce - reduce,
                        .late_input = tperf_larger(x->again - input, c->share * x->again),
                        .late_weight = tperf_larger(reduced - c->weight, c->share * reduced),
                        .again = x->again,
                        .links = c->links,
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
    tperf_exposure sum = {.first_gather = first->first_gather, .first_reduce = first->first_reduce};
    for (int i = 0; i < counts->n; i++) {
        const tperf_exposure *e = &sections[counts->parts[i].section];
        double layers = counts->parts[i].layers;
        sum.gather += layers * e->gather;
        sum.reduce += layers * e->reduce;
        sum.update += layers * e->update;
        sum.hidden_gather += layers * e->hidden_gather;
        sum.hidden_reduce += layers * e->hidden_reduce;
        sum.late_input += layers * e->late_input;
        sum.late_weight += layers * e->late_weight;
        sum.links += layers * e->links;
    }
    sum.first_gather = tperf_smaller(sum.first_gather, sum.hidden_gather);
    sum.first_reduce = tperf_smaller(sum.first_reduce, sum.hidden_reduce);
    return sum;
}

// What a pipeline's time depends on, of a layer's cost: of its passes, and of both together.
typedef struct tperf_layer_time {
    double forward, backward, input, weight; // seconds; the halves of a backward pass that is split
    double launches, host; // of both passes; seconds by which they outlast the GPU's work
    double kernels; // seconds of both passes' kernels, as much slower as all collectives make them
    double carried; // seconds of both passes' collectives, one at a time
    double work;    // seconds of both passes without waits for the host and its copies
    double hidden;  // seconds saved if overlapped passes hide each other's expert exchanges
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

tperf_each tperf_each_of(const tperf_candidate *candidate, const tperf_job *job);

// Whether they do.
static inline bool tperf_waits_each(const tperf_each *each) {
    return each->gathers || each->reduces;
}

// Shared by all placements of a candidate.
typedef struct tperf_terms {
    const tperf_pipeline *pipeline;
    const tperf_layer_counts *stages; // of the pipeline's stages; may be NULL
    const tperf_workload *workload;
    double microbatches, chunks;
    const tperf_job *job;
    tperf_each each;
    // Exposed exchanges of a chunk that come once an iteration: gathers, reductions.
    double gathers, reduces;
    // Whether the stage with the longest passes is the one that takes longest, however many micro-batches there are.
    bool longest_passes;
    tperf_multiples multiples;
    double optimizer;
} tperf_terms;

void tperf_terms_init(tperf_terms *terms, const tperf_candidate *candidate, const tperf_job *job,
                      const tperf_workload *workload, double optimizer);

// Seconds for which a stage waits for its replicas once an iteration. Only a device's first chunk waits for a single
// exchange: the other chunks' weights travel while it works, and their gradients are complete before its own. It has the
// section `first`, and of several chunks not `last`.
TPERF_INLINED double tperf_waits_once(const tperf_terms *terms, const tperf_layer_counts *counts,
                                      const tperf_exposure *sections) {
    tperf_exposure e = tperf_counted_exposures(counts, sections);
    double once = e.first_gather + e.first_reduce + e.update;
    double late = terms->gathers * e.gather + terms->reduces * e.reduce;
    if (terms->chunks == 1) return once + late;
    for (int i = 0; i < counts->n; i++) {
        int end = counts->parts[i].section - terms->workload->n_kinds;
        if (end != 0 && end != 1) continue;
        e = sections[terms->workload->n_kinds + end];
        double part = terms->gathers * e.gather + terms->reduces * e.reduce;
        late += end == 0 ? (terms->chunks - 1) * part : -part;
    }
    return once + late;
}

// Seconds by which exchanges of so many seconds delay what they overlap, which leaves them a window: first the gathers,
// then the reductions.
static inline double tperf_late_beside(const tperf_each *each, double window, double gather,
                                       double reduce) {
    double late = tperf_larger(gather - each->gather_overlap * window, each->share * gather);
    if (late < gather) window -= (gather - late) / each->gather_overlap;
    return late + tperf_larger(reduce - each->reduce_overlap * window, each->share * reduce);
}

// Adds to the times of passes what they wait for exchanges of their own. An overlapped pair is no shorter than either.
static inline void tperf_wait_each(tperf_stage_time *t, const tperf_each *each,
                                   const tperf_exposure *e) {
    double gather = each->gathers ? e->gather : 0, reduce = each->reduces ? e->reduce : 0;
    double gathers = each->gathers ? e->gather + e->hidden_gather : 0;
    double reduces = each->reduces ? e->reduce + e->hidden_reduce : 0;
    t->forward += gather;
    t->backward += reduce;
    t->input += each->reduces ? e->late_input : 0;
    t->weight += each->reduces ? e->late_weight : 0;
    if (t->pair == 0) return;
    double window = tperf_larger(t->pair - e->links, 0);
    t->pair = tperf_larger(t->pair + tperf_late_beside(each, window, gathers, reduces),
                           tperf_larger(t->forward, t->backward));
}

// The number of overlapped pairs. A pair belongs to one chunk.
static inline double tperf_pairs_of(const tperf_pipeline *pipeline, double microbatches) {
    return pipeline->pairs + pipeline->pairs_each * microbatches;
}

// What a candidate's time depends on, of its pipeline's.
typedef struct tperf_pass_sums {
    // Of the stage that takes longest: both passes; less by overlapping them; more by splitting the backward pass; its
    // weight gradients, and its shorter pass.
    double passes, saved, split_wait, weight, shorter;
    double forward,
        backward; // the average of the others; backward: of the input alone, if passes are split
} tperf_pass_sums;

static inline tperf_pass_sums tperf_pass_sums_of(const tperf_stage_time *own,
                                                 const tperf_stage_time *others, bool splits) {
    double passes = own->forward + own->backward;
    double split_wait = own->input + own->weight - own->backward;
    return (tperf_pass_sums){passes,
                             passes - own->pair,
                             split_wait > 0 ? split_wait : 0, // but for rounding
                             own->weight,
                             tperf_smaller(own->forward, splits ? own->input : own->backward),
                             others->forward,
                             splits ? others->input : others->backward};
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
    double weight, shorter;   // tperf_pass_sums'
    double forward, backward; // likewise
} tperf_beat;

TPERF_INLINED tperf_beat tperf_beat_of(const tperf_terms *terms, const tperf_pass_sums *sums) {
    return (tperf_beat){
        .work = terms->microbatches * sums->passes + tperf_split_wait_of(terms, sums),
        .hidden = tperf_hidden_of(terms, sums),
        .weight = sums->weight,
        .shorter = sums->shorter,
        .forward = sums->forward,
        .backward = sums->backward,
    };
}

// The parts of an iteration that add up to its time: those of its beat and the optimizer step, and these.
typedef struct tperf_parts {
    double once; // waits for replicas once an iteration
    double pipeline_comm, bubble;
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
    return tperf_larger(sent.way - (beat->shorter / multiples->chunks + sent.kept), 0);
}

// once: seconds that a stage waits for its replicas once; hop: of a message between stages. Without messages and
// exchanges with replicas (both are 0), the whole is a lower bound for every placement, to the last bit, since terms are
// added in the same order and rounding is monotonic.
TPERF_INLINED tperf_parts tperf_parts_of(const tperf_multiples *multiples, const tperf_beat *beat,
                                         double once, double hop) {
    tperf_sent sent = tperf_sent_of(hop, multiples->calls, multiples->share);
    double pipeline_comm = multiples->messages * hop + multiples->beside * sent.kept;
    double late = 0;
    if (multiples->travels) {
        late = multiples->late * tperf_late_by(multiples, beat, sent);
        pipeline_comm += multiples->ways * sent.way + late;
        hop = sent.kept;
    }
    hop *= multiples->chunks;
    double forward = beat->forward + hop;
    double backward = beat->backward + hop;
    double filling = beat->weight;
    if (multiples->fills_backward) filling = tperf_smaller(filling, backward);
    if (multiples->fills_forward) filling = tperf_smaller(filling, forward);
    return (tperf_parts){
        .once = once,
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
    return beat->work + p->bubble + p->once + p->pipeline_comm + multiples->optimizer -
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

// Mean seconds of a hop between pp stages in a network of more than two tiers, without the gather and the host's calls.
double tperf_far_in_tiers(const tperf_hop *hop, double pp, double fast, double dp);
double tperf_hop_in_tiers(const tperf_hop *hop, double pp, double fast, double dp,
                          bool slow_links_cost);

// The part of the links between stages that lead to another domain, times the seconds of a message over one.
static inline double tperf_hop_across(const tperf_hop *hop, double pp, double fast, double dp) {
    if (pp == 1) return 0;
    if (hop->system) return tperf_far_in_tiers(hop, pp, fast, dp);
    return fast == 1 ? hop->slow : (double)(int64_t)(pp / fast - 1) / (pp - 1) * hop->slow;
}

// Messages beside a pass of each layer, of those that take the links of exchanges between domains: one a chunk, if they
// travel beside passes; 0 if they do not, or links carry more than one thing at a time (Q15).
double tperf_sent_each(const tperf_pipeline *pipeline, const tperf_workload *workload,
                       const tperf_job *job);

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
