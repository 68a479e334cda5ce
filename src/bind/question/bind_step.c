// bind_step.c: candidate:tasks(stages): the tasks of its step in a schedule of so many stages, see tperf/step.h, as
//   { chunks = for each stage { list = number, layer = its first layer }, forward =, backward =, backward_input =,
//     backward_weight = lists of tasks by number, before =, after = lists of tasks by device, optimizer = tasks }
// and a task as { kind =, resources = names, when = "first" or "last", beside =, again =, section =,
// layer = of its chunk, from 0, op =, block =, collective =, axis =, bytes =, fast_bytes =, nic_bytes =,
// tiers = of a network of more than two a list of { name =, bytes = }, seconds =, start =, stop = }
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/question/candidate.h"
#include "tperf/step.h"

static const char type_name[] = "tperf.step";

enum { MOST_LAYERS = 1 << 20 };

// Released even after a Lua error.
typedef struct box {
    tperf_heap heap;
    tperf_step step;
    tperf_task_list list;
} box;

static int release(lua_State *L) {
    box *b = luaL_checkudata(L, 1, type_name);
    tperf_step_release(&b->step);
    tperf_task_list_release(&b->list);
    return 0;
}

static void set_text(lua_State *L, const char *name, const char *text) {
    lua_pushstring(L, text);
    lua_setfield(L, -2, name);
}

static void set_flag(lua_State *L, const char *name, bool value) {
    if (!value) return;
    lua_pushboolean(L, true);
    lua_setfield(L, -2, name);
}

static void push_resources(lua_State *L, unsigned resources) {
    lua_createtable(L, 2, 0);
    for (int r = 0; r < TPERF_RESOURCE_COUNT; r++) {
        if (!(resources >> r & 1)) continue;
        lua_pushstring(L, tperf_resource_names[r]);
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
}

// The name of the block of a task's op.
static const char *block_of(const tperf_task *task, const tperf_workload *workload) {
    size_t i = tperf_section_begin(workload, task->section);
    while (workload->ops[i] != task->op)
        i++;
    return tperf_workload_block(workload, i);
}

// Sets the tiers that a task's bytes pass, if there are more than two.
static void push_tiers(lua_State *L, const tperf_task *task, const tperf_system *system) {
    if (system->network.n_tiers == 0) return;
    tperf_tier_use uses[TPERF_TIERS_MAX];
    int n = tperf_tiers_passed(system, task->fast_bytes, task->nic_bytes, task->up_bytes, uses);
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_createtable(L, 0, 2);
        set_text(L, "name", uses[i].name);
        tperf_fields_set(L, "bytes", uses[i].bytes);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "tiers");
}

static void push_task(lua_State *L, const tperf_task *task, const tperf_plan *plan) {
    lua_createtable(L, 0, 14);
    set_text(L, "kind", tperf_task_names[task->kind]);
    push_resources(L, task->resources);
    lua_setfield(L, -2, "resources");
    if (task->when != TPERF_EVERY_TIME)
        set_text(L, "when", task->when == TPERF_FIRST_TIME ? "first" : "last");
    set_flag(L, "beside", task->beside);
    set_flag(L, "again", task->again);
    if (task->section >= 0) {
        lua_pushinteger(L, task->section + 1);
        lua_setfield(L, -2, "section");
    }
    if (task->layer >= 0) {
        lua_pushinteger(L, task->layer);
        lua_setfield(L, -2, "layer");
    }
    if (task->op) {
        set_text(L, "op", task->op->name);
        set_text(L, "block", block_of(task, plan->workload));
    }
    if (task->comm) {
        set_text(L, "collective", tperf_collective_names[task->comm->kind]);
        set_text(L, "axis", task->comm->axis);
    }
    if (task->comm || task->kind == TPERF_TASK_OFFLOAD) tperf_fields_set(L, "bytes", task->bytes);
    tperf_fields_set(L, "fast_bytes", task->fast_bytes);
    tperf_fields_set(L, "nic_bytes", task->nic_bytes);
    push_tiers(L, task, plan->job->on.system);
    tperf_fields_set(L, "seconds", task->seconds);
    tperf_fields_set(L, "start", task->start);
    tperf_fields_set(L, "stop", task->stop);
}

// Pushes the tasks of the box's list, and empties it.
static void push_list(lua_State *L, box *b) {
    lua_createtable(L, 0, 1);
    for (size_t i = 0; i < b->list.n; i++) {
        push_task(L, &b->list.tasks[i], &b->step.plan);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    tperf_fields_set(L, "length", b->list.length);
    tperf_task_list_release(&b->list);
}

// Pushes the kinds of all layers.
static int *push_kinds(lua_State *L, const tperf_model_layers *model) {
    int64_t layers = 0;
    for (size_t i = 0; i < model->n_runs; i++)
        layers += model->runs[i].layers;
    if (layers > MOST_LAYERS) tperf_bind_fail(L, "a model of more than %d layers", MOST_LAYERS);
    int *kinds = lua_newuserdatauv(L, (size_t)layers * sizeof *kinds, 0), *next = kinds;
    for (size_t i = 0; i < model->n_runs; i++)
        for (int64_t l = 0; l < model->runs[i].layers; l++)
            *next++ = model->runs[i].kind;
    return kinds;
}

static bool same_chunk(const tperf_chunk *a, const tperf_chunk *b) {
    return a->n_layers == b->n_layers && a->leads == b->leads && a->enters == b->enters &&
           a->leaves == b->leaves && a->stage.first == b->stage.first &&
           a->stage.last == b->stage.last &&
           memcmp(a->kinds, b->kinds, (size_t)a->n_layers * sizeof *a->kinds) == 0;
}

// Adds the tasks of all passes of a chunk as item `number` of the lists of the table at `at`.
static void add_lists(lua_State *L, box *b, const tperf_chunk *chunk, int at, lua_Integer number) {
    static const char *const names[TPERF_PASS_COUNT] = {"forward", "backward", "backward_input",
                                                        "backward_weight"};
    for (int pass = 0; pass < TPERF_PASS_COUNT; pass++) {
        tperf_error error;
        tperf_status status;
        bool tried = false;
        do
            status = tperf_step_pass(&b->step, chunk, (tperf_pass_kind)pass, &b->list, &error);
        while (tperf_bind_try_again(L, status, &tried));
        if (status != TPERF_OK) tperf_bind_raise(L, &error);
        lua_getfield(L, at, names[pass]);
        push_list(L, b);
        lua_rawseti(L, -2, number);
        lua_pop(L, 1);
    }
}

static void add_chunks(lua_State *L, box *b, tperf_chunk *chunks, int64_t n, int at) {
    static const char *const lists[] = {"chunks", "forward", "backward", "backward_input",
                                        "backward_weight"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        lua_newtable(L);
        lua_setfield(L, at, lists[i]);
    }
    int64_t *first = lua_newuserdatauv(L, (size_t)n * sizeof *first, 0); // chunks with lists
    lua_Integer known = 0;
    int64_t layer = 0;
    for (int64_t c = 0; c < n; layer += chunks[c++].n_layers) {
        lua_Integer number = 0;
        while (number < known && !same_chunk(&chunks[first[number]], &chunks[c]))
            number++;
        if (number == known) {
            first[known++] = c;
            add_lists(L, b, &chunks[c], at, known);
        }
        lua_getfield(L, at, "chunks");
        lua_createtable(L, 0, 2);
        lua_pushinteger(L, number + 1);
        lua_setfield(L, -2, "list");
        lua_pushinteger(L, layer + 1);
        lua_setfield(L, -2, "layer");
        lua_rawseti(L, -2, c + 1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

typedef tperf_status (*writes)(const tperf_step *, const tperf_device *, tperf_task_list *,
                               tperf_error *);

// Pushes a device's list.
static void push_device(lua_State *L, box *b, writes write, const tperf_device *device) {
    tperf_error error;
    tperf_status status;
    bool tried = false;
    do
        status = write(&b->step, device, &b->list, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) tperf_bind_raise(L, &error);
    push_list(L, b);
}

// Whether two devices' stages have the same layers and ends.
static bool same_contents(const tperf_stage *a, const tperf_stage *b) {
    return a->first == b->first && a->last == b->last &&
           memcmp(a->layers, b->layers, sizeof a->layers) == 0;
}

// Adds the list `name` by device: neighbours with equal contents share one. chunks[n]: of all devices.
static void add_devices(lua_State *L, box *b, const tperf_chunk *chunks, int64_t n, int at) {
    static const struct {
        const char *name;
        writes write;
    } lists[] = {{"before", tperf_step_before}, {"after", tperf_step_after}};
    const tperf_pipeline *pipeline = b->step.plan.candidate->pipeline;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        int64_t number = 0;
        lua_newtable(L);
        for (size_t i = 0; i < pipeline->n_devices; i++) {
            tperf_device device = {.stage = &pipeline->devices[i]};
            for (int64_t r = 0; r < device.stage->repeats; r++) {
                const tperf_stage *before = device.first;
                device.first = number < n ? &chunks[number].stage : device.stage;
                bool same = before && same_contents(before, device.first);
                if (same)
                    lua_rawgeti(L, -1, number);
                else
                    push_device(L, b, lists[l].write, &device);
                lua_rawseti(L, -2, ++number);
            }
        }
        lua_setfield(L, at, lists[l].name);
    }
}

static void add_optimizer(lua_State *L, box *b, int at) {
    tperf_error error;
    tperf_status status;
    bool tried = false;
    do
        status = tperf_step_optimizer(&b->step, &b->list, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) tperf_bind_raise(L, &error);
    push_list(L, b);
    lua_setfield(L, at, "optimizer");
}

static tperf_chunk *push_chunks(lua_State *L, const tperf_pipeline *pipeline, int64_t n) {
    const tperf_model_layers *layers =
        tperf_bind_pipeline_layers(L, tperf_bind_push_pipelines(L, 1));
    luaL_argcheck(L, tperf_may_split(layers, n), 2, "no stage may be without layers");
    int *kinds = push_kinds(L, layers);
    tperf_stage *stages = lua_newuserdatauv(L, (size_t)n * sizeof *stages, 0);
    tperf_pipeline_chunks(pipeline, layers, n, stages);
    tperf_chunk *chunks = lua_newuserdatauv(L, (size_t)n * sizeof *chunks, 0);
    for (int64_t c = 0; c < n; c++) {
        chunks[c] = (tperf_chunk){.stage = stages[c],
                                  .kinds = kinds,
                                  .leads = c < pipeline->pp,
                                  .enters = c == 0,
                                  .leaves = c == n - 1};
        for (int kind = 0; kind < TPERF_KINDS_MAX; kind++)
            chunks[c].n_layers += stages[c].layers[kind];
        for (int64_t i = 0; i < chunks[c].n_layers; i++)
            kinds[i] = tperf_picked_kind(&pipeline->picked, kinds[i], i);
        kinds += chunks[c].n_layers;
    }
    return chunks;
}

int tperf_bind_candidate_tasks(lua_State *L) {
    tperf_error error;
    tperf_layer_cost costs[TPERF_SECTIONS_MAX];
    const tperf_plan plan = tperf_bind_plan(L, costs);
    int64_t n = luaL_checkinteger(L, 2);
    tperf_chunk *chunks = push_chunks(L, plan.candidate->pipeline, n);
    box *b = tperf_bind_new(L, sizeof *b, type_name, release);
    b->heap = tperf_bind_heap(L);
    tperf_status status;
    bool tried = false;
    do
        status = tperf_step_init(&b->step, &b->heap, &plan, &error);
    while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) return tperf_bind_raise(L, &error);
    lua_createtable(L, 0, 8);
    int at = lua_gettop(L);
    luaL_checkstack(L, 16, NULL);
    add_chunks(L, b, chunks, n, at);
    add_devices(L, b, chunks, n, at);
    add_optimizer(L, b, at);
    tperf_step_release(&b->step);
    return 1;
}
