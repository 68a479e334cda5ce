// passes.h: the passes of a pipeline's stages, inlined where candidates are walked. Private to src/plan and src/search.
// See tperf/plan.h, docs/model.md section 6.
#ifndef TPERF_PLAN_PASSES_H
#define TPERF_PLAN_PASSES_H

#include "base/minmax.h"
#include "plan/exposure.h"

// An overlapped forward and backward pass of a stage, no shorter than either, nor than the launches of both, which one
// host makes. If all collectives hide, those of both passes run beside the kernels of both and slow them.
static inline double tperf_pair_of(const tperf_stage_time *t, const tperf_pass_cost *both,
                                   double hidden, const tperf_job *job) {
    double work = t->forward + t->backward - t->host;
    double least = tperf_larger(tperf_larger(t->forward, t->backward),
                                tperf_launch_time(&job->on, both->launches));
    if (job->training->hide_experts) return tperf_larger(least, work - hidden);
    return tperf_larger(least, tperf_larger(work - both->comm + both->slowing, both->comm));
}

// pairs: also computes the time of a pair.
TPERF_INLINED tperf_stage_time tperf_counted_time(const tperf_layer_counts *counts,
                                                  const tperf_layer_time *times,
                                                  const tperf_job *job, bool pairs) {
    tperf_pass_cost both = {0};
    double forward = 0, backward = 0, input = 0, weight = 0, host = 0, hidden = 0;
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
        both.comm += layers * t->comm;
        both.slowing += layers * t->slowing;
        hidden += layers * t->hidden;
    }
    tperf_stage_time t = {forward, backward, input, weight, host, 0};
    if (pairs) t.pair = tperf_pair_of(&t, &both, hidden, job);
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
    const tperf_pipeline *pipeline;
    const tperf_layer_counts *layer_counts; // tperf_layer_counts_at
    const tperf_workload *workload;
    const tperf_layer_time *times; // by section
    const tperf_job *job;
} tperf_timed_stages;

// The time of one micro-batch in a device of stage i, on average. pairs: as for tperf_counted_time.
TPERF_INLINED tperf_stage_time tperf_device_time(const tperf_timed_stages *of, size_t i,
                                                 bool pairs) {
    const tperf_pipeline *pipeline = of->pipeline;
    tperf_layer_counts own;
    tperf_stage_time t =
        tperf_counted_time(tperf_layer_counts_at(of->layer_counts, pipeline, i, of->workload, &own),
                           of->times, of->job, pairs);
    if (!(pipeline->weight_copies > 1)) return t;
    tperf_stage_time other =
        tperf_counted_time(tperf_layer_counts_at(of->layer_counts, pipeline,
                                                 pipeline->stages[i].mirror, of->workload, &own),
                           of->times, of->job, pairs);
    return tperf_average_time(&t, &other);
}

TPERF_INLINED tperf_pipeline_time tperf_pipeline_time_if(const tperf_timed_stages *of, bool pairs) {
    const tperf_pipeline *pipeline = of->pipeline;
    const tperf_stage *stages = pipeline->stages;
    tperf_stage_time busy = tperf_device_time(of, 0, pairs);
    if (pipeline->n_stages == 1) return (tperf_pipeline_time){&stages[0], busy, busy};
    double repeats = (double)stages[0].repeats;
    tperf_stage_time all = {.forward = repeats * busy.forward,
                            .backward = repeats * busy.backward,
                            .input = repeats * busy.input,
                            .weight = repeats * busy.weight};
    const tperf_stage *busiest = &stages[0];
    for (size_t i = 1; i < pipeline->n_stages; i++) {
        tperf_stage_time s = tperf_device_time(of, i, pairs);
        repeats = (double)stages[i].repeats;
        all.forward += repeats * s.forward;
        all.backward += repeats * s.backward;
        all.input += repeats * s.input;
        all.weight += repeats * s.weight;
        if (s.forward + s.backward <= busy.forward + busy.backward) continue;
        busy = s;
        busiest = &stages[i];
    }
    double others = (double)pipeline->pp - 1;
    return (tperf_pipeline_time){busiest,
                                 busy,
                                 {.forward = (all.forward - busy.forward) / others,
                                  .backward = (all.backward - busy.backward) / others,
                                  .input = (all.input - busy.input) / others,
                                  .weight = (all.weight - busy.weight) / others}};
}

TPERF_INLINED tperf_pipeline_time tperf_pipeline_time_of(const tperf_timed_stages *of) {
    return tperf_overlaps_passes(of->pipeline) ? tperf_pipeline_time_if(of, true)
                                               : tperf_pipeline_time_if(of, false);
}

// Seconds of work in a device with these passes, less what overlapping them hides.
static inline double tperf_work_of(const tperf_terms *terms, const tperf_pass_sums *sums) {
    return terms->microbatches * sums->passes - tperf_hidden_of(terms, sums);
}

// Sets what tperf_slack_of needs, if passes wait for exchanges of their own. times: of the sections' layers.
static inline void tperf_terms_times(tperf_terms *terms, const tperf_layer_time *times,
                                     const tperf_pass_sums *sums) {
    terms->times = tperf_waits_each(terms) && terms->pipeline->n_stages > 1 ? times : NULL;
    if (terms->times) terms->work = tperf_work_of(terms, sums);
}

// Seconds by which the work of a device of stage i falls short of the busiest one's; 0 if that does not count.
static inline double tperf_slack_of(const tperf_terms *terms, size_t i) {
    const tperf_pipeline *p = terms->pipeline;
    if (!terms->times) return 0;
    const tperf_timed_stages of = {p, terms->stages, terms->workload, terms->times, terms->job};
    tperf_stage_time t = tperf_device_time(&of, i, tperf_overlaps_passes(p));
    tperf_pass_sums sums = tperf_pass_sums_of(&(tperf_pipeline_time){.busy = t});
    return tperf_larger(terms->work - tperf_work_of(terms, &sums), 0);
}

// *longest, unless NULL: the first candidate's stage; NULL if none waits.
TPERF_INLINED tperf_waiting tperf_waiting_of(const tperf_terms *terms,
                                             const tperf_exposure *sections, bool waits_each,
                                             const tperf_stage **longest) {
    tperf_waiting worst = tperf_no_waiting();
    if (longest) *longest = NULL;
    const tperf_pipeline *p = terms->pipeline;
    for (size_t i = 0; i < p->n_stages; i++) {
        tperf_layer_counts own, other;
        const tperf_layer_counts *counts =
            tperf_layer_counts_at(terms->stages, p, i, terms->workload, &own);
        if (counts->covered) continue;
        const tperf_layer_counts *mirror =
            p->weight_copies > 1 ? tperf_layer_counts_at(terms->stages, p, p->stages[i].mirror,
                                                         terms->workload, &other)
                                 : NULL;
        double slack = waits_each ? tperf_slack_of(terms, i) : 0;
        bool longer = tperf_wait_longer(&worst, terms, (tperf_waiter){counts, mirror, slack},
                                        sections, waits_each);
        if (longest && longer) *longest = &p->stages[i];
    }
    tperf_wait_each(&worst, terms);
    return worst;
}

#endif
