// stock.h: what a worker knows of the memory that stages hold. Stages with equal contents hold the same in every
// pipeline, so each content is added up once per shape. Private to src/search.
#ifndef TPERF_SEARCH_STOCK_H
#define TPERF_SEARCH_STOCK_H

#include "plan/held.h"

// Which stages have equal contents.
typedef struct tperf_contents {
    size_t n_weights, n_activations; // different contents
    struct tperf_content {
        uint32_t weights, activations; // indices below these
        double in_flight;
    } * of; // [stages of all pipelines, in order]
} tperf_contents;

typedef struct tperf_known_weights {
    int64_t known_for; // the stock's weights_stamp
    tperf_stage_weights held;
} tperf_known_weights;

typedef struct tperf_known_activations {
    int64_t known_for; // the stock's bytes_stamp
    tperf_stage_activations held;
} tperf_known_activations;

typedef struct tperf_stock {
    int64_t weights_stamp; // changes with the shape's weights
    int64_t bytes_stamp;   // changes with any of its bytes
    bool experts;          // some weights are spread as experts
    int n_kinds;
    tperf_section_set holders[TPERF_SHARED_MAX]; // the workload's
    tperf_layer_cost bytes[TPERF_SECTIONS_MAX];  // of the current shape
    tperf_known_weights *weights;
    tperf_known_activations *activations;
} tperf_stock;

bool tperf_contents_init(tperf_contents *contents, const tperf_heap *heap,
                         const tperf_pipeline *pipelines, size_t n_pipelines, size_t n_stages);
void tperf_contents_release(tperf_contents *contents);

// False if out of memory; release either way.
bool tperf_stock_init(tperf_stock *stock, const tperf_heap *heap, const tperf_contents *contents);
void tperf_stock_release(tperf_stock *stock);

// Forgets what other bytes than the previous shape's change.
void tperf_stock_take(tperf_stock *stock, const tperf_workload *workload,
                      const tperf_layer_cost *bytes);

// Like tperf_memory_of, but with a known sharing. contents: of the candidate's pipeline.
tperf_memory tperf_stock_memory(tperf_stock *stock, const struct tperf_content *contents,
                                const tperf_candidate *candidate, const tperf_sharing *sharing,
                                const tperf_training *training, const tperf_workload *workload);

// Like tperf_optimizer_bytes.
double tperf_stock_updated(tperf_stock *stock, const struct tperf_content *contents,
                           const tperf_candidate *candidate, const tperf_sharing *sharing,
                           const tperf_training *training, const tperf_workload *workload);

#endif
