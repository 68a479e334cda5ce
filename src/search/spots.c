// spots.c: the placements of one pipeline, data-parallel size and ZeRO stage. See walk.h.
#include <string.h>

#include "search/walk.h"

static void prepare_works(tperf_walk *w) {
    for (size_t i = 0; !w->worked_out && i < w->shape->n_panels; i++)
        tperf_workload_work(w->network, &w->job.on, w->shape->panels[i],
                            &w->scratch->works[i * w->network->n_ops]);
    w->worked_out = true;
}

static void cover_costs(const tperf_walk *w, const tperf_layer_cost *costs, tperf_cover *covers) {
    for (size_t i = 0; i < w->n_used; i++)
        covers[w->used[i]] = tperf_cover_of(&w->job, &costs[w->used[i]]);
}

// The network's costs in a placement, for every number of panels.
static const tperf_layer_cost *costs_of(tperf_walk *w, uint32_t placed) {
    tperf_scratch *s = w->scratch;
    size_t first = placed * w->shape->n_panels * w->n_sections;
    tperf_layer_cost *costs = &s->costs[first];
    if (s->timed[placed].timed_for == s->shape_stamp) return costs;
    prepare_works(w);
    tperf_placement placement;
    memcpy(placement.fast, tperf_walk_atlas(w)->placed[placed].fast, sizeof placement.fast);
    for (size_t i = 0; i < w->shape->n_panels; i++) {
        size_t at = i * w->n_sections;
        placement.panels = w->shape->panels[i];
        memcpy(&costs[at], w->bytes, w->n_sections * sizeof *costs);
        tperf_workload_add_times(w->network, &w->job.on, &placement,
                                 &s->works[i * w->network->n_ops], &costs[at]);
        cover_costs(w, &costs[at], &s->covers[first + at]);
    }
    s->timed[placed].timed_for = s->shape_stamp;
    return costs;
}

static const tperf_pipeline_time *pipeline_time(tperf_walk *w, size_t paced,
                                                const tperf_layer_cost *costs) {
    tperf_paced *p = &w->scratch->paced[paced];
    if (p->paced_for != w->scratch->pace_stamp)
        p->time =
            tperf_pipeline_time_of(w->partial.pipeline, w->pace.stages, w->network, costs, &w->job);
    p->paced_for = w->scratch->pace_stamp;
    return &p->time;
}

static void place_at(tperf_walk *w, const tperf_spot *spot) {
    w->partial.placement.fast[TPERF_AXIS_REPLICAS] = spot->replicas->gpus;
    w->partial.placement.fast[TPERF_AXIS_STAGES] = spot->stages->gpus;
}

static bool keep(tperf_walk *w, const tperf_spot *spot, double throughput) {
    place_at(w, spot);
    tperf_found found = {throughput, w->memory.total, w->feasible, w->partial};
    const tperf_search_options *options = &w->search->options;
    if (!tperf_best_wants(&w->finds->best, &found)) return true;
    if (options->accept && !options->accept(options->accept_context, w->topic_index, &found))
        return true;
    return tperf_best_keep(&w->finds->best, &found);
}

static bool ruled_out(const tperf_walk *w, const tperf_pipeline_time *pipeline) {
    if (w->search->options.no_pruning || w->search->options.by_least) return false;
    tperf_parts bound = tperf_parts_of(&w->pace, pipeline, NULL, 0);
    return !tperf_best_admits(&w->finds->best, (double)w->job.global_batch / tperf_whole(&bound));
}

static inline const tperf_exchange *exchanges_of(tperf_walk *w, uint32_t index) {
    tperf_exchanged *e =
        &w->scratch->exchanged[w->topic_index].of[index * w->search->options.n_zero + w->zero];
    if (e->timed_for == w->scratch->weights_stamp) return e->sections;
    const tperf_exchange_groups *groups = &tperf_walk_book(w)->exchanges[index];
    tperf_exchange_times_among(&groups->dense, &groups->experts, w->partial.zero, &w->job,
                               w->network, w->bytes, e->sections);
    e->timed_for = w->scratch->weights_stamp;
    return e->sections;
}

static inline double hop_of(tperf_walk *w, const tperf_spot *spot) {
    tperf_slot *slot = &w->scratch->slots[spot->stages->index];
    if (slot->hop_for == w->scratch->hop_stamp) return slot->hop;
    place_at(w, spot);
    slot->hop_for = w->scratch->hop_stamp;
    return slot->hop = tperf_hop_time(&w->partial, &w->job, w->hop);
}

static double least_of(tperf_walk *w, const tperf_spot *spot, const tperf_layer_cost *costs) {
    place_at(w, spot);
    return tperf_iteration_least(&w->partial, &w->job, w->network, costs,
                                 exchanges_of(w, spot->exchange), hop_of(w, spot),
                                 w->pace.optimizer);
}

// The times of some spots with the costs that these covers are of. simple: see tperf_holding_exposure.
TPERF_INLINED void time_spots(tperf_walk *w, const tperf_spot *spots, size_t n,
                              const tperf_cover *covers, const tperf_pipeline_time *pipeline,
                              double *times, bool simple) {
    const bool gather_in_step = w->job.training->gather_in_step;
    for (size_t s = 0; s < n; s++) {
        const tperf_exchange *exchanges = exchanges_of(w, spots[s].exchange);
        for (size_t u = 0; u < w->n_used; u++) {
            size_t i = w->used[u];
            w->exposures[i] = tperf_exposure_of(&exchanges[i], &covers[i], w->buckets[i],
                                                gather_in_step, w->pace.optimizer);
        }
        tperf_waiting waiting = tperf_waiting_of(&w->pace, w->exposures, simple);
        tperf_parts parts = tperf_parts_of(&w->pace, pipeline, &waiting, hop_of(w, &spots[s]));
        times[s] = tperf_whole(&parts);
    }
}

static void time_all(tperf_walk *w, const tperf_spot *spots, size_t n,
                     const tperf_layer_cost *costs, const tperf_pipeline_time *pipeline,
                     double *times) {
    const tperf_cover *covers = &w->scratch->covers[costs - w->scratch->costs];
    if (w->search->options.by_least)
        for (size_t i = 0; i < n; i++)
            times[i] = least_of(w, &spots[i], costs);
    else if (w->simple)
        time_spots(w, spots, n, covers, pipeline, times, true);
    else
        time_spots(w, spots, n, covers, pipeline, times, false);
}

// Spots in which a layer costs the same, with a number of panels.
static bool try_spots(tperf_walk *w, const tperf_spot *spots, size_t n,
                      const tperf_layer_cost *costs, const tperf_pipeline_time *pipeline) {
    enum { AT_ONCE = 64 };
    double times[AT_ONCE], batch = (double)w->job.global_batch;
    w->finds->evaluated += (int64_t)n;
    for (size_t from = 0; from < n; from += AT_ONCE) {
        size_t some = n - from < AT_ONCE ? n - from : AT_ONCE;
        time_all(w, spots + from, some, costs, pipeline, times);
        for (size_t i = 0; i < some; i++) {
            double throughput = batch / times[i];
            if (tperf_best_admits(&w->finds->best, throughput) &&
                !keep(w, &spots[from + i], throughput))
                return false;
        }
    }
    return true;
}

// The spots [from, to), in which a layer costs the same, with every number of panels.
static bool walk_placed(tperf_walk *w, size_t from, size_t to) {
    uint32_t placed = w->spots[from].placed;
    const tperf_layer_cost *costs = costs_of(w, placed);
    memcpy(w->partial.placement.fast, tperf_walk_atlas(w)->placed[placed].fast,
           sizeof w->partial.placement.fast);
    for (size_t p = 0; p < w->shape->n_panels; p++, costs += w->n_sections) {
        const tperf_pipeline_time *pipeline =
            pipeline_time(w, placed * w->shape->n_panels + p, costs);
        if (ruled_out(w, pipeline)) continue;
        w->partial.placement.panels = w->shape->panels[p];
        if (!try_spots(w, &w->spots[from], to - from, costs, pipeline)) return false;
    }
    return true;
}

bool tperf_walk_spots(tperf_walk *w) {
    const tperf_search *search = w->search;
    size_t pipeline = (size_t)(w->partial.pipeline - search->options.pipelines);
    w->pace = tperf_pace_of(&w->partial, w->job.training, w->network,
                            tperf_optimizer_time(&w->partial, &w->job, w->network, w->bytes));
    w->pace.stages = &w->scratch->holdings.of[search->first_stage[pipeline]];
    for (size_t from = 0, to; from < w->n_spots; from = to) {
        for (to = from + 1; to < w->n_spots && w->spots[to].placed == w->spots[from].placed;)
            to++;
        if (!walk_placed(w, from, to)) return false;
    }
    return true;
}
