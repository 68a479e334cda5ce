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

int64_t tperf_bind_check_micro_batch(lua_State *L, int list, lua_Integer i) {
    int whole;
    lua_rawgeti(L, list, i);
    lua_Integer micro_batch = lua_tointegerx(L, -1, &whole);
    if (!whole || micro_batch < 1) tperf_bind_fail(L, "a shape needs a micro-batch of at least 1");
    lua_pop(L, 1);
    return micro_batch;
}

// Reads the required placements of the own axes from the list on top of the stack; nil: none.
static void read_demanded(lua_State *L, tperf_shape *shape) {
    if (lua_isnil(L, -1)) return;
    if (!lua_istable(L, -1))
        tperf_bind_fail(L, "'fast' must be a list, got %s", luaL_typename(L, -1));
    for (int i = TPERF_AXIS_OWN; i < TPERF_AXES_MAX; i++) {
        lua_rawgeti(L, -1, i - TPERF_AXIS_OWN + 1);
        shape->fast[i] = luaL_optinteger(L, -1, 0);
        lua_pop(L, 1);
    }
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

// Where values lie on the stack while shapes are read, from the list of series on.
enum { LIST, SHAPES, WORKLOADS, PANELS, SERIES, MICRO_BATCHES, LAID_OUT };

// Appends the shapes of the series at at + SERIES.
static void read_series(lua_State *L, int at, size_t room, tperf_bind_shapes *shapes) {
    tperf_shape shape = {0};
    luaL_checktype(L, at + SERIES, LUA_TTABLE);
    tperf_bind_raw_field(L, at + SERIES, "micro_batches");
    tperf_bind_raw_field(L, at + SERIES, "workloads");
    luaL_checktype(L, at + MICRO_BATCHES, LUA_TTABLE);
    luaL_checktype(L, at + LAID_OUT, LUA_TTABLE);
    tperf_bind_raw_field(L, at + SERIES, "strategy");
    shape.strategy = (int)luaL_checkinteger(L, -1);
    tperf_bind_raw_field(L, at + SERIES, "variant");
    shape.variant = (int)luaL_checkinteger(L, -1);
    tperf_bind_raw_field(L, at + SERIES, "fitting");
    lua_Integer n = (lua_Integer)lua_rawlen(L, at + MICRO_BATCHES),
                fitting = luaL_checkinteger(L, -1);
    tperf_bind_raw_field(L, at + SERIES, "fast");
    read_demanded(L, &shape);
    tperf_bind_raw_field(L, at + SERIES, "order");
    if (!lua_isnil(L, -1)) tperf_bind_check_order(L, -1, TPERF_AXES_MAX, &shape.order);
    tperf_bind_raw_field(L, at + SERIES, "panels");
    read_panels(L, at + PANELS, &shape);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_settop(L, at + LAID_OUT);
        if (shapes->n == room || fitting < 1)
            tperf_bind_fail(L, "a series of no shapes, or of more than before");
        shape.micro_batch = tperf_bind_check_micro_batch(L, at + MICRO_BATCHES, i);
        shape.cannot_fit = i > fitting;
        if (!shape.cannot_fit) {
            lua_rawgeti(L, at + LAID_OUT, shape.micro_batch);
            shape.workload = tperf_bind_check_workload(L, -1);
            lua_rawseti(L, at + WORKLOADS, (lua_Integer)shapes->n + 1);
        }
        if (!shapes->fewest_kinds || shape.workload->n_kinds < shapes->fewest_kinds->n_kinds)
            shapes->fewest_kinds = shape.workload;
        shapes->of[shapes->n++] = shape;
    }
}

// The number of shapes in the list of series at index, which is a copy.
static size_t count_shapes(lua_State *L, int index, size_t n_series) {
    size_t count = 0;
    for (size_t i = 1; i <= n_series; i++) {
        lua_rawgeti(L, index, (lua_Integer)i);
        luaL_checktype(L, -1, LUA_TTABLE);
        tperf_bind_raw_field(L, -1, "micro_batches");
        size_t n = tperf_bind_length(L, -1, "the micro-batches of a shape");
        if (n > TPERF_LIST_MAX - count) tperf_bind_fail(L, "more than %d shapes", TPERF_LIST_MAX);
        count += n;
        lua_pop(L, 2);
    }
    return count;
}

// Pushes the shapes of a list of series.
static tperf_bind_shapes *push_shapes(lua_State *L, int index) {
    luaL_checkstack(L, LAID_OUT + 10, NULL);
    size_t n_series = tperf_bind_push_list(L, index, "the shapes");
    int at = lua_gettop(L);
    size_t n = count_shapes(L, at, n_series);
    tperf_bind_shapes *shapes = lua_newuserdatauv(L, sizeof *shapes + n * sizeof shapes->of[0], 2);
    luaL_setmetatable(L, type_name);
    *shapes = (tperf_bind_shapes){0};
    for (int i = WORKLOADS; i <= PANELS; i++) {
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setiuservalue(L, at + SHAPES, i - SHAPES);
    }
    for (size_t i = 1; i <= n_series; i++) {
        lua_rawgeti(L, at, (lua_Integer)i);
        read_series(L, at, n, shapes);
        lua_settop(L, at + PANELS);
    }
    lua_settop(L, at + SHAPES);
    lua_remove(L, at);
    return shapes;
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
    lua_rawgeti(L, -1, (lua_Integer)(offset / sizeof *shape) + 1); // only counted shapes have none
    lua_remove(L, -2);
    return true;
}
