// bind_system.c: a system's Lua table (lua/tperf/system.lua) to the core's struct.
#include "bind/bind.h"

// The number at field `name` of the table on the top of the stack; `missing` when there is none.
static double number_field(lua_State *L, const char *name, double missing) {
    int type = lua_getfield(L, -1, name);
    if (type != LUA_TNUMBER && type != LUA_TNIL)
        luaL_error(L, "the system's field '%s' must be a number, not a %s", name,
                   luaL_typename(L, -1));
    double value = type == LUA_TNIL ? missing : lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

// Pushes the table at field `name` of the table on the top of the stack.
static void push_part(lua_State *L, const char *name) {
    if (lua_getfield(L, -1, name) != LUA_TTABLE)
        luaL_error(L, "the system has no table '%s'; make one with tperf.system", name);
}

static void read_peaks(lua_State *L, const char *name, double peaks[TP_DTYPE_COUNT]) {
    push_part(L, name);
    for (int i = 0; i < TP_DTYPE_COUNT; i++)
        peaks[i] = number_field(L, tp_dtype_names[i], 0);
    lua_pop(L, 1);
}

static void read_accelerator(lua_State *L, tp_system *out) {
    push_part(L, "accelerator");
    read_peaks(L, "tensor", out->accelerator.tensor);
    read_peaks(L, "vector", out->accelerator.vector);
    out->accelerator.compute_efficiency = number_field(L, "compute_efficiency", 0);
    out->accelerator.launch_s = number_field(L, "launch", 0);
    out->accelerator.power_W = number_field(L, "power", 0);
    push_part(L, "hbm");
    out->accelerator.hbm.bandwidth = number_field(L, "bandwidth", 0);
    out->accelerator.hbm.capacity = number_field(L, "capacity", 0);
    out->accelerator.hbm.efficiency = number_field(L, "efficiency", 0);
    lua_pop(L, 2);
}

static void read_network(lua_State *L, tp_system *out) {
    push_part(L, "network");
    push_part(L, "fast");
    out->network.fast.bandwidth = number_field(L, "bandwidth", 0);
    out->network.fast.efficiency = number_field(L, "efficiency", 0);
    out->network.fast.latency_s = number_field(L, "latency", 0);
    lua_getfield(L, -1, "domain");
    int whole;
    out->network.fast.domain = lua_tointegerx(L, -1, &whole);
    if (!whole) luaL_error(L, "the system's network.fast.domain must be an integer");
    lua_pop(L, 2);
    push_part(L, "slow");
    out->network.slow.bandwidth = number_field(L, "bandwidth", 0);
    out->network.slow.efficiency = number_field(L, "efficiency", 0);
    out->network.slow.latency_s = number_field(L, "latency", 0);
    out->network.slow.nics_per_gpu = number_field(L, "nics_per_gpu", 0);
    lua_pop(L, 2);
}

void tp_bind_check_system(lua_State *L, int index, tp_system *out) {
    luaL_checktype(L, index, LUA_TTABLE);
    luaL_checkstack(L, 8, NULL);
    lua_pushvalue(L, index);
    read_accelerator(L, out);
    read_network(L, out);
    lua_pop(L, 1);
    tp_error error;
    if (tp_system_validate(out, &error) != TP_OK) tp_bind_raise(L, &error);
}

// check_system(table): raises when the core refuses it
static int check_system(lua_State *L) {
    tp_system system;
    tp_bind_check_system(L, 1, &system);
    return 0;
}

void tp_bind_system(lua_State *L) {
    lua_pushcfunction(L, check_system);
}
