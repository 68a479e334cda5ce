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

// Numbers beside the tables.
typedef struct beside {
    double step, request, token; // of the host
    double send, send_token;
    int64_t window, stages;
    double launch, compile;
    int64_t even;
    tperf_whole_caches whole;
    bool separate, eager_prefills;
} beside;

static void set_time(lua_State *L, const beside *more, double ticks_per_second,
                     const tperf_step_table *table, tperf_step_time *time) {
    double compile = more->compile * ticks_per_second;
    if (more->even < 1 || more->even > INT32_MAX || time->n_shapes > TPERF_MOST_SHAPES ||
        !(compile >= 0 && compile < 0x1p62))
        tperf_bind_fail(L, "tperf.serve: kernels to compile are out of range");
    time->even = (int32_t)more->even;
    time->compile = (int64_t)(compile + 0.5);
    time->window = (int32_t)more->window;
    time->ticks = tperf_step_table_ticks;
    time->stage_ticks = tperf_step_table_stage_ticks;
    time->context = table;
}

void tperf_serve_read_table(lua_State *L, int index, double ticks_per_second,
                            tperf_step_table *table, tperf_step_time *time) {
    static const tperf_field fields[] = {
        {"step", TPERF_FIELD_NUMBER, offsetof(beside, step), true},
        {"request", TPERF_FIELD_NUMBER, offsetof(beside, request), true},
        {"token", TPERF_FIELD_NUMBER, offsetof(beside, token), true},
        {"window", TPERF_FIELD_INTEGER, offsetof(beside, window), true},
        {"separate", TPERF_FIELD_FLAG, offsetof(beside, separate), true},
        {"launch", TPERF_FIELD_NUMBER, offsetof(beside, launch), true},
        {"compile", TPERF_FIELD_NUMBER, offsetof(beside, compile), true},
        {"even", TPERF_FIELD_INTEGER, offsetof(beside, even), true},
        {"whole_key", TPERF_FIELD_NUMBER, offsetof(beside, whole.key), true},
        {"whole_each", TPERF_FIELD_NUMBER, offsetof(beside, whole.each), true},
        {"whole_from", TPERF_FIELD_NUMBER, offsetof(beside, whole.from), true},
        {"whole_late", TPERF_FIELD_NUMBER, offsetof(beside, whole.late), true},
        {"eager_prefills", TPERF_FIELD_FLAG, offsetof(beside, eager_prefills), true},
        {"stages", TPERF_FIELD_INTEGER, offsetof(beside, stages), true},
        {"send", TPERF_FIELD_NUMBER, offsetof(beside, send), true},
        {"send_token", TPERF_FIELD_NUMBER, offsetof(beside, send_token), true},
        {0},
    };
    beside more = {0};
    index = lua_absindex(L, index);
    luaL_checktype(L, index, LUA_TTABLE);
    *table = (tperf_step_table){.ticks_per_second = ticks_per_second};
    time->shapes = read_axis(L, index, "shapes", &time->n_shapes);
    table->graphs = read_axis(L, index, "graphs", &table->n_graphs);
    table->decode_tokens = read_line(L, index, "decode_tokens");
    table->prefill_tokens = read_line(L, index, "prefill_tokens");
    table->rows = read_line(L, index, "rows");
    table->decode = read_grid(L, index, "decode");
    table->decode_window = read_grid(L, index, "decode_window");
    table->chunk = read_grid(L, index, "chunk");
    table->chunk_among = read_grid(L, index, "chunk_among");
    if (tperf_bind_raw_field(L, index, "more") != LUA_TTABLE)
        tperf_bind_fail(L, "tperf.serve: a table of steps lacks 'more'");
    tperf_fields_read(L, -1, "tperf.serve", fields, &more);
    if (more.stages < 1 || more.stages > INT32_MAX || !(more.send >= 0 && more.send_token >= 0) ||
        more.window < 0 || more.window > TPERF_LONGEST ||
        (table->chunk.nx && !table->chunk_among.nx) ||
        !(more.step >= 0 && more.request >= 0 && more.token >= 0 && more.launch >= 0) ||
        !(more.whole.key >= 0 && more.whole.each >= 0 && more.whole.from >= 0) ||
        !(more.whole.late >= 0 && more.whole.late <= 1))
        tperf_bind_fail(L, "tperf.serve: a table of steps is out of range");
    table->separate = more.separate;
    table->launch = more.launch;
    table->whole = more.whole;
    table->eager_prefills = more.eager_prefills;
    table->stages = (int32_t)more.stages;
    table->send = more.send;
    table->send_token = more.send_token;
    table->host_step = more.step;
    table->host_request = more.request;
    table->host_token = more.token;
    set_time(L, &more, ticks_per_second, table, time);
}
