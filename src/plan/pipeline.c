// pipeline.c: which layers every stage of a pipeline holds. See tperf/plan.h.
#include <string.h>

#include "tperf/plan.h"

// How many layers chunk c of n holds. The order in which chunks go short: last, first, last but one …
static int64_t chunk_layers(int64_t layers, int64_t n, int64_t c) {
    int64_t full = (layers + n - 1) / n, missing = full * n - layers;
    int64_t turn_from_end = 2 * (n - 1 - c), turn_from_start = 2 * c + 1;
    int64_t turn = turn_from_end < turn_from_start ? turn_from_end : turn_from_start;
    return full - (turn < missing);
}

// Adds layers of a kind to a stage, the first of which is the at-th of its chunk.
static void add_run(tp_stage *stage, const tp_picked *picked, int kind, int64_t at, int64_t n) {
    if (stage->leading == TP_NO_LAYER) stage->leading = tp_picked_kind(picked, kind, at);
    if (picked->twin == 0) stage->layers[kind] += n;
    for (int64_t i = 0; picked->twin && i < n; i++)
        stage->layers[tp_picked_kind(picked, kind, at + i)]++;
}

// Adds a chunk, layers [from, from + n) of the model, to a stage.
static void add_layers(tp_stage *stage, const tp_picked *picked, const tp_run *runs, size_t n_runs,
                       int64_t from, int64_t n) {
    int64_t at = 0;
    for (size_t r = 0; r < n_runs && n > 0; from -= runs[r++].layers) {
        if (from >= runs[r].layers) continue;
        int64_t here = runs[r].layers - from < n ? runs[r].layers - from : n;
        add_run(stage, picked, runs[r].kind, at, here);
        at += here;
        n -= here;
        from += here;
    }
}

static bool same_layers(const tp_stage *a, const tp_stage *b) {
    return memcmp(a->layers, b->layers, sizeof a->layers) == 0 && a->leading == b->leading &&
           a->first == b->first && a->last == b->last;
}

// Runs of neighbours that hold the same.
static void add_device(tp_pipeline *pipeline, const tp_stage *stage) {
    tp_stage *before = pipeline->n_devices ? &pipeline->devices[pipeline->n_devices - 1] : NULL;
    if (before && same_layers(before, stage) && before->in_flight == stage->in_flight)
        before->repeats++;
    else
        pipeline->devices[pipeline->n_devices++] = *stage;
}

static void add_stage(tp_pipeline *pipeline, const tp_stage *stage) {
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        tp_stage *known = &pipeline->stages[i];
        if (!same_layers(known, stage)) continue;
        known->repeats++;
        if (stage->in_flight > known->in_flight) known->in_flight = stage->in_flight;
        return;
    }
    pipeline->stages[pipeline->n_stages++] = *stage;
}

// The same where the pipeline may say it.
static int64_t layers_of_chunk(const tp_pipeline *pipeline, int64_t layers, int64_t n, int64_t c) {
    bool said = pipeline->dealt && n == pipeline->pp * pipeline->virtual_stages;
    return said ? pipeline->dealt[c] : chunk_layers(layers, n, c);
}

static int64_t count_layers(const tp_run *runs, size_t n_runs) {
    int64_t layers = 0;
    for (size_t r = 0; r < n_runs; r++)
        layers += runs[r].layers;
    return layers;
}

void tp_pipeline_chunks(const tp_pipeline *pipeline, const tp_run *runs, size_t n_runs,
                        bool has_ends, int64_t n, tp_stage *chunks) {
    int64_t layers = count_layers(runs, n_runs), from = 0;
    for (int64_t c = 0; c < n; c++) {
        int64_t here = layers_of_chunk(pipeline, layers, n, c);
        chunks[c] = (tp_stage){.repeats = 1,
                               .leading = TP_NO_LAYER,
                               .first = has_ends && c == 0,
                               .last = has_ends && c == n - 1};
        add_layers(&chunks[c], &pipeline->picked, runs, n_runs, from, here);
        from += here;
    }
}

// Chunks without layers are those of an end alone.
static tp_status check_chunks(const tp_pipeline *pipeline, int64_t layers, bool has_ends,
                              tp_error *error) {
    int64_t chunks = pipeline->pp * pipeline->virtual_stages, sum = 0;
    int64_t room = has_ends && chunks > 2 ? layers + 2 : layers;
    if (room < chunks)
        return tp_error_set(error, TP_INVALID, "%lld layers cannot fill %lld pipeline stages",
                            (long long)layers, (long long)chunks);
    for (int64_t c = 0; pipeline->dealt && c < chunks; c++) {
        bool end = has_ends && (c == 0 || c == chunks - 1);
        if (pipeline->dealt[c] < (end ? 0 : 1))
            return tp_error_set(error, TP_INVALID, "pipeline stage %lld of %lld has no layer",
                                (long long)c + 1, (long long)chunks);
        sum += pipeline->dealt[c];
    }
    if (pipeline->dealt && sum != layers)
        return tp_error_set(error, TP_INVALID,
                            "the pipeline's stages have %lld layers, the model %lld",
                            (long long)sum, (long long)layers);
    return TP_OK;
}

// The chunk that a device holds on one of the ways down (or back up) the devices.
static int64_t chunk_of(const tp_pipeline *pipeline, int64_t device, int64_t leg) {
    bool back = pipeline->folded && leg % 2 == 1;
    return leg * pipeline->pp + (back ? pipeline->pp - 1 - device : device);
}

tp_status tp_pipeline_split(tp_pipeline *pipeline, const tp_heap *heap, const tp_run *runs,
                            size_t n_runs, bool has_ends, const double *in_flight,
                            tp_error *error) {
    int64_t layers = count_layers(runs, n_runs), pp = pipeline->pp;
    int64_t chunks = pp * pipeline->virtual_stages;
    TP_TRY(check_chunks(pipeline, layers, has_ends, error));
    pipeline->n_stages = pipeline->n_devices = 0;
    pipeline->stages = tp_heap_zeroed(heap, (size_t)pp, sizeof *pipeline->stages);
    pipeline->devices = tp_heap_zeroed(heap, (size_t)pp, sizeof *pipeline->devices);
    int64_t *start = tp_heap_zeroed(heap, (size_t)chunks + 1, sizeof *start);
    if (!pipeline->stages || !pipeline->devices || !start) {
        tp_heap_free(start);
        return tp_error_set(error, TP_NO_MEMORY, "not enough memory for %lld pipeline stages",
                            (long long)pp);
    }
    for (int64_t c = 0; c < chunks; c++)
        start[c + 1] = start[c] + layers_of_chunk(pipeline, layers, chunks, c);
    for (int64_t device = 0; device < pp; device++) {
        tp_stage stage = {.repeats = 1, .leading = TP_NO_LAYER, .in_flight = in_flight[device]};
        for (int64_t leg = 0; leg < pipeline->virtual_stages; leg++) {
            int64_t c = chunk_of(pipeline, device, leg);
            stage.first = stage.first || (has_ends && c == 0);
            stage.last = stage.last || (has_ends && c == chunks - 1);
            add_layers(&stage, &pipeline->picked, runs, n_runs, start[c], start[c + 1] - start[c]);
        }
        add_stage(pipeline, &stage);
        add_device(pipeline, &stage);
    }
    tp_heap_free(start);
    return TP_OK;
}

void tp_pipeline_release(tp_pipeline *pipeline) {
    tp_heap_free(pipeline->stages);
    tp_heap_free(pipeline->devices);
    tp_heap_free(pipeline->dealt);
    pipeline->stages = pipeline->devices = NULL;
    pipeline->dealt = NULL;
    pipeline->n_stages = pipeline->n_devices = 0;
}
