// serve_table.c: reads a priced step's tables from Lua, see serve_args.h and lua/tperf/question/serve/priced.lua.
#include <math.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/question/serve_args.h"

// Pushes the list of numbers in field `name` of the table at index as an array in a userdata.
static const double *read_numbers(lua_State *L, int index, const char *name, size_t *n) {
    luaL_checkstack(L, 4, "tables of steps");
    if (tperf_bind_raw_field(L, index, name) != LUA_TTABLE)
        tperf_bind_fail(L, "tperf.serve: a table of steps lacks '%s'", name);
    int list = lua_gettop(L);
    *n = tperf_bind_length(L, list, name);
    if (*n > TPERF_LIST_MAX) tperf_bind_fail(L, "tperf.serve: '%s' has too many values", name);
    double *values = lua_newuserdatauv(L, (*n + 1) * sizeof *values, 0);
    for (size_t i = 0; i < *n; i++) {
        int is_number = 0;
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        values[i] = lua_tonumberx(L, -1, &is_number);
        if (!is_number || !(values[i] >= 0 && isfinite(values[i])))
            tperf_bind_fail(L, "tperf.serve: '%s' must be numbers from 0 on", name);
        lua_pop(L, 1);
    }
    return values;
}

static const double *read_axis(lua_State *L, int index, const char *name, int32_t *n) {
    size_t count;
    const double *axis = read_numbers(L, index, name, &count);
    for (size_t i = 1; i < count; i++)
        if (axis[i] <= axis[i - 1]) tperf_bind_fail(L, "tperf.serve: '%s' must ascend", name);
    *n = (int32_t)count;
    return axis;
}

static const double *read_values(lua_State *L, int index, const char *name, size_t n) {
    size_t count;
    const double *values = read_numbers(L, index, name, &count);
    if (n == 0 || count != n) tperf_bind_fail(L, "tperf.serve: '%s' is not of its axes", name);
    return values;
}

static tperf_line read_line(lua_State *L, int index, const char *name) {
    tperf_line line = {0};
    if (tperf_bind_raw_field(L, index, name) != LUA_TTABLE)
        tperf_bind_fail(L, "tperf.serve: a table of steps lacks '%s'", name);
    int at = lua_gettop(L);
    line.x = read_axis(L, at, "x", &line.n);
    line.y = read_values(L, at, "y", (size_t)line.n);
    return line;
}

// Empty if the field is absent, as most models have no encoder.
static tperf_line read_optional_line(lua_State *L, int index, const char *name) {
    if (tperf_bind_raw_field(L, index, name) == LUA_TNIL) return (tperf_line){0};
    return read_line(L, index, name);
}

// Empty if the field is absent: a model may have no attention.
static tperf_step_grid read_grid(lua_State *L, int index, const char *name) {
    tperf_step_grid grid = {0};
    if (tperf_bind_raw_field(L, index, name) != LUA_TTABLE) return grid;
    int at = lua_gettop(L);
    grid.x = read_axis(L, at, "x", &grid.nx);
    grid.y = read_axis(L, at, "y", &grid.ny);
    grid.z = read_values(L, at, "z", (size_t)grid.nx * (size_t)grid.ny);
    return grid;
}

static void set_time(lua_State *L, const tperf_step_table *table, tperf_step_time *time) {
    double compile = table->compile * table->ticks_per_second;
    if (time->n_shapes > TPERF_MOST_SHAPES || !(compile < 0x1p62))
        tperf_bind_fail(L, "tperf.serve: kernels to compile are out of range");
    time->even = table->even;
    time->compile = (int64_t)(compile + 0.5);
    time->window = table->window;
    time->ticks = tperf_step_table_ticks;
    time->stage_ticks = tperf_step_table_stage_ticks;
    time->context = table;
}

void tperf_serve_read_table(lua_State *L, int index, double ticks_per_second,
                            tperf_step_table *table, tperf_step_time *time) {
    index = lua_absindex(L, index);
    luaL_checktype(L, index, LUA_TTABLE);
    if (tperf_bind_raw_field(L, index, "more") != LUA_TTABLE)
        tperf_bind_fail(L, "tperf.serve: a table of steps lacks 'more'");
    tperf_record_read(L, -1, &tperf_step_table_record, table);
    lua_pop(L, 1);
    table->ticks_per_second = ticks_per_second;
    time->shapes = read_axis(L, index, "shapes", &time->n_shapes);
    table->graphs = read_axis(L, index, "graphs", &table->n_graphs);
    table->decode_tokens = read_line(L, index, "decode_tokens");
    table->prefill_tokens = read_line(L, index, "prefill_tokens");
    table->rows = read_line(L, index, "rows");
    table->encoders = read_optional_line(L, index, "encoders");
    table->decode = read_grid(L, index, "decode");
    table->decode_window = read_grid(L, index, "decode_window");
    table->chunk = read_grid(L, index, "chunk");
    table->chunk_among = read_grid(L, index, "chunk_among");
    if (table->chunk.nx && !table->chunk_among.nx)
        tperf_bind_fail(L, "tperf.serve: a table of steps lacks 'chunk_among'");
    set_time(L, table, time);
}
