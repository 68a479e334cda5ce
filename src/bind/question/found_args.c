// found_args.c: see found_args.h.
#include "bind/question/found_args.h"

#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/shape_args.h"

static int64_t integer(lua_State *L, int at, const char *name) {
    tperf_bind_raw_field(L, at, name);
    int64_t value = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
    return value;
}

// What was found of a candidate, but for its pipeline and the lists of sizes; read and pushed.
static const tperf_record_field found_fields[] = {
#define FIELD(type, name, member)                                                                  \
    TPERF_FIELD(tperf_found, type, member, name, NULL, TPERF_REQUIRED, -TPERF_ANY, TPERF_ANY, NULL)
    FIELD(NUMBER, "throughput", throughput),
    FIELD(NUMBER, "memory", memory),
    FIELD(FLAG, "feasible", feasible),
    FIELD(INT32, "strategy", candidate.strategy),
    FIELD(INT32, "variant", candidate.variant),
    FIELD(INT32, "zero", candidate.zero),
    FIELD(INTEGER, "micro_batch", candidate.micro_batch),
    FIELD(INTEGER, "panels", candidate.placement.panels),
#undef FIELD
    {0},
};
static const tperf_record found_record = {"what was found", sizeof(tperf_found), found_fields};

static void read_sizes(lua_State *L, int at, const char *name, int64_t sizes[TPERF_AXES_MAX]) {
    tperf_bind_raw_field(L, at, name);
    luaL_checktype(L, -1, LUA_TTABLE);
    for (int i = 0; i < TPERF_AXES_MAX; i++) {
        lua_rawgeti(L, -1, i + 1);
        sizes[i] = luaL_optinteger(L, -1, 0);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

typedef struct pipelines {
    const tperf_pipeline *list;
    size_t n;
} pipelines;

// Reads the table on top of the stack, and pops it.
static void read_found(lua_State *L, const pipelines *known, tperf_found *found) {
    int at = lua_gettop(L);
    tperf_candidate *c = &found->candidate;
    luaL_checktype(L, at, LUA_TTABLE);
    tperf_record_take(L, at, &found_record, found);
    int64_t pipeline = integer(L, at, "pipeline");
    if (pipeline < 1 || (size_t)pipeline > known->n)
        tperf_bind_fail(L, "there is no such pipeline");
    c->pipeline = &known->list[pipeline - 1];
    read_sizes(L, at, "sizes", c->sizes);
    read_sizes(L, at, "fast", c->placement.fast);
    lua_pop(L, 1);
}

void tperf_bind_check_found(lua_State *L, int index, const tperf_pipeline *list, size_t n_pipelines,
                            tperf_found *found) {
    const pipelines known = {list, n_pipelines};
    luaL_checkstack(L, 10, NULL);
    lua_pushvalue(L, index);
    read_found(L, &known, found);
}

// Pushes an array of what a field of an answer lists.
static tperf_found *push_founds(lua_State *L, int index, const char *name, const pipelines *known,
                                size_t *n) {
    tperf_bind_raw_field(L, index, name);
    int at = lua_gettop(L);
    *n = tperf_bind_length(L, at, "what was found");
    tperf_found *found = lua_newuserdatauv(L, (*n + 1) * sizeof *found, 0);
    for (size_t i = 0; i < *n; i++) {
        lua_rawgeti(L, at, (lua_Integer)i + 1);
        read_found(L, known, &found[i]);
    }
    lua_remove(L, at);
    return found;
}

void tperf_bind_check_answer(lua_State *L, int index, const tperf_pipeline *list,
                             size_t n_pipelines, tperf_answer *answer) {
    const pipelines known = {list, n_pipelines};
    luaL_checktype(L, index, LUA_TTABLE);
    luaL_checkstack(L, 10, NULL);
    memset(answer, 0, sizeof *answer);
    answer->candidates = integer(L, index, "candidates");
    answer->feasible = integer(L, index, "feasible");
    answer->evaluated = integer(L, index, "evaluated");
    answer->found = push_founds(L, index, "found", &known, &answer->n_found);
    answer->open = push_founds(L, index, "open", &known, &answer->n_open);
    tperf_bind_raw_field(L, index, "least");
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return;
    }
    tperf_found *least = lua_newuserdatauv(L, sizeof *least, 0);
    lua_insert(L, -2);
    read_found(L, &known, least);
    answer->least = least;
}

static void push_sizes(lua_State *L, const int64_t *sizes) {
    lua_createtable(L, TPERF_AXES_MAX, 0);
    int n = TPERF_AXES_MAX;
    while (n > 0 && sizes[n - 1] == 0)
        n--;
    for (int i = 0; i < n; i++) {
        lua_pushinteger(L, sizes[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

static void set_integer(lua_State *L, const char *name, int64_t value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

void tperf_bind_push_found(lua_State *L, const tperf_found *found,
                           const tperf_pipeline *first_pipeline) {
    const tperf_candidate *c = &found->candidate;
    tperf_record_push(L, &found_record, found);
    set_integer(L, "pipeline", c->pipeline - first_pipeline + 1);
    push_sizes(L, c->sizes);
    lua_setfield(L, -2, "sizes");
    push_sizes(L, c->placement.fast);
    lua_setfield(L, -2, "fast");
}

// A list of what was found. Its user values: 1 the pipelines, 2 the list of kept shapes.
typedef struct list {
    const tperf_pipeline *first_pipeline;
    size_t n;
    tperf_found of[];
} list;

static const char list_name[] = "tperf.found";

// Sets the workload of the table on top of the stack, if its shape is among those of the list at 3.
static void set_workload(lua_State *L, const tperf_shape *shape) {
    lua_Integer n = shape ? (lua_Integer)lua_rawlen(L, 3) : 0;
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, 3, i);
        if (tperf_bind_push_workload_of(L, lua_gettop(L), shape)) {
            lua_setfield(L, -3, "workload");
            i = n;
        }
        lua_pop(L, 1);
    }
}

static int found_at(lua_State *L) {
    const list *all = luaL_checkudata(L, 1, list_name);
    lua_Integer i = luaL_checkinteger(L, 2);
    lua_settop(L, 2);
    if (i < 1 || (size_t)i > all->n) return 0;
    lua_getiuservalue(L, 1, 2);
    tperf_bind_push_found(L, &all->of[i - 1], all->first_pipeline);
    set_workload(L, all->of[i - 1].shape);
    return 1;
}

static int count_found(lua_State *L) {
    const list *all = luaL_checkudata(L, 1, list_name);
    lua_pushinteger(L, (lua_Integer)all->n);
    return 1;
}

void tperf_bind_new_found_type(lua_State *L) {
    luaL_newmetatable(L, list_name);
    lua_pushcfunction(L, found_at);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, count_found);
    lua_setfield(L, -2, "__len");
    lua_pop(L, 1);
}

// Pushes a list; below it on the stack: the pipelines, the list of kept shapes.
static void push_list(lua_State *L, const tperf_found *found, size_t n,
                      const tperf_pipeline *first_pipeline) {
    list *all = lua_newuserdatauv(L, sizeof *all + n * sizeof all->of[0], 2);
    *all = (list){.first_pipeline = first_pipeline, .n = n};
    if (n > 0) memcpy(all->of, found, n * sizeof all->of[0]);
    luaL_setmetatable(L, list_name);
    lua_pushvalue(L, -2);
    lua_setiuservalue(L, -2, 2);
    lua_pushvalue(L, -3);
    lua_setiuservalue(L, -2, 1);
}

void tperf_bind_push_answer(lua_State *L, const tperf_answer *answer,
                            const tperf_pipeline *first_pipeline) {
    int at = lua_gettop(L) - 1;
    lua_createtable(L, 0, 6);
    lua_insert(L, at);
    push_list(L, answer->found, answer->n_found, first_pipeline);
    lua_setfield(L, at, "found");
    push_list(L, answer->open, answer->n_open, first_pipeline);
    lua_setfield(L, at, "open");
    lua_settop(L, at);
    set_integer(L, "candidates", answer->candidates);
    set_integer(L, "feasible", answer->feasible);
    set_integer(L, "evaluated", answer->evaluated);
    if (!answer->least) return;
    tperf_bind_push_found(L, answer->least, first_pipeline);
    lua_setfield(L, -2, "least");
}
