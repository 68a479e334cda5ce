// build.h: makes the objects that questions are about, and keeps them: blocks, workloads, pipelines, decodes.
// A builder owns all that it made, until it is freed; what it made never changes. Two threads need two builders.
//
//     tperf_builder *builder = tperf_builder_new(NULL, &grid);
//     const tperf_block *layer = tperf_build_block(builder, sizes, "layer", ops, n_ops, &error);
//     …
//     tperf_builder_free(builder);
//
// A function that makes something returns NULL, and fills *error, where it cannot. tperf/transformer.h makes the blocks of
// a transformer from plain numbers.
#ifndef TPERF_BUILD_H
#define TPERF_BUILD_H

#include "tperf/inference.h"

typedef struct tperf_builder tperf_builder;

// heap: NULL: the C library's. NULL: out of memory.
tperf_builder *tperf_builder_new(const tperf_heap *heap, const tperf_grid *grid);
void tperf_builder_free(tperf_builder *builder); // NULL is fine

const tperf_grid *tperf_builder_grid(const tperf_builder *builder);

// Zeroed memory that lasts as long as the builder; NULL: out of memory.
void *tperf_builder_room(tperf_builder *builder, size_t size);

// A block of these ops, which are copied, as part of layers of these sizes: TPERF_AXES_MAX of them, of the grid's own
// axes; the first two do not matter.
const tperf_block *tperf_build_block(tperf_builder *builder, const int64_t *sizes, const char *name,
                                     const tperf_op *ops, size_t n, tperf_error *error);

enum { TPERF_SECTION_BLOCKS_MAX = 8 };

// What a workload is made of: the blocks of a layer of each kind, then of what precedes the layers and follows them.
typedef struct tperf_section {
    size_t n;
    const tperf_block *blocks[TPERF_SECTION_BLOCKS_MAX];
} tperf_section;
typedef struct tperf_sections {
    int64_t sizes[TPERF_AXES_MAX];
    double boundary_bytes; // see tperf_workload
    int n_kinds;
    tperf_section of[TPERF_SECTIONS_MAX]; // n_kinds + 2
} tperf_sections;

const tperf_workload *tperf_build_workload(tperf_builder *builder, const tperf_sections *sections,
                                           tperf_error *error);

// A pipeline of pp devices that runs 1F1B (arXiv 2006.09503): pp - 1 forward and backward passes of a bubble; device d, from
// 0, keeps the activations of pp - d micro-batches. The layers are spread evenly.
const tperf_pipeline *tperf_build_1f1b(tperf_builder *builder, const tperf_model_layers *layers,
                                       int64_t pp, tperf_error *error);

// A decode step laid out for each of n ascending numbers of keys, see tperf_decode.
const tperf_decode *tperf_build_decode(tperf_builder *builder, int n, const double *keys,
                                       const tperf_workload *const *workloads, tperf_error *error);

#endif
