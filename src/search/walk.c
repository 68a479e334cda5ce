// walk.c: enumerates the candidates of one shape for one group of queries: questions, pipelines, data-parallel sizes,
// ZeRO stages, placements, panels. docs/model.md section 7.1. Nothing is allocated per candidate.
#include <stddef.h>
#include <string.h>

#include "search/walk.h"

enum { COVERED_BY = 64 }; // queries before one that are looked at

// Sizes are at most 2^31, and 32-bit division is several times faster than 64-bit.
static bool divides(int64_t part, int64_t whole) {
    return (uint32_t)whole % (uint32_t)part == 0;
}

static bool room_for(tperf_walk *w, void **array, size_t *capacity, size_t n, size_t size) {
    if (n <= *capacity) return true;
    size_t grown = n > 2 * *capacity ? n : 2 * *capacity;
    void *moved = tperf_heap_grow(&w->search->heap.heap, *array, grown, size);
    if (!moved) return false;
    *array = moved;
    *capacity = grown;
    return true;
}

// The same, with the new elements' stamps set to 0.
static bool stamped_room_for(tperf_walk *w, void **array, size_t *capacity, size_t n, size_t size) {
    size_t known = *capacity;
    if (!room_for(w, array, capacity, n, size)) return false;
    if (*capacity > known) memset((char *)*array + known * size, 0, (*capacity - known) * size);
    return true;
}

static size_t count_of(const tperf_walk *w) {
    return w->list->end - w->list->begin;
}

static tperf_placement_problem problem_of(tperf_walk *w) {
    return (tperf_placement_problem){
        .heap = &w->search->heap.heap,
        .grid = &w->workload->grid,
        .sizes = w->partial.sizes,
        .demanded = w->demanded,
        .divisors = w->query->divisors,
        .order = w->shape->order.n ? &w->shape->order : NULL,
        .one_domain = w->query->one_domain,
        .tiered = w->query->question.system.network.n_tiers > 0,
        .fills = !w->query->one_domain && !w->job.on.rules->placements_may_underfill,
        .folds = w->folds,
    };
}

static bool prepare_room(tperf_walk *w) {
    tperf_scratch *s = w->scratch;
    tperf_placement_problem problem = problem_of(w);
    size_t n_works = w->shares_prices ? 0 : w->shape->n_panels * w->workload->n_ops;
    return room_for(w, (void **)&s->works, &s->works_capacity, n_works, sizeof *s->works) &&
           tperf_layout_cache_make(tperf_walk_layouts(w), &problem, s->sizes_stamp);
}

enum { PACES = 1 << 16 }; // remembered for all pipelines: 3 MiB

// Makes room for the pipeline's times in the current placements. Several queries ask for the same ones.
static bool space_for_sums(tperf_walk *w) {
    tperf_scratch *s = w->scratch;
    size_t row = (s->timed_capacity + 1) * w->shape->n_panels, rows = w->search->n_alike;
    bool all = w->n_queries > 1 && row <= PACES / rows;
    size_t alike = w->search->alike[w->partial.pipeline - w->search->options.pipelines];
    tperf_pass_sums_for now = {s->shape_stamp, all ? 0 : w->query_index, all ? 0 : alike, row};
    if (!stamped_room_for(w, (void **)&s->sums, &s->sums_capacity, all ? rows * row : row,
                          sizeof *s->sums))
        return false;
    if (memcmp(&now, &s->sums_for, sizeof now) != 0) s->sums_stamp++;
    s->sums_for = now;
    w->sums = s->sums + (all ? alike * row : 0);
    return true;
}

// Makes room for the data of the current placements.
static bool room_for_placements(tperf_walk *w) {
    tperf_scratch *s = w->scratch;
    size_t n_placed = tperf_walk_layouts(w)->n_placed;
    size_t n_costs = n_placed * w->shape->n_panels * w->n_sections;
    size_t n_exchanges = tperf_walk_cached_placements(w)->n_exchanges * w->search->options.n_zero;
    tperf_exchanges *e = &s->exchanged[w->query_index];
    return stamped_room_for(w, (void **)&s->timed, &s->timed_capacity, n_placed,
                            sizeof *s->timed) &&
           space_for_sums(w) &&
           room_for(w, (void **)&s->costs, &s->costs_capacity,
                    w->search->options.by_least ? n_costs : w->n_sections, sizeof *s->costs) &&
           room_for(w, (void **)&s->layers, &s->layers_capacity, n_costs, sizeof *s->layers) &&
           room_for(w, (void **)&s->covers, &s->covers_capacity, n_costs, sizeof *s->covers) &&
           stamped_room_for(w, (void **)&e->timed_for, &e->timed_capacity, n_exchanges,
                            sizeof *e->timed_for) &&
           room_for(w, (void **)&e->of, &e->capacity, n_exchanges * w->n_sections, sizeof *e->of);
}

// Finds all placements of the current sizes. False if out of memory.
static bool find_placements(tperf_walk *w) {
    tperf_placement_cache *known = tperf_walk_cached_placements(w);
    w->list = tperf_placement_cache_known(known, tperf_walk_layouts(w),
                                          w->partial.sizes[TPERF_AXIS_STAGES]);
    if (w->list) return true;
    tperf_placement_problem problem = problem_of(w);
    w->list = tperf_placement_cache_find(known, tperf_walk_layouts(w), &problem);
    return w->list != NULL;
}

static void note_least(tperf_walk *w) {
    const tperf_found *least = &w->result->least;
    if (least->candidate.pipeline && w->memory > least->memory) return;
    tperf_found found = {0, w->memory, 0, w->feasible, w->partial, w->shape};
    found.candidate.placement = (tperf_placement){0};
    if (tperf_needs_less(&found, &w->result->least)) w->result->least = found;
}

// Whether an axis shards state over a subset of the replicas, which requires a ZeRO stage.
static bool shards_state(const tperf_walk *w) {
    const tperf_grid *grid = &w->workload->grid;
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++)
        if (grid->axes[i].cuts & TPERF_CUTS_STATE) return w->partial.sizes[i] != 0;
    return false;
}

static void size_buckets(tperf_walk *w) {
    for (size_t i = 0; i < w->n_used; i++)
        w->buckets[w->used[i]] =
            tperf_layers_of_bucket(&w->partial, &w->job, w->workload, &w->bytes[w->used[i]]);
}

// Unless an axis shards state over a subset of the replicas, every replica is a shard of each of its copies.
static tperf_sharing sharing_of(const tperf_walk *w) {
    bool experts = w->scratch->stock.experts;
    if (w->folds) return tperf_sharing_of(&w->partial, &w->job, w->workload, experts);
    int64_t replicas = w->partial.sizes[TPERF_AXIS_REPLICAS];
    return tperf_sharing_among(&w->partial, &w->job, w->workload, replicas * w->shards,
                               experts ? replicas * w->expert_shards : 1);
}

// What pipelines with as many stages share.
static bool prepare_sizes(tperf_walk *w) {
    if (!find_placements(w)) return false;
    w->prepared = true;
    w->shared = false;
    return true;
}

// The same, for candidates whose memory is not known, or that fit.
static void prepare_sharing(tperf_walk *w) {
    if (!w->shared) {
        size_buckets(w);
        w->sharing = sharing_of(w);
        w->shared = true;
    }
    w->sharing.last_in_flight = w->partial.pipeline->last_in_flight;
    tperf_sharing_at(&w->sharing, &w->partial, w->job.training);
}

// The memory of the current pipeline and ZeRO stage: no machine, and no placement, changes it.
static double memory_of(tperf_walk *w) {
    const tperf_search_options *options = &w->search->options;
    size_t pipeline = (size_t)(w->partial.pipeline - options->pipelines);
    tperf_known_memory *known =
        w->memories ? &w->memories[pipeline * options->n_zero + w->zero] : NULL;
    if (known && known->known_for == w->number) return known->bytes;
    prepare_sharing(w);
    double bytes = tperf_stock_memory(&w->scratch->stock, tperf_walk_contents(w), &w->partial,
                                      &w->sharing, w->job.training, w->workload)
                       .total;
    if (known) *known = (tperf_known_memory){w->number, bytes};
    return bytes;
}

static bool walk_pipeline(tperf_walk *w) {
    const tperf_search_options *options = &w->search->options;
    if (!w->prepared && !prepare_sizes(w)) return false;
    int64_t count = (int64_t)(count_of(w) * w->shape->n_panels);
    if (count == 0) return true;
    double capacity = w->job.on.system->accelerator.hbm.capacity * (1 - options->training.reserved);
    for (size_t z = 0; z < options->n_zero; z++) {
        w->partial.zero = options->zero[z];
        w->zero = z;
        if (!options->zero[z] && shards_state(w)) continue;
        w->result->candidates += count;
        if (w->shape->cannot_fit) continue;
        w->memory = memory_of(w);
        w->feasible = w->memory <= capacity;
        note_least(w);
        if (w->feasible) w->result->feasible += count;
        if (options->memory_only) continue;
        if (!w->feasible && !options->keep_all && !options->infeasible_too) continue;
        prepare_sharing(w);
        if (!room_for_placements(w) || !tperf_walk_placements(w)) return false;
    }
    return true;
}

static bool is_laid_out_for(const tperf_workload *workload, int64_t replicas) {
    return workload->replicas == 0 || workload->replicas == replicas;
}

static bool allowed(const int64_t *sizes, size_t n, int64_t size) {
    if (!sizes) return true;
    for (size_t i = 0; i < n; i++)
        if (sizes[i] == size) return true;
    return false;
}

// Sets the sizes for so many stages and returns the micro-batches of a replica; 0 if the sizes do not divide the GPUs and
// the batch, or are not among those asked for.
static int64_t set_sizes(tperf_walk *w, int64_t stages, int64_t gpus) {
    const tperf_search_options *options = &w->search->options;
    if (stages > gpus || !divides(stages, gpus)) return 0;
    int64_t replicas = gpus / stages, batch = w->job.global_batch;
    if (replicas > batch / w->own_batch || batch % (replicas * w->own_batch) != 0) return 0;
    int64_t each = batch / (replicas * w->own_batch);
    if (!is_laid_out_for(w->workload, replicas)) return 0;
    if (!divides(w->shape->micro_batch, each)) return 0;
    w->partial.sizes[TPERF_AXIS_REPLICAS] = replicas;
    w->partial.sizes[TPERF_AXIS_STAGES] = stages;
    if (w->folds && !tperf_grid_folds(&w->workload->grid, w->partial.sizes)) return 0;
    return allowed(options->dp, options->n_dp, replicas) ? each / w->shape->micro_batch : 0;
}

// Pipelines with as many stages follow each other.
static bool walk_pipelines(tperf_walk *w) {
    const tperf_search_options *options = &w->search->options;
    int64_t gpus = w->query->question.gpus / w->own_gpus, stages = 0, microbatches = 0;
    for (size_t i = 0; i < options->n_pipelines; i++) {
        const tperf_pipeline *pipeline = &options->pipelines[i];
        if (pipeline->pp != stages) {
            microbatches = set_sizes(w, pipeline->pp, gpus);
            stages = pipeline->pp;
            w->first_alike = i;
            w->prepared = false;
        }
        if (microbatches == 0 || microbatches < pipeline->min_microbatches ||
            microbatches % pipeline->microbatch_multiple != 0)
            continue;
        if (tperf_search_stopped(w->search)) return true;
        w->partial.pipeline = pipeline;
        w->partial.microbatches = microbatches;
        if (!walk_pipeline(w)) return false;
    }
    return true;
}

// The product of the own axes' sizes; 0 if it does not divide the number of GPUs.
static int64_t gpus_of(const tperf_workload *workload, int64_t gpus) {
    int64_t product = tperf_grid_own_gpus(&workload->grid, workload->sizes, gpus);
    return product && gpus % product == 0 ? product : 0;
}

// Whether the model could fit, under some pipeline and ZeRO stage, with `times` the activations.
static bool might_fit(const tperf_search *search, const tperf_query *query,
                      const tperf_shape *shape, double times, tperf_scratch *scratch) {
    tperf_stock *stock = &scratch->stock;
    const tperf_search_options *options = &search->options;
    tperf_job job = {{&query->question.system, &options->rules, &options->software, NULL},
                     &options->training,
                     query->question.global_batch};
    int64_t own_gpus = gpus_of(shape->workload, query->question.gpus);
    double capacity = job.on.system->accelerator.hbm.capacity * (1 - options->training.reserved);
    if (!own_gpus) return false;
    int64_t gpus = query->question.gpus / own_gpus;
    int64_t own_batch = tperf_grid_own_batch(&shape->workload->grid, shape->workload->sizes);
    tperf_candidate candidate = {.micro_batch = shape->micro_batch};
    memcpy(candidate.sizes, shape->workload->sizes, sizeof candidate.sizes);
    int64_t stages = 0;
    tperf_sharing sharing = {0};
    for (size_t i = 0; i < options->n_pipelines; i++) {
        size_t index = (scratch->roomiest + i) % options->n_pipelines;
        candidate.pipeline = &options->pipelines[index];
        if (gpus % candidate.pipeline->pp != 0) continue;
        if (candidate.pipeline->pp != stages) {
            int64_t replicas = gpus / candidate.pipeline->pp;
            if (!is_laid_out_for(shape->workload, replicas)) continue;
            candidate.sizes[TPERF_AXIS_REPLICAS] = replicas;
            candidate.sizes[TPERF_AXIS_STAGES] = candidate.pipeline->pp;
            bool folds = tperf_grid_folds(&shape->workload->grid, candidate.sizes);
            stages = folds ? candidate.pipeline->pp : 0;
            if (!folds) continue;
            candidate.microbatches =
                job.global_batch / replicas / own_batch / candidate.micro_batch;
            candidate.zero = 0;
            sharing = tperf_sharing_of(&candidate, &job, shape->workload, stock->experts);
        }
        sharing.last_in_flight = candidate.pipeline->last_in_flight;
        for (size_t z = 0; z < options->n_zero; z++) {
            candidate.zero = options->zero[z];
            tperf_sharing_at(&sharing, &candidate, job.training);
            tperf_memory m =
                tperf_stock_memory(stock, tperf_search_contents(search, candidate.pipeline),
                                   &candidate, &sharing, job.training, shape->workload);
            if (m.total - m.passing / 2 + (times - 1) * m.activations > capacity) continue;
            scratch->roomiest = index;
            return true;
        }
    }
    return false;
}

// Whether one of the queries before it asks for as many GPUs and samples, with no less memory: what does not fit there
// does not fit here.
static bool is_covered(const tperf_search *search, size_t i) {
    const tperf_question *own = &search->queries[i].question;
    for (size_t j = i; j-- > 0 && i - j <= COVERED_BY;) {
        const tperf_question *other = &search->queries[j].question;
        if (other->gpus == own->gpus && other->global_batch == own->global_batch &&
            other->system.accelerator.hbm.capacity >= own->system.accelerator.hbm.capacity)
            return true;
    }
    return false;
}

// Uses the first worker's scratch: no worker walks meanwhile.
bool tperf_search_cannot_fit(const tperf_search *search, const tperf_shape *shape, double times) {
    if (search->options.keep_all || search->options.infeasible_too || search->options.no_pruning)
        return false;
    tperf_layer_cost bytes[TPERF_SECTIONS_MAX];
    tperf_scratch *scratch = &search->scratch[0];
    tperf_workload_bytes(shape->workload, bytes);
    tperf_stock_take(&scratch->stock, shape->workload, bytes);
    for (size_t i = 0; i < search->n_queries; i++)
        if (!is_covered(search, i) && might_fit(search, &search->queries[i], shape, times, scratch))
            return false;
    return true;
}

bool tperf_search_may_fit(const tperf_search *search, const tperf_series *series, size_t i,
                          const tperf_workload *workload) {
    if (i + 1 >= series->n) return false;
    tperf_shape shape = {.micro_batch = series->micro_batches[i], .workload = workload};
    double times = series->growth;
    if (!series->fixed) {
        int64_t after = series->micro_batches[i + 1];
        times = series->growth * (double)after / (double)shape.micro_batch;
        shape.micro_batch = after;
    }
    return !tperf_search_cannot_fit(search, &shape, times);
}

static bool walk_query(tperf_walk *w, size_t query_index) {
    const tperf_query *query = &w->search->queries[query_index];
    w->own_gpus = gpus_of(w->workload, query->question.gpus);
    w->job.global_batch = query->question.global_batch;
    if (!w->own_gpus) return true;
    if (w->job.global_batch % w->shape->micro_batch != 0) return true;
    w->query = query;
    w->query_index = query_index;
    w->result = tperf_search_result(w->search, w->worker, query_index);
    size_t each = w->search->options.n_pipelines * w->search->options.n_zero;
    w->memories = w->scratch->memories ? w->scratch->memories + query->count * each : NULL;
    return prepare_room(w) && walk_pipelines(w);
}

// Invalidates the placements if the sizes differ from the previous shape's.
static void note_sizes(tperf_scratch *scratch, const tperf_shape *shape) {
    const int64_t *sizes = shape->workload->sizes;
    size_t size = sizeof scratch->sizes;
    if (scratch->sizes_stamp && scratch->strategy == shape->strategy &&
        memcmp(scratch->sizes, sizes, size) == 0 &&
        memcmp(scratch->demanded, shape->fast, size) == 0 &&
        memcmp(&scratch->order, &shape->order, sizeof shape->order) == 0)
        return;
    scratch->strategy = shape->strategy;
    memcpy(scratch->sizes, sizes, size);
    memcpy(scratch->demanded, shape->fast, size);
    scratch->order = shape->order;
    scratch->sizes_stamp++;
    scratch->weights_stamp++;
}

// Invalidates the exchanges if the weights differ.
static void note_weights(tperf_scratch *scratch) {
    if (scratch->weights != scratch->stock.weights_stamp) scratch->weights_stamp++;
    scratch->weights = scratch->stock.weights_stamp;
}

static void note_used(tperf_walk *w) {
    for (int i = 0; i < w->workload->n_sections; i++) {
        if (w->workload->section_end[i] == tperf_section_begin(w->workload, i)) continue;
        tperf_section_set_add(&w->sections, i);
        w->used[w->n_used++] = (size_t)i;
    }
}

// Lists the layer counts of all stages, limited to the sections that count.
static void note_layer_counts(tperf_walk *w) {
    tperf_known_layer_counts *known = &w->scratch->layer_counts;
    const tperf_workload *workload = w->workload;
    bool same = memcmp(known->holders, workload->holders, sizeof known->holders) == 0 &&
                memcmp(&known->sections, &w->sections, sizeof w->sections) == 0;
    if (known->n_kinds == workload->n_kinds && same) return;
    known->n_kinds = workload->n_kinds;
    known->sections = w->sections;
    memcpy(known->holders, workload->holders, sizeof known->holders);
    const tperf_search_options *options = &w->search->options;
    tperf_layer_counts *layer_counts = known->of;
    for (size_t i = 0; i < options->n_pipelines; i++) {
        const tperf_pipeline *pipeline = &options->pipelines[i];
        tperf_pipeline_layer_counts(pipeline, w->workload, &w->sections, layer_counts);
        layer_counts += pipeline->n_stages;
    }
}

// What memory and times take.
static void prepare_times(tperf_walk *w) {
    tperf_workload_bytes(w->workload, w->bytes);
    note_used(w);
    tperf_stock_take(&w->scratch->stock, w->workload, w->bytes);
    note_weights(w->scratch);
    note_layer_counts(w);
    w->scratch->shape_stamp++;
    w->hop = tperf_hop_times(&w->job, w->workload);
    double bytes = w->job.training->gradient_bytes * w->bytes[w->workload->n_kinds + 1].tied.count;
    for (int together = 0; together < 2; together++)
        w->tied[together] =
            tperf_joint_time(&w->job, (tperf_joint){{2, 1 + together, 1, 1}, bytes});
}

enum { FEW = 8 }; // shapes that have too little in common

bool tperf_walk_shape(tperf_search *search, const tperf_query_group *group,
                      const tperf_shape *shape, int worker) {
    const tperf_workload *workload = shape->workload;
    tperf_walk w;
    memset(&w, 0, offsetof(tperf_walk, used));
    w.search = search;
    w.worker = worker;
    w.shape = shape;
    w.workload = workload;
    w.n_sections = (size_t)workload->n_sections;
    w.n_queries = group->end - group->first;
    w.number = search->n_walked + (shape - search->shapes) + 1;
    w.shares_prices = search->n_shapes > FEW && tperf_prices_hold(workload);
    w.job = (tperf_job){.on = {&search->queries[group->first].question.system,
                               &search->options.rules, &search->options.software, NULL},
                        .training = &search->options.training};
    w.scratch = &search->scratch[worker];
    w.bytes = w.scratch->bytes;
    w.partial = (tperf_candidate){
        .strategy = shape->strategy, .variant = shape->variant, .micro_batch = shape->micro_batch};
    memcpy(w.partial.sizes, workload->sizes, sizeof w.partial.sizes);
    memcpy(w.demanded, shape->fast, sizeof w.demanded);
    w.demanded[TPERF_AXIS_REPLICAS] = search->options.replicas_fast;
    w.demanded[TPERF_AXIS_STAGES] = search->options.stages_fast;
    w.own_batch = tperf_grid_own_batch(&workload->grid, workload->sizes);
    w.folds = tperf_grid_may_fold(&workload->grid, workload->sizes, shape->fast);
    w.partial.sizes[TPERF_AXIS_REPLICAS] = w.partial.sizes[TPERF_AXIS_STAGES] = 1;
    w.shards = tperf_grid_copies(&workload->grid, w.partial.sizes, false);
    w.expert_shards = tperf_grid_copies(&workload->grid, w.partial.sizes, true);
    note_sizes(w.scratch, shape);
    if (!shape->cannot_fit) prepare_times(&w);
    for (size_t query = group->first; query < group->end; query++)
        if (!walk_query(&w, query)) return false;
    return true;
}
