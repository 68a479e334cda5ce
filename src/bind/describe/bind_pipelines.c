// bind_pipelines.c: tperf.core.pipelines(runs, has_ends, list, picked, work, most) -> pipelines, unequal
//   pipelines: for a search or one iteration
//   runs: list of { kind, layers }: the model's layers in order, kind = a section of its workloads
//   list: of tables with the fields of TPERF_PIPELINE (tperf/plan.h), layers (a list, or nil) and in_flight (a list of
//     pp numbers)
//   picked: nil, or { first, every }: the layers of a chunk that are of twin kinds, see tperf/plan.h
//   work: nil, or the work of a layer of each kind, in any unit: `unequal` is then a list of whether a pipeline's longest
//     chunk takes longer than if all layers were alike, by more than `most` of the chunks' mean; such pipelines are open
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"

static const char type_name[] = "tperf.pipelines";

enum { LAYERS_MAX = TPERF_STAGES_MAX }; // in a run

// Its user value keeps the runs alive.
typedef struct pipelines {
    tperf_heap heap;
    tperf_model_layers layers;
    size_t n;
    int kinds; // kinds of layers that a workload must have
    tperf_picked picked;
    tperf_pipeline list[];
} pipelines;

const tperf_pipeline *tperf_bind_check_pipelines(lua_State *L, int index, size_t *n) {
    const pipelines *p = luaL_checkudata(L, index, type_name);
    *n = p->n;
    return p->list;
}

void tperf_bind_check_kinds(lua_State *L, int index, const tperf_workload *workload) {
    const pipelines *p = luaL_checkudata(L, index, type_name);
    if (p->kinds > workload->n_kinds)
        tperf_bind_fail(L, "the pipelines have %d kinds of layers, the workload has %d", p->kinds,
                        workload->n_kinds);
}

const tperf_model_layers *tperf_bind_pipeline_layers(lua_State *L, int index) {
    const pipelines *p = luaL_checkudata(L, index, type_name);
    return &p->layers;
}

static int release(lua_State *L) {
    pipelines *p = luaL_checkudata(L, 1, type_name);
    for (size_t i = 0; i < p->n; i++)
        tperf_pipeline_release(&p->list[i]);
    return 0;
}

// Pushes a list of numbers as an array.
static double *push_numbers(lua_State *L, int index, size_t n) {
    if (tperf_bind_length(L, index, "'in_flight'") != n)
        tperf_bind_fail(L, "'in_flight' needs %d numbers", (int)n);
    double *numbers = lua_newuserdatauv(L, n * sizeof *numbers, 0);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        numbers[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    return numbers;
}

// *kinds: the number of the last kind of layer
static tperf_run *push_runs(lua_State *L, int index, size_t *n, int *kinds) {
    *n = tperf_bind_push_list(L, index, "the runs of layers");
    int list = lua_gettop(L);
    tperf_run *runs = lua_newuserdatauv(L, (*n + 1) * sizeof *runs, 0);
    for (size_t i = 0; i < *n; i++) {
        int64_t run[2] = {0};
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        tperf_bind_check_sizes(L, -1, run, 2);
        if (run[0] < 1 || run[0] > TPERF_KINDS_MAX || run[1] < 1 || run[1] > LAYERS_MAX)
            tperf_bind_fail(L, "a run of layers needs a kind from 1 to %d and 1 to %d layers",
                            TPERF_KINDS_MAX, LAYERS_MAX);
        runs[i] = (tperf_run){(int)run[0] - 1, run[1]};
        if (run[0] > *kinds) *kinds = (int)run[0];
        lua_pop(L, 1);
    }
    lua_remove(L, list);
    return runs;
}

static const char *const lists[] = {"in_flight", "layers"};

// Pushes a copy of the table at `at` without its lists, leaving plain fields, and then the lists.
static void push_plain(lua_State *L, int at) {
    lua_newtable(L);
    lua_pushnil(L);
    while (lua_next(L, at)) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, at + 1);
    }
    for (int i = 0; i < 2; i++) {
        tperf_bind_raw_field(L, at + 1, lists[i]);
        lua_pushnil(L);
        lua_setfield(L, at + 1, lists[i]);
    }
}

// Allocates the layers of every stage from the list at index. NULL: out of memory, or no list.
static int64_t *read_chunk_layers(lua_State *L, int index, const tperf_heap *heap, int64_t n) {
    if (lua_isnil(L, index)) return NULL;
    if ((int64_t)tperf_bind_length(L, index, "'layers'") != n)
        tperf_bind_fail(L, "'layers' needs %d numbers", (int)n);
    for (int64_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, i + 1);
        lua_Integer layers = luaL_checkinteger(L, -1);
        if (layers < 0 || layers > LAYERS_MAX) tperf_bind_fail(L, "no stage has %I layers", layers);
        lua_pop(L, 1);
    }
    int64_t *dealt = tperf_heap_new(heap, (size_t)n, sizeof *dealt);
    for (int64_t i = 0; dealt && i < n; i++) {
        lua_rawgeti(L, index, i + 1);
        dealt[i] = lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    return dealt;
}

// Fills the pipeline from the table at the top of the stack.
static void read_pipeline(lua_State *L, const pipelines *all, tperf_pipeline *pipeline) {
    int at = lua_gettop(L);
    push_plain(L, at);
    tperf_record_read(L, at + 1, &tperf_pipeline_record, pipeline);
    if (pipeline->virtual_stages > TPERF_STAGES_MAX / pipeline->pp)
        tperf_bind_fail(L, "a pipeline of more than %d stages", TPERF_STAGES_MAX);
    pipeline->picked = all->picked;
    const double *in_flight = push_numbers(L, at + 2, (size_t)pipeline->pp);
    tperf_error error;
    tperf_status status;
    bool tried = false;
    do {
        tperf_pipeline_release(pipeline);
        pipeline->chunk_layers =
            read_chunk_layers(L, at + 3, &all->heap, pipeline->pp * pipeline->virtual_stages);
        if (!pipeline->chunk_layers && !lua_isnil(L, at + 3))
            status = tperf_error_set(&error, TPERF_NO_MEMORY, "not enough memory for a pipeline");
        else
            status = tperf_pipeline_split(pipeline, &all->heap, &all->layers, in_flight, &error);
    } while (tperf_bind_try_again(L, status, &tried));
    if (status != TPERF_OK) tperf_bind_raise(L, &error);
    lua_settop(L, at);
}

// The layers that use twin kinds, offset by `kinds`.
static tperf_picked read_picked(lua_State *L, int index, int kinds) {
    if (lua_isnil(L, index)) return (tperf_picked){0};
    tperf_picked picked = {.twin = kinds};
    luaL_checktype(L, index, LUA_TTABLE);
    tperf_bind_raw_field(L, index, "first");
    tperf_bind_raw_field(L, index, "every");
    picked.first = luaL_optinteger(L, -2, 0);
    picked.every = luaL_optinteger(L, -1, 0);
    lua_pop(L, 2);
    return picked;
}

// How long a layer of each kind takes, from the list at index; false: there is none.
static bool read_work(lua_State *L, int index, int kinds, double *work) {
    if (lua_isnoneornil(L, index)) return false;
    if (tperf_bind_length(L, index, "the work") < (size_t)kinds)
        tperf_bind_fail(L, "every kind of layer needs its work");
    for (int i = 0; i < kinds; i++) {
        lua_rawgeti(L, index, i + 1);
        work[i] = luaL_checknumber(L, -1);
        lua_pop(L, 1);
    }
    return true;
}

// Marks pipelines of several chunks a device that kinds of layers make more uneven by `most`, and pushes a list of whether
// each is.
static void push_unequal(lua_State *L, pipelines *p, const double *work, double most) {
    double alike[TPERF_KINDS_MAX];
    for (int i = 0; i < TPERF_KINDS_MAX; i++)
        alike[i] = 1;
    lua_createtable(L, (int)p->n, 0);
    for (size_t i = 0; i < p->n; i++) {
        tperf_pipeline *one = &p->list[i];
        bool several = one->virtual_stages > 1 && one->pp > 1;
        bool unequal = several && tperf_pipeline_unevenness(one, &p->layers, work) >
                                      tperf_pipeline_unevenness(one, &p->layers, alike) + most;
        one->open = one->open || unequal;
        lua_pushboolean(L, unequal);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static int new_pipelines(lua_State *L) {
    int kinds = 0;
    double most = luaL_optnumber(L, 6, 0);
    lua_settop(L, 5);
    tperf_model_layers layers = {.has_ends = lua_toboolean(L, 2)};
    layers.runs = push_runs(L, 1, &layers.n_runs, &kinds);
    int runs_index = lua_gettop(L);
    size_t n = tperf_bind_push_list(L, 3, "the pipelines");
    lua_replace(L, 3);
    pipelines *p = lua_newuserdatauv(L, sizeof *p + n * sizeof p->list[0], 1);
    memset(p, 0, sizeof *p + n * sizeof p->list[0]);
    p->heap = tperf_bind_heap(L);
    p->picked = read_picked(L, 4, kinds);
    p->kinds = p->picked.twin + kinds;
    p->layers = layers;
    lua_pushvalue(L, runs_index);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, type_name);
    for (p->n = 0; p->n < n;) {
        lua_rawgeti(L, 3, (lua_Integer)p->n + 1);
        luaL_checktype(L, -1, LUA_TTABLE);
        p->n++; // before it is filled, so that a failure releases it
        read_pipeline(L, p, &p->list[p->n - 1]);
        lua_pop(L, 1);
    }
    double work[TPERF_KINDS_MAX] = {0};
    if (!read_work(L, 5, p->kinds, work)) return 1;
    push_unequal(L, p, work, most);
    return 2;
}

void tperf_bind_pipelines(lua_State *L) {
    luaL_newmetatable(L, type_name);
    lua_pushcfunction(L, release);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_pipelines);
}
