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
    placement.fast[TPERF_AXIS_REPLICAS] = w->replicas_fast;
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

// The number of micro-batches for which a pipeline's times are known; 0: for any.
static int64_t counted_for(const tperf_walk *w) {
    return w->terms.longest_passes ? 0 : w->partial.microbatches;
}

// Computes the pipeline's times in a placement of the axes, for every number of panels. False if out of memory.
static bool sum_passes(tperf_walk *w, uint32_t placed) {
    tperf_scratch *s = w->scratch;
    if (!price(w, placed)) return false;
    for (size_t p = 0; p < w->shape->n_panels; p++) {
        size_t i = placed * w->shape->n_panels + p;
        const tperf_timed_stages of = {&w->terms, &s->layers[i * w->n_sections], NULL};
        w->sums[i] = (tperf_known_sums){s->sums_stamp, counted_for(w), tperf_sums_of(&of)};
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

// A time above `latest` gives a lower throughput than the worst of the best, however its quotient rounds. No time does
// where something else ranks.
static void note_latest(tperf_walk *w) {
    const tperf_best *best = &w->result->best;
    w->latest = INFINITY;
    if (best->n == best->limit && !w->search->options.ranked)
        w->latest = (double)w->job.global_batch / best->found[0].throughput * (1 + 4 * DBL_EPSILON);
}

static bool keep(tperf_walk *w, const tperf_placement_entry *entry, double time) {
    double throughput = (double)w->job.global_batch / time;
    const tperf_search_options *options = &w->search->options;
    if (!options->ranked && !tperf_best_admits(&w->result->best, throughput)) return true;
    place_at(w, entry);
    tperf_found found = {throughput, w->memory, 0, w->feasible, w->partial, w->shape};
    if (!options->ranked && !tperf_best_wants(&w->result->best, &found)) return true;
    if (options->accept && !options->accept(options->accept_context, w->query_index, &found))
        return true;
    if (options->ranked && !tperf_best_wants(&w->result->best, &found)) return true;
    bool kept = tperf_best_keep(&w->result->best, &found);
    note_latest(w);
    return kept;
}

static inline bool ruled_out(const tperf_multiples *multiples, const tperf_beat *beat,
                             double latest) {
    tperf_parts bound = tperf_parts_of(multiples, beat, 0, 0);
    double least = tperf_whole(multiples, beat, &bound);
    return least > latest;
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
    if (s->hops_for[w->first_alike] == s->shape_stamp && !w->hop.system) return hops;
    double pp = (double)w->partial.pipeline->pp, *hop = hops;
    double dp = (double)w->partial.sizes[TPERF_AXIS_REPLICAS];
    for (const tperf_part *p = w->list->parts; p < w->list->end_parts; p++)
        *hop++ =
            tperf_hop_among(pp, p->gpus, dp, &w->hop, w->job.on.rules->slow_pipeline_links_cost);
    s->hops_for[w->first_alike] = s->shape_stamp;
    return hops;
}

static double joint_at(const tperf_walk *w, const tperf_placement_entry *entry, int section) {
    return tperf_joint_time(&w->job, tperf_joint_of(&w->job, w->workload, w->bytes, &w->partial,
                                                    section, entry->stages));
}

static double tied_of(const tperf_walk *w, const tperf_placement_entry *entry) {
    if (w->hop.system) return joint_at(w, entry, w->workload->n_kinds);
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

// What placements share: copies, which stay in registers while candidates are kept.
typedef struct shared {
    tperf_terms *terms; // the walk's
    exchanges exchanges;
    double sent_each; // tperf_sent_each, if exchanges cross domains
    const double *hops;
    bool by_least, prunes;
    bool waits_each; // tperf_waits_each
} shared;

// The layers' costs in a placement, for one number of panels.
typedef struct layers {
    const tperf_layer_time *times;
    const tperf_cover *covers;
    tperf_beat beat;
} layers;

// What stages with copies of a section's weights exchange: of the ends, `tied`.
static double joint_of(const tperf_walk *w, const tperf_placement_entry *entry, int section,
                       double tied) {
    int kinds = w->workload->n_kinds;
    if (section < kinds) return 0;
    if (section < kinds + 2) return tied;
    return joint_at(w, entry, section);
}

// What messages have of the links beside a pass of each layer, of those of exchanges that cross domains.
static tperf_sent_beside sent_beside(const tperf_walk *w, const shared *s,
                                     const tperf_placement_entry *entry) {
    if (s->sent_each == 0) return (tperf_sent_beside){0};
    const tperf_each *each = &s->terms->each;
    double sent = s->sent_each * tperf_hop_across(&w->hop, (double)w->partial.pipeline->pp,
                                                  (double)entry->stages,
                                                  (double)w->partial.sizes[TPERF_AXIS_REPLICAS]);
    return (tperf_sent_beside){each->gather_overlap * sent, each->reduce_overlap * sent};
}

// What the sections' layers wait for in a placement. covers: by section.
static void expose(const tperf_walk *w, const shared *s, const tperf_placement_entry *entry,
                   const tperf_cover *covers, tperf_exposure *exposures) {
    const tperf_exchange *exchanged = &s->exchanges.of[entry->exchange * s->exchanges.each];
    double tied = tperf_ends_apart(s->terms->pipeline) ? tied_of(w, entry) : 0;
    tperf_sent_beside sent = sent_beside(w, s, entry);
    for (size_t u = 0; u < w->n_used; u++) {
        size_t i = w->used[u];
        exposures[i] = tperf_exposures_at(&exchanged[i], &covers[i], sent, w->buckets[i],
                                          w->job.training->gather_in_step, s->terms->optimizer);
        exposures[i].update += joint_of(w, entry, (int)i, tied);
    }
}

// Times placements with equal layer costs, for one number of panels.
static bool time_entries(tperf_walk *w, const shared *s, const tperf_placement_entry *entries,
                         size_t n, const layers *l) {
    tperf_exposure exposures[TPERF_SECTIONS_MAX];
    const tperf_timed_stages waiting = {s->terms, l->times, exposures};
    tperf_beat beat = l->beat;
    for (const tperf_placement_entry *entry = entries; entry < entries + n; entry++) {
        expose(w, s, entry, l->covers, exposures);
        if (s->waits_each) {
            tperf_pass_sums sums = tperf_sums_of(&waiting);
            beat = tperf_beat_of(s->terms, &sums);
        }
        double once = tperf_waits_of(s->terms, exposures, NULL);
        tperf_parts parts = tperf_parts_of(&s->terms->multiples, &beat, once, s->hops[entry->hop]);
        double time = tperf_whole(&s->terms->multiples, &beat, &parts);
        if (!(time > w->latest) && !keep(w, entry, time)) return false;
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
    tperf_found found = {throughput, w->memory, 0, w->feasible, w->partial, w->shape};
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
static bool walk_run(tperf_walk *w, shared *s, const tperf_placement_entry *entries, size_t n) {
    size_t n_panels = w->shape->n_panels, i = entries->placed * n_panels;
    const tperf_known_sums *known = &w->sums[i];
    bool is_known =
        known->known_for == w->scratch->sums_stamp && known->microbatches == counted_for(w);
    if (!is_known && !sum_passes(w, entries->placed)) return false;
    for (size_t p = 0; p < n_panels; p++, i++) {
        size_t at = i * w->n_sections;
        const tperf_pass_sums *sums = &w->sums[i].sums;
        layers l = {&w->scratch->layers[at], &w->scratch->covers[at],
                    tperf_beat_of(s->terms, sums)};
        if (s->prunes && ruled_out(&s->terms->multiples, &l.beat, w->latest)) continue;
        if (!s->exchanges.of) {
            s->exchanges = exchanges_of(w);
            if (!w->query->one_domain)
                s->sent_each = tperf_sent_each(w->partial.pipeline, w->workload, &w->job);
        }
        w->partial.placement.panels = w->shape->panels[p];
        w->result->evaluated += (int64_t)n;
        bool done = s->by_least ? time_least(w, entries, n, &w->scratch->costs[at])
                                : time_entries(w, s, entries, n, &l);
        if (!done) return false;
    }
    return true;
}

// Layers that communicate among replicas cost what the placement of these makes of them: one entry is a run of its own.
static bool walk_one_by_one(tperf_walk *w, shared *s, const tperf_placement_entry *entries,
                            size_t n) {
    for (size_t i = 0; i < n; i++) {
        w->replicas_fast = entries[i].replicas;
        w->scratch->timed[entries[i].placed].timed_for = 0;
        for (size_t p = 0; p < w->shape->n_panels; p++)
            w->sums[entries[i].placed * w->shape->n_panels + p].known_for = 0;
        if (!walk_run(w, s, &entries[i], 1)) return false;
    }
    return true;
}

static bool walk_runs(tperf_walk *w) {
    const tperf_placement_cache *known = tperf_walk_cached_placements(w);
    const tperf_search_options *options = &w->search->options;
    bool by_least = options->by_least == TPERF_ALL_BY_LEAST ||
                    (options->by_least == TPERF_OPEN_BY_LEAST && w->partial.pipeline->open);
    shared s = {.terms = &w->terms,
                .hops = hops_of(w),
                .waits_each = tperf_waits_each(&w->terms.each),
                .by_least = by_least,
                .prunes = !options->no_pruning && !by_least};
    size_t from = w->list->begin;
    bool (*walk)(tperf_walk *, shared *, const tperf_placement_entry *, size_t) =
        w->workload->replicas > 0 ? walk_one_by_one : walk_run;
    for (size_t r = w->list->first_run; r < w->list->end_run; from = known->runs[r++].end)
        if (!walk(w, &s, &known->placements[from], known->runs[r].end - from)) return false;
    return true;
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
    return walk_runs(w);
}
