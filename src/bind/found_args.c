// found_args.c: see found_args.h.
#include "bind/found_args.h"

#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"

static int64_t integer(lua_State *L, int at, const char *name) {
    tperf_bind_raw_field(L, at, name);
    int64_t value = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
    return value;
}

static double number(lua_State *L, int at, const char *name) {
    tperf_bind_raw_field(L, at, name);
    double value = luaL_checknumber(L, -1);
    lua_pop(L, 1);
    return value;
}

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
    memset(found, 0, sizeof *found);
    found->throughput = number(L, at, "throughput");
    found->memory = number(L, at, "memory");
    tperf_bind_raw_field(L, at, "feasible");
    found->feasible = lua_toboolean(L, -1);
    lua_pop(L, 1);
    c->strategy = (int)integer(L, at, "strategy");
    c->variant = (int)integer(L, at, "variant");
    c->zero = (int)integer(L, at, "zero");
    c->micro_batch = integer(L, at, "micro_batch");
    c->placement.panels = integer(L, at, "panels");
    int64_t pipeline = integer(L, at, "pipeline");
    if (pipeline < 1 || (size_t)pipeline > known->n)
        tperf_bind_fail(L, "there is no such pipeline");
    c->pipeline = &known->list[pipeline - 1];
    read_sizes(L, at, "sizes", c->sizes);
    read_sizes(L, at, "fast", c->placement.fast);
    lua_pop(L, 1);
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
    answer->n_found = lua_rawlen(L, index);
    tperf_found *found = lua_newuserdatauv(L, (answer->n_found + 1) * sizeof *found, 0);
    answer->found = found;
    for (size_t i = 0; i < answer->n_found; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        read_found(L, &known, &found[i]);
    }
    tperf_bind_raw_field(L, index, "least");
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return;
    }
    read_found(L, &known, &found[answer->n_found]);
    answer->least = &found[answer->n_found];
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
    lua_createtable(L, 0, 12);
    lua_pushnumber(L, found->throughput);
    lua_setfield(L, -2, "throughput");
    lua_pushnumber(L, found->memory);
    lua_setfield(L, -2, "memory");
    lua_pushboolean(L, found->feasible);
    lua_setfield(L, -2, "feasible");
    set_integer(L, "strategy", c->strategy);
    set_integer(L, "variant", c->variant);
    set_integer(L, "pipeline", c->pipeline - first_pipeline + 1);
    set_integer(L, "zero", c->zero);
    set_integer(L, "micro_batch", c->micro_batch);
    set_integer(L, "panels", c->placement.panels);
    push_sizes(L, c->sizes);
    lua_setfield(L, -2, "sizes");
    push_sizes(L, c->placement.fast);
    lua_setfield(L, -2, "fast");
}
