// transformer.c: see tperf/transformer.h. The ops are those of lua/tperf/describe/arch, whose comments name the sources.
#include "tperf/transformer.h"

#include <string.h>

#define FIELD(...) TPERF_FIELD(tperf_transformer, __VA_ARGS__),
static const tperf_record_field model_fields[] = {TPERF_TRANSFORMER(FIELD){0}};
#undef FIELD
const tperf_record tperf_transformer_record = {"transformer", sizeof(tperf_transformer),
                                               model_fields};
#define FIELD(...) TPERF_FIELD(tperf_deployment, __VA_ARGS__),
static const tperf_record_field deployment_fields[] = {TPERF_DEPLOYMENT(FIELD){0}};
#undef FIELD
const tperf_record tperf_deployment_record = {"deployment", sizeof(tperf_deployment),
                                              deployment_fields};

enum { BYTES = 2, OPS_MAX = 8 };
static const char TP[] = "tp";

tperf_grid tperf_transformer_grid(void) {
    tperf_grid grid = tperf_grid_new();
    grid.axes[grid.n++] =
        (tperf_axis){.name = "tp", .cuts = TPERF_CUTS_WEIGHTS | TPERF_CUTS_EXPERTS};
    return grid;
}

tperf_rank_order tperf_transformer_order(tperf_mode mode) {
    if (mode == TPERF_SERVES)
        return (tperf_rank_order){3, {TPERF_AXIS_TP, TPERF_AXIS_STAGES, TPERF_AXIS_REPLICAS}};
    return (tperf_rank_order){3, {TPERF_AXIS_TP, TPERF_AXIS_REPLICAS, TPERF_AXIS_STAGES}};
}

static void place(tperf_mode mode, const tperf_grid *grid, const int64_t *sizes, int64_t domain,
                  int64_t *fast) {
    tperf_rank_order order = tperf_transformer_order(mode);
    tperf_grid_rank(grid, &order, sizes, domain, fast);
}

void tperf_transformer_place(const tperf_workload *workload, int64_t dp, int64_t pp, int64_t domain,
                             int64_t *fast) {
    int64_t sizes[TPERF_AXES_MAX] = {dp, pp, workload->sizes[TPERF_AXIS_TP]};
    place(TPERF_TRAINS, &workload->grid, sizes, domain, fast);
}

// One GPU's part of the model, and the ops of the block that is being laid out. The first failure ends it.
typedef struct layout {
    const tperf_transformer *model;
    const tperf_share *share;
    bool trains;
    int64_t queries, rows, stream;  // of a sample; of products; of the residual stream
    int64_t heads, kv_heads, vocab; // on this GPU
    size_t n;
    tperf_op ops[OPS_MAX];
    tperf_status status;
    tperf_error *error;
} layout;

static tperf_op *add(layout *l, const char *name) {
    tperf_op *op = &l->ops[l->n++];
    *op = tperf_op_new(name, TPERF_BF16);
    return op;
}

static void check(layout *l, tperf_status status) {
    if (l->status == TPERF_OK) l->status = status;
}

static void add_norm(layout *l) {
    const tperf_norm norm = {.tokens = l->stream,
                             .width = l->model->hidden,
                             .parameters = l->model->hidden,
                             .root_mean_square = true,
                             .grad_axis = l->trains ? TP : NULL};
    check(l, tperf_op_norm(add(l, "norm"), &norm, l->error));
}

static void add_pointwise(layout *l, const char *name, double elements, tperf_elementwise shape) {
    shape.elements = elements;
    check(l, tperf_op_elementwise(add(l, name), &shape, l->error));
}

// A product cut along its output's features: its input is gathered from the stream's shards in training, and whole
// otherwise.
static void add_column(layout *l, const char *name, int64_t n_out) {
    tperf_linear linear = {
        .tokens = l->rows, .n_in = l->model->hidden, .n_out = n_out, .overlap = true};
    if (l->trains) {
        linear.shard = l->stream;
        linear.gather_axis = linear.grad_axis = TP;
    } else {
        linear.grad_sum_axis = TP;
    }
    check(l, tperf_op_linear(add(l, name), &linear, l->error));
}

// A product cut along its input's features.
static void add_row(layout *l, const char *name, int64_t n_in) {
    tperf_linear linear = {
        .tokens = l->rows, .n_in = n_in, .n_out = l->model->hidden, .overlap = true};
    if (l->trains) {
        linear.scattered = l->stream;
        linear.reduce_axis = linear.output_grad_axis = TP;
    } else {
        linear.sum_axis = TP;
    }
    check(l, tperf_op_linear(add(l, name), &linear, l->error));
}

// Serving engines fuse the sum into the next norm's kernel.
static void add_residual(layout *l) {
    const tperf_elementwise sum = {.forward_flops = 1,
                                   .backward_flops = 1,
                                   .forward_bytes = (l->trains ? 3 : 2) * BYTES,
                                   .backward_bytes = 3 * BYTES,
                                   .fused = !l->trains};
    add_pointwise(l, "residual", (double)l->stream * (double)l->model->hidden, sum);
}

static void add_attention(layout *l) {
    static const tperf_elementwise rotation = {.forward_flops = 3,
                                               .backward_flops = 3,
                                               .forward_bytes = 2 * BYTES,
                                               .backward_bytes = 2 * BYTES};
    int64_t width = l->model->head_dim, heads = l->heads, kv_heads = l->kv_heads;
    const tperf_fused_attention kernel = {.batch = l->share->samples,
                                          .heads = heads,
                                          .kv_heads = kv_heads,
                                          .queries = l->queries,
                                          .keys = l->share->tokens,
                                          .head_dim = width,
                                          .shards = 1,
                                          .causal = true};
    add_norm(l);
    add_column(l, "qkv", (heads + 2 * kv_heads) * width);
    add_pointwise(l, "rotary", (double)l->rows * (double)((heads + kv_heads) * width), rotation);
    check(l, tperf_op_attention(add(l, "attention"), &kernel, l->error));
    add_row(l, "proj", heads * width);
    add_residual(l);
}

static void add_mlp(layout *l) {
    static const tperf_elementwise gelu = {.forward_flops = 8,
                                           .backward_flops = 13,
                                           .forward_bytes = 2 * BYTES,
                                           .backward_bytes = 3 * BYTES,
                                           .saved_bytes = BYTES,
                                           .input_bytes = BYTES};
    static const tperf_elementwise swiglu = {.forward_flops = 5,
                                             .backward_flops = 11,
                                             .forward_bytes = 3 * BYTES,
                                             .backward_bytes = 5 * BYTES,
                                             .saved_bytes = 2 * BYTES,
                                             .input_bytes = 2 * BYTES};
    bool plain = l->model->plain;
    int64_t width = l->model->ffn / l->share->tp;
    add_norm(l);
    add_column(l, "fc1", (plain ? 1 : 2) * width);
    add_pointwise(l, plain ? "gelu" : "silu", (double)l->rows * (double)width,
                  plain ? gelu : swiglu);
    add_row(l, "fc2", width);
    add_residual(l);
}

static void add_table(layout *l) {
    const tperf_embedding table = {.tokens = l->rows,
                                   .rows = l->vocab,
                                   .width = l->model->hidden,
                                   .tied = l->model->tied,
                                   .reduce_axis = l->trains ? TP : NULL,
                                   .sum_axis = l->trains ? NULL : TP};
    check(l, tperf_op_embedding(add(l, "table"), &table, l->error));
}

// The vocabulary is padded, so that rows of the head's factors begin on whole 16 bytes.
static void align(tperf_op *op) {
    for (int i = 0; i < op->forward.n_kernels; i++)
        op->forward.kernels[i].aligned = 0;
    for (int i = 0; i < op->backward.n_kernels; i++)
        op->backward.kernels[i].aligned = 0;
}

static void add_loss(layout *l) {
    const tperf_cross_entropy loss = {.tokens = l->rows, .vocab = l->vocab, .axis = TP};
    add_column(l, "head", l->vocab);
    l->ops[l->n - 1].tied = l->model->tied;
    align(&l->ops[l->n - 1]);
    check(l, tperf_op_cross_entropy(add(l, "loss"), &loss, l->error));
}

// The logits of the last tokens, from all of which every GPU samples.
static void add_logits(layout *l) {
    int64_t samples = l->share->samples;
    const tperf_linear head = {
        .tokens = samples, .n_in = l->model->hidden, .n_out = l->vocab, .tied = l->model->tied};
    tperf_op *op = add(l, "head");
    check(l, tperf_op_linear(op, &head, l->error));
    align(op);
    if (l->share->tp == 1) return;
    tperf_comm comm = {.kind = TPERF_ALL_GATHER,
                       .bytes = BYTES * (double)samples * (double)l->model->vocab};
    strcpy(comm.axis, TP);
    op = add(l, "logits");
    op->forward = (tperf_pass){.n_comms = 1, .comms = {comm}};
    comm.kind = TPERF_REDUCE_SCATTER;
    op->backward = (tperf_pass){.n_comms = 1, .comms = {comm}};
}

static void add_head(layout *l) {
    add_norm(l);
    if (l->trains)
        add_loss(l);
    else
        add_logits(l);
}

static tperf_status check_cut(const tperf_transformer *m, const tperf_share *share,
                              tperf_error *error) {
    int64_t tp = share->tp;
    const struct {
        const char *what;
        int64_t size;
    } cut[] = {{"hidden", m->hidden},
               {"heads", m->heads},
               {"ffn", m->ffn},
               {"tokens", share->phase == TPERF_PHASE_TRAIN ? share->tokens : tp}};
    if (tp < 1 || share->samples < 1 || share->tokens < 1)
        return tperf_error_set(error, TPERF_INVALID,
                               "a share has at least one GPU, one sample and one token");
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        if (cut[i].size % tp != 0)
            return tperf_error_set(error, TPERF_INVALID, "%s = %lld is not divided by tp = %lld",
                                   cut[i].what, (long long)cut[i].size, (long long)tp);
    if (m->kv_heads % tp == 0 || tp % m->kv_heads == 0) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID,
                           "kv_heads = %lld neither divides tp = %lld nor is divided by it",
                           (long long)m->kv_heads, (long long)tp);
}

static layout layout_of(const tperf_transformer *m, const tperf_share *share, tperf_error *error) {
    int64_t tp = share->tp;
    layout l = {.model = m, .share = share, .error = error};
    l.trains = share->phase == TPERF_PHASE_TRAIN;
    l.queries = share->phase == TPERF_PHASE_DECODE ? 1 : share->tokens;
    l.rows = share->samples * l.queries;
    l.stream = l.trains ? l.rows / tp : l.rows;
    l.heads = m->heads / tp;
    l.kv_heads = m->kv_heads > tp ? m->kv_heads / tp : 1;
    l.vocab = (m->vocab + tp - 1) / tp;
    return l;
}

// Lays out a block. recomputed: its ops run again before the backward pass, and keep kept_bytes of its input.
static const tperf_block *lay_out(tperf_builder *builder, layout *l, const char *name,
                                  void (*add_ops)(layout *), double kept_bytes) {
    const int64_t sizes[TPERF_AXES_MAX] = {[TPERF_AXIS_TP] = l->share->tp};
    l->n = 0;
    add_ops(l);
    if (l->status != TPERF_OK) return NULL;
    for (size_t i = 0; kept_bytes >= 0 && i < l->n; i++)
        tperf_op_recompute(&l->ops[i], i == 0 ? kept_bytes : 0);
    return tperf_build_block(builder, sizes, name, l->ops, l->n, l->error);
}

const tperf_workload *tperf_transformer_workload(tperf_builder *builder,
                                                 const tperf_transformer *model,
                                                 const tperf_share *share, tperf_error *error) {
    enum { LAYER, FIRST, LAST };
    if (tperf_record_check(&tperf_transformer_record, model, error) != TPERF_OK ||
        check_cut(model, share, error) != TPERF_OK)
        return NULL;
    layout l = layout_of(model, share, error);
    tperf_sections sections = {.sizes[TPERF_AXIS_TP] = share->tp, .n_kinds = 1};
    sections.boundary_bytes = BYTES * (double)l.stream * (double)model->hidden;
    bool again = l.trains && share->recompute;
    const tperf_block *attention =
        lay_out(builder, &l, "attention", add_attention, again ? sections.boundary_bytes : -1);
    if (!attention) return NULL;
    const tperf_block *mlp = lay_out(builder, &l, "mlp", add_mlp, again ? 0 : -1);
    if (!mlp) return NULL;
    const tperf_block *first = lay_out(builder, &l, "embedding", add_table, -1);
    if (!first) return NULL;
    const tperf_block *last = lay_out(builder, &l, "head", add_head, -1);
    if (!last) return NULL;
    sections.of[LAYER] = (tperf_section){2, {attention, mlp}};
    sections.of[FIRST] = (tperf_section){1, {first}};
    sections.of[LAST] = (tperf_section){1, {last}};
    return tperf_build_workload(builder, &sections, error);
}

// --- serving ---

// A decode step of some sequences is affine in the number of keys, so that two lengths lay out all.
static const tperf_decode *lay_out_steps(tperf_builder *builder, const tperf_transformer *model,
                                         const tperf_deployment *d, int64_t samples,
                                         tperf_error *error) {
    double keys[2] = {1, 2};
    const tperf_workload *steps[2];
    while (keys[1] < (double)(d->prompt + d->generate))
        keys[1] *= 2;
    for (int i = 0; i < 2; i++) {
        const tperf_share share = {TPERF_PHASE_DECODE, d->tp, samples, (int64_t)keys[i], false};
        steps[i] = tperf_transformer_workload(builder, model, &share, error);
        if (!steps[i]) return NULL;
    }
    return tperf_build_decode(builder, 2, keys, steps, error);
}

static tperf_status set_memory(tperf_builder *builder, const tperf_transformer *model,
                               const tperf_deployment *d, const tperf_platform *on,
                               tperf_inference *inference) {
    tperf_placement *placement = tperf_builder_room(builder, sizeof *placement);
    tperf_cache *cache = tperf_builder_room(builder, sizeof *cache);
    if (!placement || !cache) return TPERF_NO_MEMORY;
    const tperf_grid *grid = tperf_builder_grid(builder);
    const int64_t sizes[TPERF_AXES_MAX] = {1, d->pp, d->tp};
    int64_t kv_heads = model->kv_heads > d->tp ? model->kv_heads / d->tp : 1;
    place(TPERF_SERVES, grid, sizes, on->system->network.fast.domain, placement->fast);
    placement->panels = 1;
    inference->scratch = tperf_builder_room(builder, tperf_inference_scratch_size(inference));
    if (!inference->scratch) return TPERF_NO_MEMORY;
    cache->token_bytes = 2.0 * BYTES * (double)(kv_heads * model->head_dim);
    inference->placements = placement;
    inference->n_placements = 1;
    inference->caches = cache;
    inference->n_caches = 1;
    return TPERF_OK;
}

tperf_status tperf_transformer_serve(tperf_builder *builder, const tperf_transformer *model,
                                     const tperf_deployment *deployment, const tperf_platform *on,
                                     tperf_inference *inference, tperf_error *error) {
    const tperf_deployment *d = deployment;
    TPERF_TRY(tperf_record_check(&tperf_deployment_record, d, error));
    if (d->prefill_batch > d->batch)
        return tperf_error_set(error, TPERF_INVALID,
                               "prefill_batch = %lld is more than batch = %lld",
                               (long long)d->prefill_batch, (long long)d->batch);
    int64_t microbatches = d->pp < d->batch ? d->pp : d->batch;
    int64_t samples = (d->batch + microbatches - 1) / microbatches;
    const tperf_run run = tperf_transformer_run(model);
    const tperf_model_layers layers = {&run, 1, true};
    const tperf_share prompts = {TPERF_PHASE_PREFILL, d->tp, d->prefill_batch, d->prompt, false};
    const tperf_share single = {TPERF_PHASE_DECODE, d->tp, 1, 1, false};
    *inference = (tperf_inference){.on = *on,
                                   .batch = d->batch,
                                   .prefill_batch = d->prefill_batch,
                                   .micro_batch = samples,
                                   .microbatches = microbatches,
                                   .prompt = d->prompt,
                                   .generate = d->generate,
                                   .reserved = d->reserved};
    if (!(inference->prefill = tperf_transformer_workload(builder, model, &prompts, error)) ||
        !(inference->single = tperf_transformer_workload(builder, model, &single, error)) ||
        (d->generate > 1 &&
         !(inference->decode = lay_out_steps(builder, model, d, samples, error))) ||
        !(inference->pipeline = tperf_build_1f1b(builder, &layers, d->pp, error)))
        return TPERF_INVALID;
    TPERF_TRY(tperf_workload_check_system(inference->prefill, on->system, error));
    if (set_memory(builder, model, d, on, inference) == TPERF_OK) return TPERF_OK;
    return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for a deployment");
}
