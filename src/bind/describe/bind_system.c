// bind_system.c: reads a system's Lua table (lua/tperf/describe/system.lua) into the core's struct.
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "machine/numbers.h"

// The number at field `name` of the table on top of the stack; `missing` if absent.
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

static void read_peaks(lua_State *L, const char *name, double peaks[TPERF_DTYPE_COUNT]) {
    push_part(L, name);
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++)
        peaks[i] = number_field(L, tperf_dtype_names[i], 0);
    lua_pop(L, 1);
}

// The number at a path like "hbm.bandwidth" below the table on top of the stack; 0 if absent.
static double number_at(lua_State *L, const char *path) {
    char part[32];
    const char *dot = strchr(path, '.');
    if (!dot) return number_field(L, path, 0);
    snprintf(part, sizeof part, "%.*s", (int)(dot - path), path);
    double value = lua_getfield(L, -1, part) == LUA_TTABLE ? number_at(L, dot + 1) : 0;
    lua_pop(L, 1);
    return value;
}

// Reads the numbers of a system or a curve from the table on top of the stack.
static void read_numbers(lua_State *L, const tperf_system_number *numbers, void *record) {
    for (; numbers->name; numbers++)
        *(double *)((char *)record + numbers->offset) = number_at(L, numbers->name);
}

// Reads the list of numbers at field `name`; returns how many.
static int read_list(lua_State *L, const char *name, double *out, int most) {
    push_part(L, name);
    lua_Unsigned n = lua_rawlen(L, -1);
    for (int i = 0; i < most && (lua_Unsigned)i < n; i++) {
        lua_rawgeti(L, -1, i + 1);
        out[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return n > (lua_Unsigned)most ? most + 1
                                  : (int)n; // a larger count is rejected with the other checks
}

// Whether the table on top of the stack has a table at `name`, which is then pushed.
static bool enter(lua_State *L, const char *name) {
    if (lua_getfield(L, -1, name) == LUA_TTABLE) return true;
    lua_pop(L, 1);
    return false;
}

// Whether the table on top of the stack has a curve of this kind and dtype, where fp16 and bf16 substitute for each
// other. If so, pushes both tables.
static bool enter_curve(lua_State *L, const char *kind, int dtype) {
    const char *name = tperf_dtype_names[dtype];
    const char *twin = dtype == TPERF_FP16 ? "bf16" : dtype == TPERF_BF16 ? "fp16" : name;
    if (!enter(L, kind)) return false;
    if (enter(L, name) || enter(L, twin)) return true;
    lua_pop(L, 1);
    return false;
}

// A number for all head sizes, or a list of one for each.
static void read_backward(lua_State *L, tperf_attention_curve *curve) {
    if (enter(L, "backward")) {
        lua_pop(L, 1);
        read_list(L, "backward", curve->backward, TPERF_HEAD_SIZES_MAX);
        return;
    }
    double all = number_field(L, "backward", 0);
    for (int i = 0; i < TPERF_HEAD_SIZES_MAX; i++)
        curve->backward[i] = all;
}

static void read_attention(lua_State *L, const char *kind, int dtype,
                           tperf_attention_curve *curve) {
    if (!enter_curve(L, kind, dtype)) return;
    read_numbers(L, tperf_attention_numbers, curve);
    curve->n_sizes = read_list(L, "head_dim", curve->head_size, TPERF_HEAD_SIZES_MAX);
    read_list(L, "efficiency", curve->efficiency, TPERF_HEAD_SIZES_MAX);
    read_backward(L, curve);
    lua_pop(L, 2);
}

static void read_kernels(lua_State *L, tperf_system *out) {
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        if (enter_curve(L, "gemm", i)) {
            read_numbers(L, tperf_gemm_numbers, &out->accelerator.gemm[i]);
            lua_pop(L, 2);
        }
        if (enter_curve(L, "experts4", i)) {
            read_numbers(L, tperf_gemm_numbers, &out->accelerator.experts4[i]);
            lua_pop(L, 2);
        }
        if (enter_curve(L, "experts", i)) {
            read_numbers(L, tperf_gemm_numbers, &out->accelerator.experts[i]);
            lua_pop(L, 2);
        }
        if (enter_curve(L, "decode", i)) {
            read_numbers(L, tperf_decode_numbers, &out->accelerator.decode[i]);
            lua_pop(L, 2);
        }
        read_attention(L, "attention", i, &out->accelerator.attention[i]);
        read_attention(L, "flash2", i, &out->accelerator.flash2[i]);
    }
}

static void read_compute_efficiency(lua_State *L, tperf_system *out) {
    if (!enter(L, "compute_efficiency")) {
        out->accelerator.compute_efficiency = number_field(L, "compute_efficiency", 0);
        return;
    }
    out->accelerator.compute_efficiency = number_field(L, "other", 0);
    read_kernels(L, out);
    lua_pop(L, 1);
}

static void read_fast_efficiency(lua_State *L, tperf_system *out) {
    static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
    if (!enter(L, "efficiency")) {
        out->network.fast.efficiency = number_field(L, "efficiency", 0);
        return;
    }
    out->network.fast.efficiency = number_field(L, "send", 0);
    for (int i = 0; i < TPERF_LINK_CURVES; i++) {
        if (!enter(L, names[i])) continue;
        read_numbers(L, tperf_link_numbers, &out->network.fast.curves[i]);
        lua_pop(L, 1);
    }
    if (enter(L, "direct")) {
        read_numbers(L, tperf_direct_numbers, &out->network.fast.direct);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void read_slow_efficiency(lua_State *L, tperf_system *out) {
    if (!enter(L, "efficiency")) {
        out->network.slow.efficiency = number_field(L, "efficiency", 0);
        return;
    }
    read_numbers(L, tperf_slow_numbers, &out->network.slow.curve);
    out->network.slow.efficiency = out->network.slow.curve.efficiency;
    lua_pop(L, 1);
}

static void read_accelerator(lua_State *L, tperf_system *out) {
    push_part(L, "accelerator");
    read_peaks(L, "tensor", out->accelerator.tensor);
    read_peaks(L, "vector", out->accelerator.vector);
    // Without matrix units for 32-bit numbers, the vector units run such products.
    if (out->accelerator.tensor[TPERF_FP32] == 0)
        out->accelerator.tensor[TPERF_FP32] = out->accelerator.vector[TPERF_FP32];
    read_compute_efficiency(L, out);
    push_part(L, "hbm");
    if (enter(L, "stream")) {
        read_numbers(L, tperf_stream_numbers, &out->accelerator.hbm.stream);
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
}

static void read_network(lua_State *L, tperf_system *out) {
    push_part(L, "network");
    push_part(L, "fast");
    read_fast_efficiency(L, out);
    lua_getfield(L, -1, "domain");
    int whole;
    out->network.fast.domain = lua_tointegerx(L, -1, &whole);
    if (!whole) luaL_error(L, "the system's network.fast.domain must be an integer");
    lua_pop(L, 1);
    lua_getfield(L, -1, "mesh");
    out->network.fast.mesh = lua_toboolean(L, -1);
    lua_pop(L, 2);
    push_part(L, "slow");
    read_slow_efficiency(L, out);
    lua_pop(L, 2);
}

static void read_host(lua_State *L, tperf_system *out) {
    if (!enter(L, "host")) return;
    out->host.bandwidth = number_field(L, "bandwidth", 0);
    out->host.efficiency = number_field(L, "efficiency", 1);
    out->host.memory_bandwidth = number_field(L, "memory_bandwidth", 0);
    out->host.slowness = number_field(L, "slowness", 0);
    lua_pop(L, 1);
}

static const char sealed_key; // registry key of a table: system -> its struct

// Pushes the machine made from a sealed system, or nil.
static bool push_sealed(lua_State *L, int index) {
    index = lua_absindex(L, index);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &sealed_key) == LUA_TTABLE) {
        lua_pushvalue(L, index);
        lua_rawget(L, -2);
        lua_remove(L, -2);
    }
    return !lua_isnil(L, -1);
}

// The core's capacity is what programs can use: lua/tperf/describe/machine/room.lua.
static void read_room(lua_State *L, tperf_system *out) {
    if (!enter(L, "accelerator")) return;
    if (enter(L, "hbm")) {
        out->accelerator.hbm.capacity = number_field(L, "visible", out->accelerator.hbm.capacity);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

void tperf_bind_check_system(lua_State *L, int index, tperf_system *out) {
    luaL_checkstack(L, 16, NULL);
    const tperf_system *machine = luaL_testudata(L, index, TPERF_BIND_MACHINE);
    if (machine) {
        *out = *machine;
        return;
    }
    luaL_checktype(L, index, LUA_TTABLE);
    bool sealed = push_sealed(L, index);
    if (sealed) *out = *(const tperf_system *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (sealed) return;
    memset(out, 0, sizeof *out);
    lua_pushvalue(L, index);
    read_numbers(L, tperf_system_numbers, out);
    read_room(L, out);
    read_accelerator(L, out);
    read_network(L, out);
    read_host(L, out);
    lua_pop(L, 1);
    tperf_error error;
    if (tperf_system_validate(out, &error) != TPERF_OK) tperf_bind_raise(L, &error);
}

// check_system(table): raises if the core rejects it
static int check_system(lua_State *L) {
    tperf_system system;
    tperf_bind_check_system(L, 1, &system);
    return 0;
}

static void push_machine(lua_State *L, int index) {
    tperf_system system;
    tperf_bind_check_system(L, index, &system);
    tperf_system *machine = lua_newuserdatauv(L, sizeof *machine, 0);
    *machine = system;
    luaL_setmetatable(L, TPERF_BIND_MACHINE);
}

// machine(table) -> the machine for its current fields
static int new_machine(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    if (!push_sealed(L, 1)) push_machine(L, 1);
    return 1;
}

// seal_system(table): declares that it no longer changes, or that callers check it first; it is read only this once.
static int seal_system(lua_State *L) {
    lua_settop(L, 1);
    if (push_sealed(L, 1)) return 0;
    push_machine(L, 1);
    tperf_bind_weak_table(L, &sealed_key);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 3);
    lua_rawset(L, -3);
    return 0;
}

void tperf_bind_machine(lua_State *L) {
    luaL_newmetatable(L, TPERF_BIND_MACHINE);
    tperf_bind_machine_methods(L);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_machine);
}

void tperf_bind_seal_system(lua_State *L) {
    lua_pushcfunction(L, seal_system);
}

void tperf_bind_system(lua_State *L) {
    lua_pushcfunction(L, check_system);
}

// curve_fields: curve -> list of { name, unit, low, high, optional }, from which the schema of systems is built.
void tperf_bind_curve_fields(lua_State *L) {
    static const struct {
        const char *name;
        const tperf_system_number *fields;
    } curves[] = {
        {"gemm", tperf_gemm_numbers},     {"attention", tperf_attention_numbers},
        {"decode", tperf_decode_numbers}, {"stream", tperf_stream_numbers},
        {"link", tperf_link_numbers},     {"direct", tperf_direct_numbers},
        {"slow", tperf_slow_numbers},
    };
    lua_newtable(L);
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        lua_newtable(L);
        for (const tperf_system_number *f = curves[i].fields; f->name; f++) {
            lua_createtable(L, 0, 5);
            lua_pushstring(L, f->name);
            lua_setfield(L, -2, "name");
            lua_pushstring(L, f->unit);
            lua_setfield(L, -2, "unit");
            tperf_fields_set(L, "low", f->low);
            tperf_fields_set(L, "high", f->high);
            lua_pushboolean(L, f->optional);
            lua_setfield(L, -2, "optional");
            lua_rawseti(L, -2, f - curves[i].fields + 1);
        }
        lua_setfield(L, -2, curves[i].name);
    }
}
