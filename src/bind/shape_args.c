// shape_args.c: see shape_args.h.
#include "bind/shape_args.h"

#include <stdint.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"

static const char type_name[] = "tperf.shapes";

void tperf_bind_new_shapes_type(lua_State *L) {
    luaL_newmetatable(L, type_name);
    lua_pop(L, 1);
}

// Reads the required placements of the workload's axes from the list on top of the stack; nil: none.
static void read_demanded(lua_State *L, tperf_shape *shape) {
    if (lua_isnil(L, -1)) return;
    if (!lua_istable(L, -1))
        tperf_bind_fail(L, "'fast' must be a list, got %s", luaL_typename(L, -1));
    for (int i = TPERF_AXIS_OWN; i < shape->workload->grid.n; i++) {
        lua_rawgeti(L, -1, i - TPERF_AXIS_OWN + 1);
        shape->fast[i] = luaL_optinteger(L, -1, 0);
        lua_pop(L, 1);
    }
}

int64_t tperf_bind_check_micro_batch(lua_State *L, int index) {
    lua_Integer micro_batch = luaL_checkinteger(L, index);
    if (micro_batch < 1) tperf_bind_fail(L, "a shape needs a micro-batch of at least 1");
    return micro_batch;
}

// Reads the panels on top of the stack, which the list at `kept` then keeps alive.
static void read_panels(lua_State *L, int kept, tperf_shape *shape) {
    static const int64_t one = 1;
    if (lua_istable(L, -1) && lua_rawlen(L, -1) == 1) { // most strategies have no panels
        lua_rawgeti(L, -1, 1);
        shape->n_panels = lua_isinteger(L, -1) && lua_tointeger(L, -1) == one;
        lua_pop(L, 1);
        shape->panels = &one;
        if (shape->n_panels) return;
    }
    shape->panels = tperf_bind_push_sizes(L, -1, &shape->n_panels);
    if (shape->n_panels < 1) tperf_bind_fail(L, "a shape needs a number of panels");
    lua_rawseti(L, kept, (lua_Integer)lua_rawlen(L, kept) + 1);
}

// Reads the shape on top of the stack. Its workload and panels are added to the lists at `workloads` and `panels`.
static void read_shape(lua_State *L, int workloads, int panels, tperf_shape *shape) {
    int at = lua_gettop(L);
    luaL_checktype(L, at, LUA_TTABLE);
    luaL_checkstack(L, 10, NULL);
    memset(shape, 0, sizeof *shape);
    tperf_bind_raw_field(L, at, "strategy");
    shape->strategy = (int)luaL_checkinteger(L, -1);
    tperf_bind_raw_field(L, at, "variant");
    shape->variant = (int)luaL_checkinteger(L, -1);
    tperf_bind_raw_field(L, at, "cannot_fit");
    shape->cannot_fit = lua_toboolean(L, -1);
    tperf_bind_raw_field(L, at, "micro_batch");
    shape->micro_batch = tperf_bind_check_micro_batch(L, -1);
    tperf_bind_raw_field(L, at, "workload");
    shape->workload = tperf_bind_check_workload(L, -1);
    lua_rawseti(L, workloads, (lua_Integer)lua_rawlen(L, workloads) + 1);
    tperf_bind_raw_field(L, at, "fast");
    read_demanded(L, shape);
    tperf_bind_raw_field(L, at, "panels");
    read_panels(L, panels, shape);
    lua_settop(L, at);
}

// Pushes the shapes of a list.
static tperf_bind_shapes *push_shapes(lua_State *L, int index) {
    size_t n = tperf_bind_push_list(L, index, "the shapes");
    int list = lua_gettop(L);
    tperf_bind_shapes *read = lua_newuserdatauv(L, sizeof *read + n * sizeof read->of[0], 2);
    luaL_setmetatable(L, type_name);
    *read = (tperf_bind_shapes){0};
    for (int i = 1; i <= 2; i++) {
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, list + 1, i);
    }
    for (; read->n < n; read->n++) {
        tperf_shape *shape = &read->of[read->n];
        lua_rawgeti(L, list, (lua_Integer)read->n + 1);
        read_shape(L, list + 2, list + 3, shape);
        if (!read->fewest_kinds || shape->workload->n_kinds < read->fewest_kinds->n_kinds)
            read->fewest_kinds = shape->workload;
        lua_pop(L, 1);
    }
    lua_settop(L, list + 1);
    lua_remove(L, list);
    return read;
}

const tperf_bind_shapes *tperf_bind_check_shapes(lua_State *L, int index, int pipelines) {
    const tperf_bind_shapes *shapes = luaL_testudata(L, index, type_name);
    if (!shapes) {
        shapes = push_shapes(L, index);
        lua_replace(L, index);
    }
    if (shapes->fewest_kinds) tperf_bind_check_kinds(L, pipelines, shapes->fewest_kinds);
    return shapes;
}

bool tperf_bind_push_workload_of(lua_State *L, int index, const tperf_shape *shape) {
    const tperf_bind_shapes *shapes = luaL_checkudata(L, index, type_name);
    uintptr_t offset = (uintptr_t)shape - (uintptr_t)shapes->of;
    if (offset >= shapes->n * sizeof *shape) return false;
    lua_getiuservalue(L, index, 1);
    lua_rawgeti(L, -1, (lua_Integer)(offset / sizeof *shape) + 1);
    lua_remove(L, -2);
    return true;
}
