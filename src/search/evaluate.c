// evaluate.c: evaluates the placements of one pipeline, data-parallel size and ZeRO stage. See walk.h.
#include <float.h>
#include <math.h>
#include <string.h>

#include "plan/passes.h"
#include "search/walk.h"

static void prepare_works(tperf_walk *w) {
    for (size_t i = 0; !w->worked_out && i < w->shape->n_panels; i++)
        tperf_workload_work(w->workload, &w->job.on, w->shape->panels[i],
                            &w->scratch->works[i * w->workload->n_ops]);
    w->worked_out = true;
}

// Adds the times in a placement, for the i-th number of panels, to the costs; false: out of memory.
static bool add_times(tperf_walk *w, const tperf_placement *placement, size_t i, tperf_rates *rates,
                      tperf_layer_cost *costs) {
    tperf_scratch *s = w->scratch;
    tperf_platform on = {w->query->priced_as, w->job.on.rules, w->job.on.software, rates};
    if (!w->shares_prices) {
        prepare_works(w);
        on.system = w->job.on.system;
        tperf_workload_add_times(w->workload, &on, placement, &s->works[i * w->workload->n_ops],
                                 costs);
        return true;
    }
    const tperf_either_price *const *prices =
        tperf_prices_of(&s->prices, &w->search->heap.heap, w->workload, &on, placement);
    if (prices) tperf_workload_add_prices(w->workload, &w->job.on, prices, costs);
    return prices != NULL;
}

static void add_cost(const tperf_walk *w, const tperf_layer_cost *costs, size_t at) {
    tperf_scratch *s = w->scratch;
    for (size_t u = 0; u < w->n_used; u++) {
        const tperf_layer_cost *cost = &costs[w->used[u]];
        s->layers[at + w->used[u]] = tperf_layer_time_of(&w->job, cost);
        s->covers[at + w->used[u]] = tperf_cover_of(&w->job, cost, w->query->one_domain);
    }
}

// Computes what the layers cost in a placement, for every number of panels. False if out of memory.
static bool price(tperf_walk *w, uint32_t placed) {
    tperf_scratch *s = w->scratch;
    if (s->timed[placed].timed_for == s->shape_stamp) return true;
    tperf_placement placement;
    tperf_rates rates;
    memset(rates.known, 0, sizeof rates.known);
    memcpy(placement.fast, tperf_walk_layouts(w)->placed[placed].fast, sizeof placement.fast);
    for (size_t i = 0; i < w->shape->n_panels; i++) {
        size_t at = (placed * w->shape->n_panels + i) * w->n_sections;
        tperf_layer_cost *costs = &s->costs[w->search->options.by_least ? at : 0];
        placement.panels = w->shape->panels[i];
        memcpy(costs, w->bytes, w->n_sections * sizeof *costs);
        if (!add_times(w, &placement, i, &rates, costs)) return false;
        add_cost(w, costs, at);
    }
    s->timed[placed].timed_for = s->shape_stamp;
    return true;
}

// Computes the pipeline's times in a placement of the axes, for every number of panels. False if out of memory.
static bool sum_passes(tperf_walk *w, uint32_t placed) {
    tperf_scratch *s = w->scratch;
    if (!price(w, placed)) return false;
    for (size_t p = 0; p < w->shape->n_panels; p++) {
        size_t i = placed * w->shape->n_panels + p;
        const tperf_timed_stages of = {w->partial.pipeline, w->terms.stages, w->workload,
                                       &s->layers[i * w->n_sections], &w->job};
        tperf_pipeline_time time = tperf_pipeline_time_of(&of);
        w->sums[i] = (tperf_known_sums){s->sums_stamp, tperf_pass_sums_of(&time)};
    }
    return true;
}

static void place_at(tperf_walk *w, const tperf_placement_entry *entry) {
    int64_t *fast = w->partial.placement.fast;
    memcpy(fast, tperf_walk_layouts(w)->placed[entry->placed].fast,
           sizeof w->partial.placement.fast);
    fast[TPERF_AXIS_REPLICAS] = entry->replicas;
    fast[TPERF_AXIS_STAGES] = entry->stages;
}

// A time above `latest` gives a lower throughput than the worst of the best, however its quotient rounds.
static void note_latest(tperf_walk *w) {
    const tperf_best *best = &w->result->best;
    w->latest = best->n < best->limit ? INFINITY
                                      : (double)w->job.global_batch / best->found[0].throughput *
                                            (1 + 4 * DBL_EPSILON);
}

static bool keep(tperf_walk *w, const tperf_placement_entry *entry, double time) {
    double throughput = (double)w->job.global_batch / time;
    if (!tperf_best_admits(&w->result->best, throughput)) return true;
    place_at(w, entry);
    tperf_found found = {throughput, w->memory, w->feasible, w->partial, w->shape};
    const tperf_search_options *options = &w->search->options;
    if (!tperf_best_wants(&w->result->best, &found)) return true;
    if (options->accept && !options->accept(options->accept_context, w->query_index, &found))
        return true;
    bool kept = tperf_best_keep(&w->result->best, &found);
    note_latest(w);
    return kept;
}

static inline bool ruled_out(const tperf_multiples *multiples, const tperf_beat *beat,
                             double latest) {
    tperf_waiting none = tperf_no_waiting();
    tperf_parts bound = tperf_parts_of(multiples, beat, &none, tperf_lanes_of(0));
    tperf_lanes least = tperf_whole(multiples, beat, &bound);
    return TPERF_LANE(least, 0) > latest;
}

// The exchanges of the current list of placements and ZeRO stage.
typedef struct exchanges {
    const tperf_exchange *of; // by section
    size_t each;              // from one group's to the next one's
} exchanges;

static void time_exchanges(tperf_walk *w, tperf_exchange *of, size_t each) {
    const tperf_exchange_groups *groups = tperf_walk_cached_placements(w)->exchanges;
    for (size_t i = w->list->first_exchange; i < w->list->end_exchange; i++) {
        const tperf_among among = {&groups[i].dense, &groups[i].experts, w->partial.zero,
                                   w->list->stages};
        tperf_exchange_times_among(&among, &w->job, w->workload, w->bytes, &of[i * each]);
    }
}

static exchanges exchanges_of(tperf_walk *w) {
    const tperf_exchanges *e = &w->scratch->exchanged[w->query_index];
    size_t n_zero = w->search->options.n_zero, each = n_zero * w->n_sections;
    tperf_exchange *of = e->of + w->zero * w->n_sections;
    int64_t *timed_for = &e->timed_for[w->list->first_exchange * n_zero + w->zero];
    if (*timed_for != w->scratch->weights_stamp) time_exchanges(w, of, each);
    *timed_for = w->scratch->weights_stamp;
    return (exchanges){of, each};
}

// The messages of the current number of stages, by how many of them share a domain: the same for the group's queries.
static const double *hops_of(tperf_walk *w) {
    tperf_scratch *s = w->scratch;
    double *hops = &s->hops[w->first_alike * w->search->most_parts];
    if (s->hops_for[w->first_alike] == s->shape_stamp) return hops;
    double pp = (double)w->partial.pipeline->pp, *hop = hops;
    for (const tperf_part *p = w->list->parts; p < w->list->end_parts; p++)
        *hop++ = tperf_hop_among(pp, p->gpus, w->hop, w->job.on.rules->slow_pipeline_links_cost);
    s->hops_for[w->first_alike] = s->shape_stamp;
    return hops;
}

static double tied_of(const tperf_walk *w, const tperf_placement_entry *entry) {
    return w->tied[entry->stages == w->partial.pipeline->pp];
}

static double least_of(tperf_walk *w, const tperf_placement_entry *entry,
                       const tperf_layer_cost *costs) {
    exchanges known = exchanges_of(w);
    place_at(w, entry);
    const tperf_plan plan = {&w->partial, &w->job, w->workload, costs};
    return tperf_iteration_least(&plan, &known.of[entry->exchange * known.each],
                                 hops_of(w)[entry->hop], w->terms.optimizer);
}

// How candidates are timed. All is known when the code is compiled, so that each way is inlined on its own.
typedef struct way {
    bool lone;       // only the walk's lone stage counts
    bool simple;     // the walk's
    bool waits_each; // tperf_waits_each
} way;

// What placements share: copies, which stay in registers while candidates are kept.
typedef struct shared {
    tperf_terms *terms; // the walk's: what is in memory, in every lane, is not copied for each run
    exchanges exchanges;
    const double *hops;
    double lone_layers;
    size_t lone_section;
    bool by_least, prunes;
} shared;

// The layers' costs in a placement, for one number of panels.
typedef struct layers {
    const tperf_cover *covers;
    tperf_beat beat;
} layers;

// Two placements' exchanges, by section, and what their pipelines' ends exchange.
typedef struct two {
    const tperf_exchange *x, *y;
    tperf_lanes tied;
} two;

// Those of a section, as the layers' passes expose them.
TPERF_INLINED tperf_exposures expose(const tperf_walk *w, double optimizer, const two *of, size_t i,
                                     const tperf_cover *cover) {
    const tperf_exchange *x = &of->x[i], *y = &of->y[i];
    tperf_exchanging both = {tperf_lanes_from(x->gather, y->gather),
                             tperf_lanes_from(x->reduce, y->reduce),
                             tperf_lanes_from(x->update, y->update)};
    return tperf_exposures_at(&both, cover, w->buckets[i], w->job.training->gather_in_step,
                              optimizer);
}

// The same, as the pipeline's stages wait for them.
TPERF_INLINED tperf_waiting wait_for(const tperf_walk *w, const shared *s, const two *of,
                                     const tperf_cover *covers, way how) {
    double optimizer = s->terms->optimizer;
    if (how.lone) {
        size_t i = s->lone_section;
        tperf_exposures only = expose(w, optimizer, of, i, &covers[i]);
        tperf_layer_counts counts = {.n = 1, .parts = {{.layers = s->lone_layers}}};
        tperf_waiting waiting = tperf_no_waiting();
        tperf_wait_longer(&waiting, s->terms, (tperf_waiter){.counts = &counts}, &only, how.simple,
                          how.waits_each);
        if (how.waits_each) tperf_wait_each(&waiting, s->terms);
        return waiting;
    }
    tperf_exposures exposures[TPERF_SECTIONS_MAX];
    for (size_t u = 0; u < w->n_used; u++) {
        size_t i = w->used[u];
        exposures[i] = expose(w, optimizer, of, i, &covers[i]);
        if ((int)i >= w->workload->n_kinds) exposures[i].update += of->tied;
    }
    return tperf_waiting_of(s->terms, exposures, how.simple, how.waits_each, NULL);
}

// Times placements with equal layer costs, for one number of panels, TPERF_LANES at once.
TPERF_INLINED bool time_entries(tperf_walk *w, const shared *s,
                                const tperf_placement_entry *entries, size_t n, const layers *l,
                                way how) {
    const exchanges known = s->exchanges;
    for (size_t from = 0; from < n; from += TPERF_LANES) {
        bool second = TPERF_LANES > 1 && from + 1 < n;
        const tperf_placement_entry *a = &entries[from], *b = a + second;
        const two of = {.x = &known.of[a->exchange * known.each],
                        .y = &known.of[b->exchange * known.each],
                        .tied = how.lone || !tperf_ends_apart(s->terms->pipeline)
                                    ? tperf_lanes_of(0)
                                    : tperf_lanes_from(tied_of(w, a), tied_of(w, b))};
        tperf_waiting waiting = wait_for(w, s, &of, l->covers, how);
        tperf_lanes hop = tperf_lanes_from(s->hops[a->hop], s->hops[b->hop]);
        tperf_parts parts = tperf_parts_of(&s->terms->multiples, &l->beat, &waiting, hop);
        tperf_lanes times = tperf_whole(&s->terms->multiples, &l->beat, &parts);
        if (!(TPERF_LANE(times, 0) > w->latest) && !keep(w, a, TPERF_LANE(times, 0))) return false;
        if (!second || TPERF_LANE(times, TPERF_LANES - 1) > w->latest) continue;
        if (!keep(w, b, TPERF_LANE(times, TPERF_LANES - 1))) return false;
    }
    return true;
}

// The throughput that a candidate's bound must reach for it to be among the best once it is simulated.
static double throughput_to_reach(const tperf_walk *w) {
    const tperf_best *best = &w->result->best;
    double others = best->n < best->limit ? 0 : best->found[0].throughput;
    return fmax(others, w->query->question.reached);
}

// Lists a candidate that is to be simulated.
static bool list_open(tperf_walk *w, const tperf_placement_entry *entry, double least) {
    double throughput = (double)w->job.global_batch / least;
    if (throughput < throughput_to_reach(w) || !tperf_best_admits(&w->result->open, throughput))
        return true;
    place_at(w, entry);
    tperf_found found = {throughput, w->memory, w->feasible, w->partial, w->shape};
    const tperf_found *after = w->query->question.after;
    if (after && !tperf_best_after(&found, after)) return true;
    if (!tperf_best_wants(&w->result->open, &found)) return true;
    return tperf_best_keep(&w->result->open, &found);
}

static bool time_least(tperf_walk *w, const tperf_placement_entry *entries, size_t n,
                       const tperf_layer_cost *costs) {
    for (size_t i = 0; i < n; i++)
        if (!list_open(w, &entries[i], least_of(w, &entries[i], costs))) return false;
    return true;
}

// Evaluates the placements of a run, for every number of panels. entries: the run's n ones.
TPERF_INLINED bool walk_run(tperf_walk *w, shared *s, const tperf_placement_entry *entries,
                            size_t n, way how) {
    size_t n_panels = w->shape->n_panels, i = entries->placed * n_panels;
    if (w->sums[i].known_for != w->scratch->sums_stamp && !sum_passes(w, entries->placed))
        return false;
    for (size_t p = 0; p < n_panels; p++, i++) {
        size_t at = i * w->n_sections;
        const tperf_pass_sums *sums = &w->sums[i].sums;
        layers l = {&w->scratch->covers[at],
                    tperf_beat_of(s->terms, sums, tperf_hidden_of(s->terms, sums))};
        if (s->prunes && ruled_out(&s->terms->multiples, &l.beat, w->latest)) continue;
        if (!s->exchanges.of) s->exchanges = exchanges_of(w);
        if (how.waits_each) tperf_terms_times(s->terms, &w->scratch->layers[at], sums);
        w->partial.placement.panels = w->shape->panels[p];
        w->result->evaluated += (int64_t)n;
        bool done = s->by_least ? time_least(w, entries, n, &w->scratch->costs[at])
                                : time_entries(w, s, entries, n, &l, how);
        if (!done) return false;
    }
    return true;
}

TPERF_INLINED bool walk_runs(tperf_walk *w, way how) {
    const tperf_placement_cache *known = tperf_walk_cached_placements(w);
    const tperf_search_options *options = &w->search->options;
    bool by_least = options->by_least == TPERF_ALL_BY_LEAST ||
                    (options->by_least == TPERF_OPEN_BY_LEAST && w->partial.pipeline->open);
    shared s = {.terms = &w->terms,
                .hops = hops_of(w),
                .lone_layers = how.lone ? w->lone->parts[0].layers : 0,
                .lone_section = w->used[0],
                .by_least = by_least,
                .prunes = !options->no_pruning && !by_least};
    size_t from = w->list->begin;
    for (size_t r = w->list->first_run; r < w->list->end_run; from = known->runs[r++].end)
        if (!walk_run(w, &s, &known->placements[from], known->runs[r].end - from, how))
            return false;
    return true;
}

// The only stage whose wait counts, if all have one section; otherwise NULL.
static const tperf_layer_counts *lone_stage(const tperf_walk *w) {
    const tperf_layer_counts *lone = NULL;
    if (w->n_used != 1 || w->partial.pipeline->weight_copies > 1) return NULL;
    for (size_t i = 0; i < w->partial.pipeline->n_stages; i++) {
        const tperf_layer_counts *stage = &w->terms.stages[i];
        if (stage->covered) continue;
        if (lone || stage->n != 1 || (size_t)stage->leading != w->used[0]) return NULL;
        lone = stage;
    }
    return lone;
}

// Like tperf_optimizer_time.
static double optimizer_time(tperf_walk *w) {
    const tperf_training *t = w->job.training;
    if (t->offloaded > 0 || t->iterations > 0)
        return tperf_optimizer_time(&(tperf_plan){&w->partial, &w->job, w->workload, w->bytes});
    double calls = tperf_step_calls_time(&w->job.on);
    if (w->job.on.software->optimizer == 0) return calls;
    return tperf_update_time(&w->job,
                             tperf_stock_updated(&w->scratch->stock, tperf_walk_contents(w),
                                                 &w->partial, &w->sharing, t, w->workload)) +
           calls;
}

bool tperf_walk_placements(tperf_walk *w) {
    const tperf_search *search = w->search;
    size_t pipeline = (size_t)(w->partial.pipeline - search->options.pipelines);
    tperf_terms_init(&w->terms, &w->partial, &w->job, w->workload, optimizer_time(w));
    w->terms.stages = &w->scratch->layer_counts.of[search->first_stage[pipeline]];
    note_latest(w);
    w->lone = lone_stage(w);
    bool each = tperf_waits_each(&w->terms);
    if (!w->simple) return walk_runs(w, (way){false, false, true});
    if (w->lone)
        return each ? walk_runs(w, (way){true, true, true})
                    : walk_runs(w, (way){true, true, false});
    return each ? walk_runs(w, (way){false, true, true}) : walk_runs(w, (way){false, true, false});
}
