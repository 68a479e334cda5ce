// bind_machine.c: tperf.core.machine(system): a system read once for many queries, by the fits of tperf.calibrate and
// the predictions of tperf.validate.
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "bind/model_args.h"
#include "tperf/collective.h"

static const tperf_system *check_machine(lua_State *L) {
    return luaL_checkudata(L, 1, TPERF_BIND_MACHINE);
}

static double check_size(lua_State *L, int index) {
    double size = luaL_checknumber(L, index);
    luaL_argcheck(L, size >= 0 && size <= 1e18, index, "a size from 0 to 1e18 is needed");
    return size;
}

// machine:kernel(kind, dtype, batch, m, n, k, shared, backward, second, warm, grouped, masked): seconds of compute and
// seconds of exposed memory, launch included; nil when the system has no curve for it.
static int machine_kernel(lua_State *L) {
    static const char *const kinds[] = {"gemm", "attention", "causal_attention", NULL};
    const tperf_system *system = check_machine(L);
    tperf_kernel kernel = {.kind = (tperf_kernel_kind)luaL_checkoption(L, 2, NULL, kinds)};
    const char *dtype = luaL_checkstring(L, 3);
    kernel.batch = check_size(L, 4);
    kernel.m = check_size(L, 5);
    kernel.n = check_size(L, 6);
    kernel.k = check_size(L, 7);
    kernel.shared = lua_isnoneornil(L, 8) ? 1 : check_size(L, 8);
    kernel.second = lua_isnoneornil(L, 10) ? 0 : check_size(L, 10);
    kernel.warm = lua_toboolean(L, 11);
    kernel.grouped = lua_toboolean(L, 12);
    kernel.masked = lua_isnoneornil(L, 13) ? 0 : check_size(L, 13);
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        tperf_kernel_time time;
        if (strcmp(dtype, tperf_dtype_names[i]) != 0) continue;
        if (!(system->accelerator.tensor[i] > 0)) break;
        if (!tperf_system_kernel_time(system, (tperf_dtype)i, &kernel, lua_toboolean(L, 9), &time))
            break;
        tperf_kernel_cost cost = tperf_kernel_cost_of(&time, 1, 1);
        lua_pushnumber(L, cost.compute);
        lua_pushnumber(L, cost.exposed_memory);
        return 2;
    }
    lua_pushnil(L);
    return 1;
}

// machine:stream(bytes, warm): seconds of a kernel that only reads and writes
static int machine_stream(lua_State *L) {
    const tperf_system *system = check_machine(L);
    double bytes = check_size(L, 2);
    lua_pushnumber(L, tperf_system_stream_time(system, bytes, lua_toboolean(L, 3)));
    return 1;
}

// machine:routing(pairs): seconds to choose experts and sort this many token-expert pairs
static int machine_routing(lua_State *L) {
    const tperf_system *system = check_machine(L);
    lua_pushnumber(L, system->accelerator.routing.setup_s +
                          check_size(L, 2) * system->accelerator.routing.pair_s);
    return 1;
}

// machine:collective(rules, kind, bytes, gpus, fast, serves): seconds
static int machine_collective(lua_State *L) {
    const tperf_system *system = check_machine(L);
    tperf_rules rules;
    tperf_bind_check_rules(L, 2, &rules);
    int kind = luaL_checkoption(L, 3, NULL, tperf_collective_names);
    double bytes = check_size(L, 4);
    tperf_group group = {luaL_checkinteger(L, 5), luaL_checkinteger(L, 6), 1, 1};
    tperf_error error;
    if (tperf_group_validate(group, system, &error) != TPERF_OK) return tperf_bind_raise(L, &error);
    tperf_system serving;
    if (lua_toboolean(L, 7)) {
        serving = *system;
        serving.serves = true;
        system = &serving;
    }
    lua_pushnumber(L, tperf_collective_time(system, &rules, (tperf_collective)kind, bytes, group));
    return 1;
}

static const luaL_Reg methods[] = {
    {"kernel", machine_kernel},
    {"stream", machine_stream},
    {"routing", machine_routing},
    {"collective", machine_collective},
    {NULL, NULL},
};

// at_size(sizes, list, size): what a list with a number for each head size, ascending, has for another.
static int at_size(lua_State *L) {
    double sizes[TPERF_HEAD_SIZES_MAX], y[TPERF_HEAD_SIZES_MAX];
    size_t n = tperf_bind_length(L, 1, "the sizes");
    luaL_argcheck(L, 1 <= n && n <= TPERF_HEAD_SIZES_MAX, 1, "not a list of 1 to 8 sizes");
    luaL_argcheck(L, tperf_bind_length(L, 2, "the numbers") == n, 2,
                  "not as many numbers as sizes");
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        sizes[i] = luaL_checknumber(L, -2);
        y[i] = luaL_checknumber(L, -1);
        lua_pop(L, 2);
    }
    lua_pushnumber(L, tperf_at_size(sizes, y, (int)n, luaL_checknumber(L, 3)));
    return 1;
}

void tperf_bind_at_size(lua_State *L) {
    lua_pushcfunction(L, at_size);
}

void tperf_bind_machine_methods(lua_State *L) {
    luaL_newlib(L, methods);
}
