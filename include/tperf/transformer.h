// transformer.h: a decoder of Llama's kind from plain numbers (arXiv 2302.13971, 2307.09288, 2407.21783): layers of RMS norm,
// rotary positions, causal attention whose key and value heads several query heads may share, and an MLP; products have
// no biases. Cut one way, over the axis tp (Megatron-LM, arXiv 1909.08053, and between the products by tokens in training,
// arXiv 2205.05198). Other layers are lists of ops (tperf/op.h) for tperf_build_block; tperf.model and tperf.strategy in
// Lua have many more. spec/c_library_spec.lua compares both.
#ifndef TPERF_TRANSFORMER_H
#define TPERF_TRANSFORMER_H

#include "tperf/build.h"

// A row for each number (tperf/record.h).
// clang-format off
#define TPERF_SIZE(FIELD, member, doc)                                                             \
    FIELD(INTEGER, member, #member, NULL, TPERF_REQUIRED, 1, 1 << 30, doc)
#define TPERF_TRANSFORMER(FIELD)                                                                   \
    TPERF_SIZE(FIELD, layers, "layers")                                                            \
    TPERF_SIZE(FIELD, hidden, "features of the residual stream")                                   \
    TPERF_SIZE(FIELD, heads, "query heads")                                                        \
    TPERF_SIZE(FIELD, kv_heads, "heads of keys and values")                                        \
    TPERF_SIZE(FIELD, head_dim, "features of a head")                                              \
    TPERF_SIZE(FIELD, ffn, "features between the MLP's products")                                  \
    TPERF_SIZE(FIELD, vocab, "rows of the table")                                                  \
    FIELD(FLAG, plain, "plain", NULL, 0, 0, 1,                                                     \
          "the MLP's activation is GELU; else SiLU, gated by a second product (SwiGLU, arXiv 2002.05202)") \
    FIELD(FLAG, tied, "tied", NULL, 0, 0, 1, "the head multiplies by the embedding's table")
// clang-format on

typedef struct tperf_transformer {
    TPERF_TRANSFORMER(TPERF_MEMBER)
} tperf_transformer;
extern const tperf_record tperf_transformer_record;

// What one GPU of a layer does.
typedef enum tperf_phase_kind {
    TPERF_PHASE_TRAIN,   // forward and backward passes of `tokens` tokens of each sample
    TPERF_PHASE_PREFILL, // the forward pass of prompts of `tokens` tokens; logits of the last one
    TPERF_PHASE_DECODE,  // of one more token, which sees `tokens` keys, itself included
} tperf_phase_kind;

typedef struct tperf_share {
    tperf_phase_kind phase;
    int64_t tp, samples, tokens;
    bool
        recompute; // in training: layers keep their input alone, and run again before their backward pass
} tperf_share;

// The grid of its axes: replicas, pipeline stages, tp; and the order of its ranks: those of tp are neighbours, then come
// replicas, then stages, as Megatron-LM has them; when it serves, stages before replicas.
enum { TPERF_AXIS_TP = TPERF_AXIS_OWN };
tperf_grid tperf_transformer_grid(void);
tperf_rank_order tperf_transformer_order(tperf_mode mode);

// GPUs of each axis in a fast domain, in that order; fast[TPERF_AXES_MAX].
void tperf_transformer_place(const tperf_workload *workload, int64_t dp, int64_t pp, int64_t domain,
                             int64_t *fast);

// The model's ops for one share, with one kind of layer, in 16 bits. Fails if tp does not divide what it cuts. The
// builder's grid is tperf_transformer_grid().
const tperf_workload *tperf_transformer_workload(tperf_builder *builder,
                                                 const tperf_transformer *model,
                                                 const tperf_share *share, tperf_error *error);

// Its layers, for pipelines.
static inline tperf_run tperf_transformer_run(const tperf_transformer *model) {
    return (tperf_run){0, model->layers};
}

// How a replica serves it.
// clang-format off
#define TPERF_DEPLOYMENT(FIELD)                                                                    \
    TPERF_SIZE(FIELD, tp, "GPUs that share a layer")                                               \
    TPERF_SIZE(FIELD, pp, "pipeline stages")                                                       \
    TPERF_SIZE(FIELD, batch, "sequences that decode together")                                     \
    TPERF_SIZE(FIELD, prefill_batch, "prompts that are prefilled together")                        \
    TPERF_SIZE(FIELD, prompt, "tokens")                                                            \
    TPERF_SIZE(FIELD, generate, "tokens of an answer")                                             \
    FIELD(NUMBER, reserved, "reserved", NULL, 0, 0, TPERF_BELOW(1), "part of the HBM that is kept free")
// clang-format on
typedef struct tperf_deployment {
    TPERF_DEPLOYMENT(TPERF_MEMBER)
} tperf_deployment;
extern const tperf_record tperf_deployment_record;

// The question of tperf_infer about it, on a platform that serves.
tperf_status tperf_transformer_serve(tperf_builder *builder, const tperf_transformer *model,
                                     const tperf_deployment *deployment, const tperf_platform *on,
                                     tperf_inference *inference, tperf_error *error);

#endif
