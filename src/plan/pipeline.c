// pipeline.c: the layers of every pipeline stage. See tperf/plan.h.
#include <math.h>
#include <string.h>

#include "tperf/plan.h"

double tperf_stage_layers(const tperf_stage *stage, int section, const tperf_workload *workload) {
    int n_kinds = workload->n_kinds;
    if (section < n_kinds) return (double)stage->layers[section];
    if (section == n_kinds) return stage->first;
    if (section == n_kinds + 1) return stage->last;
    return tperf_stage_shares(stage, section, workload);
}

bool tperf_stage_shares(const tperf_stage *stage, int section, const tperf_workload *workload) {
    const tperf_section_set *holders = &workload->holders[section - workload->n_kinds - 2];
    for (int i = 0; i < workload->n_kinds + 2; i++)
        if (tperf_section_set_has(holders, i) && tperf_stage_layers(stage, i, workload) > 0)
            return true;
    return false;
}

// The number of layers in chunk c of n. Chunks go one short in the order last, first, last but one …
static int64_t chunk_layers(int64_t layers, int64_t n, int64_t c) {
    int64_t full = (layers + n - 1) / n, missing = full * n - layers;
    int64_t turn_from_end = 2 * (n - 1 - c), turn_from_start = 2 * c + 1;
    int64_t turn = turn_from_end < turn_from_start ? turn_from_end : turn_from_start;
    return full - (turn < missing);
}

// Adds n layers of a kind to a stage; the first of them is layer `at` of its chunk.
static void add_run(tperf_stage *stage, const tperf_picked *picked, int kind, int64_t at,
                    int64_t n) {
    if (stage->leading == TPERF_NO_LAYER) stage->leading = tperf_picked_kind(picked, kind, at);
    if (picked->twin == 0) stage->layers[kind] += n;
    for (int64_t i = 0; picked->twin && i < n; i++)
        stage->layers[tperf_picked_kind(picked, kind, at + i)]++;
}

// Adds a chunk, layers [from, from + n) of the model, to a stage.
static void add_layers(tperf_stage *stage, const tperf_picked *picked,
                       const tperf_model_layers *model, int64_t from, int64_t n) {
    int64_t at = 0;
    for (size_t r = 0; r < model->n_runs && n > 0; from -= model->runs[r++].layers) {
        if (from >= model->runs[r].layers) continue;
        int64_t here = model->runs[r].layers - from < n ? model->runs[r].layers - from : n;
        add_run(stage, picked, model->runs[r].kind, at, here);
        at += here;
        n -= here;
        from += here;
    }
}

static bool same_layers(const tperf_stage *a, const tperf_stage *b) {
    return a->leading == b->leading && a->first == b->first && a->last == b->last &&
           memcmp(a->layers, b->layers, sizeof a->layers) == 0;
}

// Extends the last run of devices with the same contents, or starts a new one.
static void add_device(tperf_pipeline *pipeline, const tperf_stage *stage) {
    tperf_stage *before = pipeline->n_devices ? &pipeline->devices[pipeline->n_devices - 1] : NULL;
    if (before && same_layers(before, stage) && before->in_flight == stage->in_flight)
        before->repeats++;
    else
        pipeline->devices[pipeline->n_devices++] = *stage;
}

// others: the mirrors of the known stages, NULL if none has any; mirror: of this one.
static void add_stage(tperf_pipeline *pipeline, const tperf_stage *stage, tperf_stage *others,
                      const tperf_stage *mirror) {
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        tperf_stage *known = &pipeline->stages[i];
        if (!same_layers(known, stage) || (others && !same_layers(&others[i], mirror))) continue;
        known->repeats++;
        if (stage->in_flight > known->in_flight) known->in_flight = stage->in_flight;
        return;
    }
    if (others) others[pipeline->n_stages] = *mirror;
    pipeline->stages[pipeline->n_stages++] = *stage;
}

// others: the stages' mirrors, which are among the stages, too.
static void link_mirrors(tperf_pipeline *pipeline, const tperf_stage *others) {
    tperf_stage *stages = pipeline->stages;
    for (size_t i = 0; i < pipeline->n_stages; i++)
        for (size_t j = 0; j < pipeline->n_stages; j++)
            if (same_layers(&stages[j], &others[i]) && same_layers(&others[j], &stages[i]))
                stages[i].mirror = j;
}

// The same, unless the pipeline's chunk_layers overrides it.
static int64_t layers_of_chunk(const tperf_pipeline *pipeline, int64_t layers, int64_t n,
                               int64_t c) {
    bool given = pipeline->chunk_layers && n == pipeline->pp * pipeline->virtual_stages;
    return given ? pipeline->chunk_layers[c] : chunk_layers(layers, n, c);
}

static int64_t count_layers(const tperf_model_layers *model) {
    int64_t layers = 0;
    for (size_t r = 0; r < model->n_runs; r++)
        layers += model->runs[r].layers;
    return layers;
}

void tperf_pipeline_chunks(const tperf_pipeline *pipeline, const tperf_model_layers *model,
                           int64_t n, tperf_stage *chunks) {
    int64_t layers = count_layers(model), from = 0;
    for (int64_t c = 0; c < n; c++) {
        int64_t here = layers_of_chunk(pipeline, layers, n, c);
        chunks[c] = (tperf_stage){.repeats = 1,
                                  .leading = TPERF_NO_LAYER,
                                  .first = model->has_ends && c == 0,
                                  .last = model->has_ends && c == n - 1};
        add_layers(&chunks[c], &pipeline->picked, model, from, here);
        from += here;
    }
}

double tperf_pipeline_unevenness(const tperf_pipeline *pipeline, const tperf_model_layers *model,
                                 const double *work) {
    int64_t layers = count_layers(model), n = pipeline->pp * pipeline->virtual_stages, from = 0;
    double longest = 0, sum = 0;
    for (int64_t c = 0; c < n; c++) {
        int64_t here = layers_of_chunk(pipeline, layers, n, c);
        tperf_stage chunk = {.leading = TPERF_NO_LAYER};
        add_layers(&chunk, &pipeline->picked, model, from, here);
        double own = 0;
        for (int kind = 0; kind < TPERF_KINDS_MAX; kind++)
            if (chunk.layers[kind]) own += (double)chunk.layers[kind] * work[kind];
        longest = fmax(longest, own);
        sum += own;
        from += here;
    }
    return sum > 0 ? longest * (double)n / sum - 1 : 0;
}

bool tperf_may_split(const tperf_model_layers *layers, int64_t n) {
    return n >= 1 && n <= count_layers(layers) + (layers->has_ends && n > 2 ? 2 : 0);
}

// Only a chunk with an end of the model may have no layers.
static tperf_status check_chunks(const tperf_pipeline *pipeline, int64_t layers, bool has_ends,
                                 tperf_error *error) {
    int64_t chunks = pipeline->pp * pipeline->virtual_stages, sum = 0;
    int64_t room = has_ends && chunks > 2 ? layers + 2 : layers;
    if (room < chunks)
        return tperf_error_set(error, TPERF_INVALID, "%lld layers cannot fill %lld pipeline stages",
                               (long long)layers, (long long)chunks);
    for (int64_t c = 0; pipeline->chunk_layers && c < chunks; c++) {
        bool end = has_ends && (c == 0 || c == chunks - 1);
        if (pipeline->chunk_layers[c] < (end ? 0 : 1))
            return tperf_error_set(error, TPERF_INVALID, "pipeline stage %lld of %lld has no layer",
                                   (long long)c + 1, (long long)chunks);
        sum += pipeline->chunk_layers[c];
    }
    if (pipeline->chunk_layers && sum != layers)
        return tperf_error_set(error, TPERF_INVALID,
                               "the pipeline's stages have %lld layers, the model %lld",
                               (long long)sum, (long long)layers);
    return TPERF_OK;
}

// The chunk that a device holds on one leg down (or back up) the devices.
static int64_t chunk_of(const tperf_pipeline *pipeline, int64_t device, int64_t leg) {
    bool back = pipeline->folded && leg % 2 == 1;
    return leg * pipeline->pp + (back ? pipeline->pp - 1 - device : device);
}

// start: of each chunk, its first layer.
static tperf_stage stage_of(const tperf_pipeline *pipeline, const tperf_model_layers *model,
                            const int64_t *start, int64_t device) {
    int64_t chunks = pipeline->pp * pipeline->virtual_stages;
    tperf_stage stage = {.repeats = 1, .leading = TPERF_NO_LAYER};
    for (int64_t leg = 0; leg < pipeline->virtual_stages; leg++) {
        int64_t c = chunk_of(pipeline, device, leg);
        stage.first = stage.first || (model->has_ends && c == 0);
        stage.last = stage.last || (model->has_ends && c == chunks - 1);
        add_layers(&stage, &pipeline->picked, model, start[c], start[c + 1] - start[c]);
    }
    return stage;
}

tperf_status tperf_pipeline_split(tperf_pipeline *pipeline, const tperf_heap *heap,
                                  const tperf_model_layers *model, const double *in_flight,
                                  tperf_error *error) {
    int64_t layers = count_layers(model), pp = pipeline->pp;
    int64_t chunks = pp * pipeline->virtual_stages;
    TPERF_TRY(check_chunks(pipeline, layers, model->has_ends, error));
    pipeline->n_stages = pipeline->n_devices = 0;
    bool mirrored = pipeline->weight_copies > 1;
    pipeline->stages = tperf_heap_new(heap, (size_t)pp, sizeof *pipeline->stages);
    pipeline->devices = tperf_heap_new(heap, (size_t)pp, sizeof *pipeline->devices);
    int64_t *start = tperf_heap_zeroed(heap, (size_t)chunks + 1, sizeof *start);
    tperf_stage *others = mirrored ? tperf_heap_new(heap, (size_t)pp, sizeof *others) : NULL;
    bool room = pipeline->stages && pipeline->devices && start && (others || !mirrored);
    for (int64_t c = 0; room && c < chunks; c++)
        start[c + 1] = start[c] + layers_of_chunk(pipeline, layers, chunks, c);
    for (int64_t device = 0; room && device < pp; device++) {
        tperf_stage stage = stage_of(pipeline, model, start, device), mirror;
        stage.in_flight = in_flight[device];
        if (mirrored) mirror = stage_of(pipeline, model, start, pp - 1 - device);
        add_stage(pipeline, &stage, others, &mirror);
        add_device(pipeline, &stage);
    }
    if (room && mirrored) link_mirrors(pipeline, others);
    tperf_heap_free(start);
    tperf_heap_free(others);
    return room ? TPERF_OK
                : tperf_error_set(error, TPERF_NO_MEMORY,
                                  "not enough memory for %lld pipeline stages", (long long)pp);
}

void tperf_pipeline_release(tperf_pipeline *pipeline) {
    tperf_heap_free(pipeline->stages);
    tperf_heap_free(pipeline->devices);
    tperf_heap_free(pipeline->chunk_layers);
    pipeline->stages = pipeline->devices = NULL;
    pipeline->chunk_layers = NULL;
    pipeline->n_stages = pipeline->n_devices = 0;
}
