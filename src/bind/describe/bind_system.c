// bind_system.c: a system's Lua table (lua/tperf/describe/system.lua) to the core's struct.
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

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

static void read_peaks(lua_State *L, const char *name, double peaks[TPERF_DTYPE_COUNT]) {
    push_part(L, name);
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++)
        peaks[i] = number_field(L, tperf_dtype_names[i], 0);
    lua_pop(L, 1);
}

// A curve's numbers, by field name. The table on the top of the stack has them.
typedef struct number_slot {
    const char *name;
    size_t offset;
} number_slot;

#define SLOT(type, name, member)                                                                   \
    { name, offsetof(type, member) }

static const number_slot gemm_slots[] = {
    SLOT(tperf_gemm_curve, "efficiency", efficiency),
    SLOT(tperf_gemm_curve, "tile_loss", tile_loss),
    SLOT(tperf_gemm_curve, "depth", depth),
    SLOT(tperf_gemm_curve, "quantisation", quantisation),
    SLOT(tperf_gemm_curve, "split", split),
    SLOT(tperf_gemm_curve, "ramp", ramp_s),
    SLOT(tperf_gemm_curve, "setup", setup_s),
    SLOT(tperf_gemm_curve, "rows", rows),
    SLOT(tperf_gemm_curve, "memory", memory),
    SLOT(tperf_gemm_curve, "sustained", sustained),
    SLOT(tperf_gemm_curve, "sustained_after", sustained_after_s),
    {NULL, 0},
};

static const number_slot attention_slots[] = {
    SLOT(tperf_attention_curve, "setup", setup_s),
    SLOT(tperf_attention_curve, "keys", keys),
    SLOT(tperf_attention_curve, "longest", longest),
    SLOT(tperf_attention_curve, "sustained", sustained),
    SLOT(tperf_attention_curve, "sustained_after", sustained_after_s),
    SLOT(tperf_attention_curve, "backward", backward),
    {NULL, 0},
};

static const number_slot decode_slots[] = {
    SLOT(tperf_decode_curve, "whole", whole),   SLOT(tperf_decode_curve, "efficiency", efficiency),
    SLOT(tperf_decode_curve, "setup", setup_s), SLOT(tperf_decode_curve, "block", block_s),
    SLOT(tperf_decode_curve, "ramp", ramp_s),   {NULL, 0},
};

static const number_slot stream_slots[] = {
    SLOT(tperf_stream_curve, "efficiency", efficiency),
    SLOT(tperf_stream_curve, "setup", setup_s),
    {NULL, 0},
};

static const number_slot link_slots[] = {
    SLOT(tperf_link_curve, "latency", latency_s),
    SLOT(tperf_link_curve, "hop", hop_s),
    SLOT(tperf_link_curve, "small", small),
    SLOT(tperf_link_curve, "extra", extra_s),
    SLOT(tperf_link_curve, "large", large),
    SLOT(tperf_link_curve, "switch", switch_bytes),
    SLOT(tperf_link_curve, "growth", growth),
    SLOT(tperf_link_curve, "in_network", in_network),
    {NULL, 0},
};

static const number_slot direct_slots[] = {
    SLOT(tperf_direct_curve, "latency", latency_s), SLOT(tperf_direct_curve, "hop", hop_s),
    SLOT(tperf_direct_curve, "one_shot", one_shot), SLOT(tperf_direct_curve, "extra", extra_s),
    SLOT(tperf_direct_curve, "two_shot", two_shot), {NULL, 0},
};

static const number_slot slow_slots[] = {
    SLOT(tperf_slow_curve, "efficiency", efficiency), SLOT(tperf_slow_curve, "latency", latency_s),
    SLOT(tperf_slow_curve, "doubling", doubling_s),   SLOT(tperf_slow_curve, "hop", hop_s),
    SLOT(tperf_slow_curve, "ramp", ramp_s),           {NULL, 0},
};

static void read_numbers(lua_State *L, const number_slot *slots, void *curve) {
    for (; slots->name; slots++)
        *(double *)((char *)curve + slots->offset) = number_field(L, slots->name, 0);
}

// The list of numbers at field `name`; how many there are.
static int read_list(lua_State *L, const char *name, double *out, int most) {
    push_part(L, name);
    lua_Unsigned n = lua_rawlen(L, -1);
    for (int i = 0; i < most && (lua_Unsigned)i < n; i++) {
        lua_rawgeti(L, -1, i + 1);
        out[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return n > (lua_Unsigned)most ? most + 1 : (int)n; // what is too many is refused with the rest
}

// Whether the table on the top of the stack has a table at `name`, which is then pushed.
static bool enter(lua_State *L, const char *name) {
    if (lua_getfield(L, -1, name) == LUA_TTABLE) return true;
    lua_pop(L, 1);
    return false;
}

// Whether the table on the top of the stack has a curve of this kind and dtype, fp16 and bf16 standing for each other.
// Then both are pushed.
static bool enter_curve(lua_State *L, const char *kind, int dtype) {
    const char *name = tperf_dtype_names[dtype];
    const char *twin = dtype == TPERF_FP16 ? "bf16" : dtype == TPERF_BF16 ? "fp16" : name;
    if (!enter(L, kind)) return false;
    if (enter(L, name) || enter(L, twin)) return true;
    lua_pop(L, 1);
    return false;
}

static void read_kernels(lua_State *L, tperf_system *out) {
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        if (enter_curve(L, "gemm", i)) {
            read_numbers(L, gemm_slots, &out->accelerator.gemm[i]);
            lua_pop(L, 2);
        }
        if (enter_curve(L, "experts4", i)) {
            read_numbers(L, gemm_slots, &out->accelerator.experts4[i]);
            lua_pop(L, 2);
        }
        if (enter_curve(L, "decode", i)) {
            read_numbers(L, decode_slots, &out->accelerator.decode[i]);
            lua_pop(L, 2);
        }
        if (!enter_curve(L, "attention", i)) continue;
        tperf_attention_curve *curve = &out->accelerator.attention[i];
        read_numbers(L, attention_slots, curve);
        curve->n_sizes = read_list(L, "head_dim", curve->head_size, TPERF_HEAD_SIZES_MAX);
        read_list(L, "efficiency", curve->efficiency, TPERF_HEAD_SIZES_MAX);
        lua_pop(L, 2);
    }
}

static void read_compute_efficiency(lua_State *L, tperf_system *out) {
    out->accelerator.units = number_field(L, "units", 0);
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
        read_numbers(L, link_slots, &out->network.fast.curves[i]);
        lua_pop(L, 1);
    }
    if (enter(L, "direct")) {
        read_numbers(L, direct_slots, &out->network.fast.direct);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void read_slow_efficiency(lua_State *L, tperf_system *out) {
    if (!enter(L, "efficiency")) {
        out->network.slow.efficiency = number_field(L, "efficiency", 0);
        return;
    }
    read_numbers(L, slow_slots, &out->network.slow.curve);
    out->network.slow.efficiency = out->network.slow.curve.efficiency;
    lua_pop(L, 1);
}

static void read_accelerator(lua_State *L, tperf_system *out) {
    push_part(L, "accelerator");
    read_peaks(L, "tensor", out->accelerator.tensor);
    read_peaks(L, "vector", out->accelerator.vector);
    // Matrix units that do not take 32-bit numbers leave such products to the vector units.
    if (out->accelerator.tensor[TPERF_FP32] == 0)
        out->accelerator.tensor[TPERF_FP32] = out->accelerator.vector[TPERF_FP32];
    read_compute_efficiency(L, out);
    out->accelerator.launch_s = number_field(L, "launch", 0);
    out->accelerator.power_W = number_field(L, "power", 0);
    push_part(L, "hbm");
    out->accelerator.hbm.bandwidth = number_field(L, "bandwidth", 0);
    out->accelerator.hbm.capacity = number_field(L, "capacity", 0);
    out->accelerator.hbm.efficiency = number_field(L, "efficiency", 0);
    if (enter(L, "stream")) {
        read_numbers(L, stream_slots, &out->accelerator.hbm.stream);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (enter(L, "routing")) {
        out->accelerator.routing.setup_s = number_field(L, "setup", 0);
        out->accelerator.routing.pair_s = number_field(L, "pair", 0);
        lua_pop(L, 1);
    }
    if (enter(L, "cache")) {
        out->accelerator.cache.bandwidth = number_field(L, "bandwidth", 0);
        out->accelerator.cache.capacity = number_field(L, "capacity", 0);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void read_network(lua_State *L, tperf_system *out) {
    push_part(L, "network");
    push_part(L, "fast");
    out->network.fast.bandwidth = number_field(L, "bandwidth", 0);
    read_fast_efficiency(L, out);
    out->network.fast.latency_s = number_field(L, "latency", 0);
    lua_getfield(L, -1, "domain");
    int whole;
    out->network.fast.domain = lua_tointegerx(L, -1, &whole);
    if (!whole) luaL_error(L, "the system's network.fast.domain must be an integer");
    lua_pop(L, 1);
    lua_getfield(L, -1, "mesh");
    out->network.fast.mesh = lua_toboolean(L, -1);
    lua_pop(L, 2);
    push_part(L, "slow");
    out->network.slow.bandwidth = number_field(L, "bandwidth", 0);
    read_slow_efficiency(L, out);
    out->network.slow.latency_s = number_field(L, "latency", 0);
    out->network.slow.nics_per_gpu = number_field(L, "nics_per_gpu", 0);
    lua_pop(L, 2);
}

static void read_host(lua_State *L, tperf_system *out) {
    if (!enter(L, "host")) return;
    out->host.bandwidth = number_field(L, "bandwidth", 0);
    out->host.efficiency = number_field(L, "efficiency", 1);
    out->host.memory_bandwidth = number_field(L, "memory_bandwidth", 0);
    lua_pop(L, 1);
}

static const char sealed_key; // its address is the registry's key of a table: system -> its struct

// Copies what a sealed system was read as.
static bool read_sealed(lua_State *L, int index, tperf_system *out) {
    index = lua_absindex(L, index);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &sealed_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        return false;
    }
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    const tperf_system *known = lua_touserdata(L, -1);
    if (known) *out = *known;
    lua_pop(L, 2);
    return known != NULL;
}

void tperf_bind_check_system(lua_State *L, int index, tperf_system *out) {
    luaL_checktype(L, index, LUA_TTABLE);
    luaL_checkstack(L, 12, NULL);
    if (read_sealed(L, index, out)) return;
    memset(out, 0, sizeof *out);
    lua_pushvalue(L, index);
    read_accelerator(L, out);
    read_network(L, out);
    read_host(L, out);
    lua_pop(L, 1);
    tperf_error error;
    if (tperf_system_validate(out, &error) != TPERF_OK) tperf_bind_raise(L, &error);
}

// check_system(table): raises when the core refuses it
static int check_system(lua_State *L) {
    tperf_system system;
    tperf_bind_check_system(L, 1, &system);
    return 0;
}

// seal_system(table): nobody changes it any more, or whoever asks with it looks first; it is read this once.
static int seal_system(lua_State *L) {
    lua_settop(L, 1);
    tperf_system *system = lua_newuserdatauv(L, sizeof *system, 0);
    tperf_bind_check_system(L, 1, system);
    tperf_bind_weak_table(L, &sealed_key);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_rawset(L, -3);
    return 0;
}

void tperf_bind_seal_system(lua_State *L) {
    lua_pushcfunction(L, seal_system);
}

void tperf_bind_system(lua_State *L) {
    lua_pushcfunction(L, check_system);
}
