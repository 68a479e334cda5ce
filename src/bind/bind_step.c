// bind_step.c: network:tasks(system, rules, training, pipelines, run, fast, software, stages): the tasks of a step, see
// tperf/step.h, as
//   { chunks = for each stage { list = number, layer = its first layer }, forward =, backward =, backward_input =,
//     backward_weight = lists of tasks by number, before =, after = lists of tasks by device, optimizer = tasks }
// and a task as { kind =, resources = names, when = "first" or "last", beside =, again =, section =, layer = of its chunk,
// from 0, op =, block =, collective =, axis =, bytes =, fast_bytes =, nic_bytes =, seconds =, start =, stop = }
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "bind/setting.h"
#include "tperf/step.h"

static const char type_name[] = "tperf.step";

enum { MOST_LAYERS = 1 << 20 };

// What must be released whatever happens in Lua.
typedef struct box {
    tp_heap heap;
    tp_step step;
    tp_task_list list;
} box;

static int release(lua_State *L) {
    box *b = luaL_checkudata(L, 1, type_name);
    tp_step_release(&b->step);
    tp_task_list_release(&b->list);
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
    for (int r = 0; r < TP_RESOURCE_COUNT; r++) {
        if (!(resources >> r & 1)) continue;
        lua_pushstring(L, tp_resource_names[r]);
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
}

static void push_task(lua_State *L, const tp_task *task) {
    lua_createtable(L, 0, 14);
    set_text(L, "kind", tp_task_names[task->kind]);
    push_resources(L, task->resources);
    lua_setfield(L, -2, "resources");
    if (task->when != TP_EVERY_TIME)
        set_text(L, "when", task->when == TP_FIRST_TIME ? "first" : "last");
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
        set_text(L, "block", task->op->block);
    }
    if (task->comm) {
        set_text(L, "collective", tp_collective_names[task->comm->kind]);
        set_text(L, "axis", task->comm->axis);
    }
    if (task->comm || task->kind == TP_TASK_OFFLOAD) tp_fields_set(L, "bytes", task->bytes);
    tp_fields_set(L, "fast_bytes", task->fast_bytes);
    tp_fields_set(L, "nic_bytes", task->nic_bytes);
    tp_fields_set(L, "seconds", task->seconds);
    tp_fields_set(L, "start", task->start);
    tp_fields_set(L, "stop", task->stop);
}

// Pushes the tasks of the box's list, which is empty then.
static void push_list(lua_State *L, box *b) {
    lua_createtable(L, 0, 1);
    for (size_t i = 0; i < b->list.n; i++) {
        push_task(L, &b->list.tasks[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    tp_fields_set(L, "length", b->list.length);
    tp_task_list_release(&b->list);
}

static int64_t count_layers(const tp_run *runs, size_t n_runs) {
    int64_t layers = 0;
    for (size_t i = 0; i < n_runs; i++)
        layers += runs[i].layers;
    return layers;
}

// Pushes the kinds of all layers.
static int *push_kinds(lua_State *L, const tp_run *runs, size_t n_runs, int64_t layers) {
    int *kinds = lua_newuserdatauv(L, (size_t)layers * sizeof *kinds, 0), *next = kinds;
    for (size_t i = 0; i < n_runs; i++)
        for (int64_t l = 0; l < runs[i].layers; l++)
            *next++ = runs[i].kind;
    return kinds;
}

static bool same_chunk(const tp_chunk *a, const tp_chunk *b) {
    return a->n_layers == b->n_layers && a->leads == b->leads && a->stage.first == b->stage.first &&
           a->stage.last == b->stage.last &&
           memcmp(a->kinds, b->kinds, (size_t)a->n_layers * sizeof *a->kinds) == 0;
}

// Tasks of all passes of a chunk as item `number` of the lists of the table at `at`.
static void add_lists(lua_State *L, box *b, const tp_chunk *chunk, int at, lua_Integer number) {
    static const char *const names[TP_PASS_COUNT] = {"forward", "backward", "backward_input",
                                                     "backward_weight"};
    for (int pass = 0; pass < TP_PASS_COUNT; pass++) {
        tp_error error;
        tp_status status;
        bool tried = false;
        do
            status = tp_step_pass(&b->step, chunk, (tp_pass_kind)pass, &b->list, &error);
        while (tp_bind_try_again(L, status, &tried));
        if (status != TP_OK) tp_bind_raise(L, &error);
        lua_getfield(L, at, names[pass]);
        push_list(L, b);
        lua_rawseti(L, -2, number);
        lua_pop(L, 1);
    }
}

static void add_chunks(lua_State *L, box *b, tp_chunk *chunks, int64_t n, int at) {
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

typedef tp_status (*writes)(const tp_step *, const tp_stage *, tp_task_list *, tp_error *);

// The list `name` by device: devices that hold the same share one.
static void add_devices(lua_State *L, box *b, const char *name, writes write, int at) {
    const tp_pipeline *pipeline = b->step.candidate->pipeline;
    lua_Integer device = 0;
    lua_newtable(L);
    for (size_t i = 0; i < pipeline->n_devices; i++) {
        tp_error error;
        tp_status status;
        bool tried = false;
        do
            status = write(&b->step, &pipeline->devices[i], &b->list, &error);
        while (tp_bind_try_again(L, status, &tried));
        if (status != TP_OK) tp_bind_raise(L, &error);
        push_list(L, b);
        for (int64_t r = 0; r < pipeline->devices[i].repeats; r++) {
            lua_pushvalue(L, -1);
            lua_rawseti(L, -3, ++device);
        }
        lua_pop(L, 1);
    }
    lua_setfield(L, at, name);
}

static void add_optimizer(lua_State *L, box *b, int at) {
    tp_error error;
    tp_status status;
    bool tried = false;
    do
        status = tp_step_optimizer(&b->step, &b->list, &error);
    while (tp_bind_try_again(L, status, &tried));
    if (status != TP_OK) tp_bind_raise(L, &error);
    push_list(L, b);
    lua_setfield(L, at, "optimizer");
}

static tp_chunk *push_chunks(lua_State *L, const tp_pipeline *pipeline, int64_t n) {
    size_t n_runs;
    bool has_ends;
    const tp_run *runs = tp_bind_pipeline_runs(L, 5, &n_runs, &has_ends);
    int64_t layers = count_layers(runs, n_runs);
    luaL_argcheck(L, n >= 1 && n <= layers + (has_ends && n > 2 ? 2 : 0), 9,
                  "no stage may be without layers");
    if (layers > MOST_LAYERS) tp_bind_fail(L, "a model of more than %d layers", MOST_LAYERS);
    int *kinds = push_kinds(L, runs, n_runs, layers);
    tp_stage *stages = lua_newuserdatauv(L, (size_t)n * sizeof *stages, 0);
    tp_pipeline_chunks(pipeline, runs, n_runs, has_ends, n, stages);
    tp_chunk *chunks = lua_newuserdatauv(L, (size_t)n * sizeof *chunks, 0);
    for (int64_t c = 0; c < n; c++) {
        chunks[c] = (tp_chunk){.stage = stages[c], .kinds = kinds, .leads = c < pipeline->pp};
        for (int kind = 0; kind < TP_KINDS_MAX; kind++)
            chunks[c].n_layers += stages[c].layers[kind];
        for (int64_t i = 0; i < chunks[c].n_layers; i++)
            kinds[i] = tp_picked_kind(&pipeline->picked, kinds[i], i);
        kinds += chunks[c].n_layers;
    }
    return chunks;
}

static int network_tasks(lua_State *L) {
    tp_setting s;
    tp_error error;
    tp_layer_cost costs[TP_SECTIONS_MAX];
    const tp_network *network = tp_bind_read_setting(L, &s);
    int64_t n = luaL_checkinteger(L, 9);
    if (tp_network_check_system(network, &s.system, &error) != TP_OK)
        return tp_bind_raise(L, &error);
    tp_network_time(network, &s.job.on, &s.candidate.placement, NULL, costs);
    tp_chunk *chunks = push_chunks(L, s.candidate.pipeline, n);
    box *b = tp_bind_new(L, sizeof *b, type_name, release);
    b->heap = tp_bind_heap(L);
    tp_status status;
    bool tried = false;
    do
        status = tp_step_init(&b->step, &b->heap, &s.candidate, &s.job, network, costs, &error);
    while (tp_bind_try_again(L, status, &tried));
    if (status != TP_OK) return tp_bind_raise(L, &error);
    lua_createtable(L, 0, 8);
    int at = lua_gettop(L);
    luaL_checkstack(L, 16, NULL);
    add_chunks(L, b, chunks, n, at);
    add_devices(L, b, "before", tp_step_before, at);
    add_devices(L, b, "after", tp_step_after, at);
    add_optimizer(L, b, at);
    tp_step_release(&b->step);
    return 1;
}

void tp_bind_step(lua_State *L) {
    lua_pushcfunction(L, network_tasks);
    lua_setfield(L, -2, "tasks");
}
