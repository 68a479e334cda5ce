// build.c: see tperf/build.h.
#include "tperf/build.h"

#include <stddef.h>
#include <string.h>

// Memory of a builder, in a list.
typedef struct room {
    struct room *next;
    _Alignas(max_align_t) char bytes[];
} room;

typedef struct pipelines {
    struct pipelines *next;
    tperf_pipeline one;
} pipelines;

struct tperf_builder {
    const tperf_heap *heap;
    tperf_grid grid;
    room *rooms;
    pipelines *pipelines;
    uint64_t last_id;
};

tperf_builder *tperf_builder_new(const tperf_heap *heap, const tperf_grid *grid) {
    if (!heap) heap = &tperf_heap_standard;
    tperf_builder *builder = tperf_heap_zeroed(heap, 1, sizeof *builder);
    if (!builder) return NULL;
    builder->heap = heap;
    builder->grid = *grid;
    return builder;
}

void tperf_builder_free(tperf_builder *builder) {
    if (!builder) return;
    for (pipelines *p = builder->pipelines; p; p = p->next)
        tperf_pipeline_release(&p->one);
    for (room *one = builder->rooms, *next; one; one = next) {
        next = one->next;
        tperf_heap_free(one);
    }
    tperf_heap_free(builder);
}

const tperf_grid *tperf_builder_grid(const tperf_builder *builder) {
    return &builder->grid;
}

void *tperf_builder_room(tperf_builder *builder, size_t size) {
    if (size > SIZE_MAX / 4) return NULL;
    room *one = tperf_heap_zeroed(builder->heap, 1, sizeof *one + size);
    if (!one) return NULL;
    one->next = builder->rooms;
    builder->rooms = one;
    return one->bytes;
}

static void *fail_memory(tperf_error *error) {
    tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for a workload");
    return NULL;
}

static tperf_status check_sizes(const tperf_grid *grid, const int64_t *sizes, tperf_error *error) {
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++) {
        bool shards = grid->axes[i].cuts == TPERF_CUTS_STATE; // 0: over all replicas
        if (sizes[i] < (shards ? 0 : 1))
            return tperf_error_set(error, TPERF_INVALID, "'%s' must be at least %d, got %lld",
                                   grid->axes[i].name, shards ? 0 : 1, (long long)sizes[i]);
    }
    return TPERF_OK;
}

// The sizes of the own axes; 1 for the others.
static void set_sizes(const tperf_grid *grid, const int64_t *sizes, int64_t *out) {
    for (int i = 0; i < TPERF_AXES_MAX; i++)
        out[i] = i >= TPERF_AXIS_OWN && i < grid->n ? sizes[i] : 1;
}

const tperf_block *tperf_build_block(tperf_builder *builder, const int64_t *sizes, const char *name,
                                     const tperf_op *ops, size_t n, tperf_error *error) {
    if (check_sizes(&builder->grid, sizes, error) != TPERF_OK) return NULL;
    if (strlen(name) >= TPERF_NAME_MAX) {
        tperf_error_set(error, TPERF_INVALID, "the block name '%s' is longer than %d bytes", name,
                        TPERF_NAME_MAX - 1);
        return NULL;
    }
    tperf_block *block = tperf_builder_room(builder, sizeof *block);
    tperf_op *own = tperf_builder_room(builder, n * sizeof *own);
    const tperf_op **list = tperf_builder_room(builder, n * sizeof *list);
    if (!block || !own || !list) return fail_memory(error);
    *block = (tperf_block){.id = ++builder->last_id, .grid = &builder->grid, .n = n, .ops = list};
    set_sizes(&builder->grid, sizes, block->sizes);
    strcpy(block->name, name);
    for (size_t i = 0; i < n; i++) {
        own[i] = ops[i];
        list[i] = &own[i];
        if (tperf_op_validate(&own[i], error) != TPERF_OK ||
            tperf_block_join(block, &own[i], error) != TPERF_OK)
            return NULL;
    }
    block->bytes = tperf_block_bytes_of(list, n);
    return block;
}

// Counts the ops and blocks of the sections; false: they are none of a workload.
static bool count(const tperf_sections *sections, size_t *n_ops, size_t *n_parts) {
    *n_ops = *n_parts = 0;
    if (sections->n_kinds < 1 || sections->n_kinds > TPERF_KINDS_MAX) return false;
    for (int s = 0; s < sections->n_kinds + 2; s++) {
        const tperf_section *section = &sections->of[s];
        if (section->n > TPERF_SECTION_BLOCKS_MAX) return false;
        for (size_t i = 0; i < section->n; i++)
            *n_ops += section->blocks[i]->n;
        *n_parts += section->n;
    }
    return true;
}

const tperf_workload *tperf_build_workload(tperf_builder *builder, const tperf_sections *sections,
                                           tperf_error *error) {
    const tperf_grid *grid = &builder->grid;
    int64_t sizes[TPERF_AXES_MAX];
    size_t n_ops, n_parts;
    if (check_sizes(grid, sections->sizes, error) != TPERF_OK) return NULL;
    if (!count(sections, &n_ops, &n_parts)) {
        tperf_error_set(
            error, TPERF_INVALID,
            "a workload has 1 to %d kinds of layers and up to %d blocks in each section",
            TPERF_KINDS_MAX, TPERF_SECTION_BLOCKS_MAX);
        return NULL;
    }
    set_sizes(grid, sections->sizes, sizes);
    void *place = tperf_builder_room(builder, tperf_workload_size(n_ops, n_parts));
    if (!place) return fail_memory(error);
    tperf_workload *workload = tperf_workload_new(place, grid, sizes, sections->n_kinds, n_ops);
    workload->boundary_bytes = sections->boundary_bytes;
    for (int s = 0; s < sections->n_kinds + 2; s++) {
        for (size_t i = 0; i < sections->of[s].n; i++) {
            const tperf_block *block = sections->of[s].blocks[i];
            if (tperf_block_check(block, grid, sizes, error) != TPERF_OK) return NULL;
            tperf_workload_add(workload, block, NULL);
        }
        tperf_workload_end(workload, s);
    }
    return workload;
}

const tperf_pipeline *tperf_build_1f1b(tperf_builder *builder, const tperf_model_layers *layers,
                                       int64_t pp, tperf_error *error) {
    if (pp < 1 || pp > TPERF_STAGES_MAX || !tperf_may_split(layers, pp)) {
        tperf_error_set(error, TPERF_INVALID, "%lld stages cannot share the layers", (long long)pp);
        return NULL;
    }
    pipelines *made = tperf_builder_room(builder, sizeof *made);
    double *in_flight = tperf_builder_room(builder, (size_t)pp * sizeof *in_flight);
    if (!made || !in_flight) return fail_memory(error);
    for (int64_t d = 0; d < pp; d++)
        in_flight[d] = (double)(pp - d);
    made->one = (tperf_pipeline){
        .pp = pp,
        .virtual_stages = 1,
        .schedule = 1,
        .bubble_forward = (double)(pp - 1),
        .bubble_backward = (double)(pp - 1),
        .min_microbatches = 1,
        .microbatch_multiple = 1,
        .weight_copies = 1,
        .placed = true,
        .last_in_flight = 1,
    };
    made->next = builder->pipelines; // released with the builder, whatever it lacks
    builder->pipelines = made;
    tperf_status status = tperf_pipeline_split(&made->one, builder->heap, layers, in_flight, error);
    return status == TPERF_OK ? &made->one : NULL;
}

static bool make_lists(tperf_builder *builder, tperf_decode *decode, int n) {
    size_t count = (size_t)n;
    decode->n = n;
    decode->keys = tperf_builder_room(builder, count * sizeof *decode->keys);
    decode->workloads = tperf_builder_room(builder, count * sizeof *decode->workloads);
    decode->forms = tperf_builder_room(builder, count * sizeof *decode->forms);
    decode->form_of = tperf_builder_room(builder, count * sizeof *decode->form_of);
    return decode->keys && decode->workloads && decode->forms && decode->form_of;
}

const tperf_decode *tperf_build_decode(tperf_builder *builder, int n, const double *keys,
                                       const tperf_workload *const *workloads, tperf_error *error) {
    if (n < 1 || n > TPERF_LENGTHS_MAX) {
        tperf_error_set(error, TPERF_INVALID, "a decode has 1 to %d numbers of keys, got %d",
                        TPERF_LENGTHS_MAX, n);
        return NULL;
    }
    tperf_decode *decode = tperf_builder_room(builder, sizeof *decode);
    if (!decode || !make_lists(builder, decode, n)) return fail_memory(error);
    for (int i = 0; i < n; i++) {
        decode->keys[i] = keys[i];
        decode->workloads[i] = workloads[i];
        if (i > 0 && !(keys[i] > keys[i - 1])) {
            tperf_error_set(error, TPERF_INVALID, "a decode's numbers of keys must ascend");
            return NULL;
        }
    }
    size_t varying;
    if (tperf_decode_find_forms(decode, &varying, error) != TPERF_OK) return NULL;
    tperf_varying *list = tperf_builder_room(builder, (varying + 1) * sizeof *list);
    if (!list) return fail_memory(error);
    tperf_decode_compare(decode, list);
    return decode;
}
