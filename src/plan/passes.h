// passes.h: the passes of a pipeline's stages, inlined where candidates are walked. Private to src/plan and src/search.
// See tperf/plan.h, docs/model.md section 6.
#ifndef TPERF_PLAN_PASSES_H
#define TPERF_PLAN_PASSES_H

#include "base/minmax.h"
#include "plan/exposure.h"

// The layers of a stage, added up.
typedef struct tperf_layers_time {
    double launches, kernels, carried, work, hidden; // tperf_layer_time's
} tperf_layers_time;

// An overlapped forward and backward pass of a stage, no shorter than either, nor than the launches of both, which one
// host makes. Otherwise the kernels of both follow each other, slowed by the collectives of both beside them; links
// carry these one at a time (Q15). Each term is no longer on a faster machine.
static inline double tperf_pair_of(const tperf_stage_time *t, const tperf_layers_time *both,
                                   const tperf_job *job) {
    double least = tperf_larger(tperf_larger(t->forward, t->backward),
                                tperf_launch_time(&job->on, both->launches));
    if (job->training->hide_experts) return tperf_larger(least, both->work - both->hidden);
    return tperf_larger(least, tperf_larger(both->kernels, both->carried));
}

// pairs: also computes the time of a pair.
TPERF_INLINED tperf_stage_time tperf_counted_time(const tperf_layer_counts *counts,
                                                  const tperf_layer_time *times,
                                                  const tperf_job *job, bool pairs) {
    tperf_layers_time both = {0};
    double forward = 0, backward = 0, input = 0, weight = 0, host = 0;
    for (int i = 0; i < counts->n; i++) {
        double layers = counts->parts[i].layers;
        const tperf_layer_time *t = &times[counts->parts[i].section];
        forward += layers * t->forward;
        backward += layers * t->backward;
        input += layers * t->input;
        weight += layers * t->weight;
        host += layers * t->host;
        if (!pairs) continue;
        both.launches += layers * t->launches;
        both.kernels += layers * t->kernels;
        both.carried += layers * t->carried;
        both.work += layers * t->work;
        both.hidden += layers * t->hidden;
    }
    tperf_stage_time t = {forward, backward, input, weight, host, 0};
    if (pairs) t.pair = tperf_pair_of(&t, &both, job);
    return t;
}

static inline tperf_stage_time tperf_average_time(const tperf_stage_time *a,
                                                  const tperf_stage_time *b) {
    return (tperf_stage_time){(a->forward + b->forward) / 2, (a->backward + b->backward) / 2,
                              (a->input + b->input) / 2,     (a->weight + b->weight) / 2,
                              (a->host + b->host) / 2,       (a->pair + b->pair) / 2};
}

// The stages of a pipeline, and what the time of their passes depends on.
typedef struct tperf_timed_stages {
    const tperf_terms *terms;
    const tperf_layer_time *times;  // by section
    const tperf_exposure *sections; // NULL: no pass waits for an exchange of its own
} tperf_timed_stages;

TPERF_INLINED tperf_stage_time tperf_one_time(const tperf_timed_stages *of, size_t i, bool pairs) {
    const tperf_terms *terms = of->terms;
    tperf_layer_counts own;
    const tperf_layer_counts *counts =
        tperf_layer_counts_at(terms->stages, terms->pipeline, i, terms->workload, &own);
    tperf_stage_time t = tperf_counted_time(counts, of->times, terms->job, pairs);
    if (!of->sections) return t;
    tperf_exposure e = tperf_counted_exposures(counts, of->sections);
    tperf_wait_each(&t, &terms->each, &e);
    return t;
}

// The time of one micro-batch in a device of stage i, on average. pairs: as for tperf_counted_time.
TPERF_INLINED tperf_stage_time tperf_device_time(const tperf_timed_stages *of, size_t i,
                                                 bool pairs) {
    const tperf_pipeline *pipeline = of->terms->pipeline;
    tperf_stage_time t = tperf_one_time(of, i, pairs);
    if (!(pipeline->weight_copies > 1)) return t;
    tperf_stage_time other = tperf_one_time(of, pipeline->stages[i].mirror, pairs);
    return tperf_average_time(&t, &other);
}

// The average of all devices but one, which takes `own`.
static inline tperf_stage_time tperf_others_time(const tperf_stage_time *all,
                                                 const tperf_stage_time *own, double pp) {
    double others = pp - 1;
    return (tperf_stage_time){.forward = (all->forward - own->forward) / others,
                              .backward = (all->backward - own->backward) / others,
                              .input = (all->input - own->input) / others,
                              .weight = (all->weight - own->weight) / others};
}

// Seconds of an iteration as a device with these passes sees it, without messages, exchanges that come once, and the
// optimizer.
static inline double tperf_device_total(const tperf_terms *terms, const tperf_stage_time *own,
                                        const tperf_stage_time *others) {
    tperf_pass_sums sums = tperf_pass_sums_of(own, others, tperf_splits_passes(terms->pipeline));
    tperf_beat beat = tperf_beat_of(terms, &sums);
    tperf_parts parts = tperf_parts_of(&terms->multiples, &beat, 0, 0);
    return beat.work + parts.bubble - beat.hidden;
}

// Adds up the devices' passes; *longest: the stage with the longest ones.
TPERF_INLINED tperf_stage_time tperf_all_times(const tperf_timed_stages *of, bool pairs,
                                               size_t *longest, tperf_stage_time *busy) {
    const tperf_pipeline *pipeline = of->terms->pipeline;
    tperf_stage_time all = {0};
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        tperf_stage_time s = tperf_device_time(of, i, pairs);
        double repeats = (double)pipeline->stages[i].repeats;
        all.forward += repeats * s.forward;
        all.backward += repeats * s.backward;
        all.input += repeats * s.input;
        all.weight += repeats * s.weight;
        if (i > 0 && s.forward + s.backward <= busy->forward + busy->backward) continue;
        *busy = s;
        *longest = i;
    }
    return all;
}

// An iteration takes as long as the device that takes longest: no shorter pass of any device makes it longer.
TPERF_INLINED tperf_pipeline_time tperf_pipeline_time_if(const tperf_timed_stages *of, bool pairs) {
    const tperf_pipeline *pipeline = of->terms->pipeline;
    const tperf_stage *stages = pipeline->stages;
    size_t longest = 0;
    tperf_stage_time busy = {0};
    tperf_stage_time all = tperf_all_times(of, pairs, &longest, &busy);
    if (pipeline->n_stages == 1) return (tperf_pipeline_time){&stages[0], busy, busy};
    double pp = (double)pipeline->pp, most = -1;
    tperf_stage_time others = tperf_others_time(&all, &busy, pp);
    for (size_t i = 0; !of->terms->longest_passes && i < pipeline->n_stages; i++) {
        tperf_stage_time own = tperf_device_time(of, i, pairs);
        tperf_stage_time rest = tperf_others_time(&all, &own, pp);
        double total = tperf_device_total(of->terms, &own, &rest);
        if (total <= most) continue;
        most = total;
        longest = i;
        busy = own;
        others = rest;
    }
    return (tperf_pipeline_time){&stages[longest], busy, others};
}

TPERF_INLINED tperf_pipeline_time tperf_pipeline_time_of(const tperf_timed_stages *of) {
    return tperf_overlaps_passes(of->terms->pipeline) ? tperf_pipeline_time_if(of, true)
                                                      : tperf_pipeline_time_if(of, false);
}

static inline tperf_pass_sums tperf_sums_of(const tperf_timed_stages *of) {
    tperf_pipeline_time time = tperf_pipeline_time_of(of);
    return tperf_pass_sums_of(&time.busy, &time.others, tperf_splits_passes(of->terms->pipeline));
}

// Seconds of the longest wait of a stage for exchanges that come once. *longest, unless NULL: the first stage that waits
// so; NULL if none waits.
TPERF_INLINED double tperf_waits_of(const tperf_terms *terms, const tperf_exposure *sections,
                                    const tperf_stage **longest) {
    double most = 0;
    if (longest) *longest = NULL;
    const tperf_pipeline *p = terms->pipeline;
    for (size_t i = 0; i < p->n_stages; i++) {
        tperf_layer_counts own;
        const tperf_layer_counts *counts =
            tperf_layer_counts_at(terms->stages, p, i, terms->workload, &own);
        if (counts->covered) continue;
        double once = tperf_waits_once(terms, counts, sections);
        if (longest && once > most) *longest = &p->stages[i];
        most = tperf_larger(once, most);
    }
    return most;
}

#endif
