// bind_system.c: reads a system's Lua table (lua/tperf/describe/system.lua) into the core's struct.
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"
#include "machine/curves.h"
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

// Reads the curve from the table on top of the stack.
static void read_curve(lua_State *L, const tperf_curve *row, void *curve) {
    read_numbers(L, row->numbers, curve);
    if (!row->heads) return;
    tperf_attention_curve *attention = curve;
    attention->n_sizes = read_list(L, "head_dim", attention->head_size, TPERF_HEAD_SIZES_MAX);
    read_list(L, "efficiency", attention->efficiency, TPERF_HEAD_SIZES_MAX);
    read_backward(L, attention);
}

// Enters the table at a path like "hbm.stream" below the one on top of the stack, in whose place it then stands.
static bool enter_path(lua_State *L, const char *path) {
    lua_pushvalue(L, -1);
    for (const char *dot = path; path; path = dot ? dot + 1 : NULL) {
        char part[32];
        dot = strchr(path, '.');
        snprintf(part, sizeof part, "%.*s", dot ? (int)(dot - path) : (int)strlen(path), path);
        bool is_table = lua_getfield(L, -1, part) == LUA_TTABLE;
        lua_remove(L, -2);
        if (is_table) continue;
        lua_pop(L, 1);
        return false;
    }
    return true;
}

// Reads a curve, or one for each dtype, from the table on top of the stack.
static void read_row(lua_State *L, const tperf_curve *row, tperf_curves *curves) {
    if (!row->by_dtype) {
        read_curve(L, row, tperf_curve_at(curves, row, 0));
        return;
    }
    for (int i = 0; i < TPERF_DTYPE_COUNT; i++) {
        if (!enter(L, tperf_dtype_names[i])) continue;
        read_curve(L, row, tperf_curve_at(curves, row, i));
        lua_pop(L, 1);
    }
}

// Reads all curves of the system on top of the stack. A number stands where a constant takes their place.
static void read_curves(lua_State *L, tperf_curves *curves) {
    for (const tperf_curve *row = tperf_curve_rows; row->place; row++) {
        if (!enter_path(L, row->place)) continue;
        if (enter(L, row->name)) {
            read_row(L, row, curves);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
}

// The constant at `efficiency` of the table on top of the stack; beside curves, that of field `other`, or `missing`.
static double read_constant(lua_State *L, const char *efficiency, const char *other,
                            double missing) {
    if (!enter(L, efficiency)) return number_field(L, efficiency, 0);
    double constant = other ? number_field(L, other, 0) : missing;
    lua_pop(L, 1);
    return constant;
}

static void read_accelerator(lua_State *L, tperf_system *out) {
    push_part(L, "accelerator");
    read_peaks(L, "tensor", out->accelerator.tensor);
    read_peaks(L, "vector", out->accelerator.vector);
    out->accelerator.compute_efficiency = read_constant(L, "compute_efficiency", "other", 0);
    lua_getfield(L, -1, "sparse");
    out->accelerator.sparse = lua_toboolean(L, -1);
    lua_pop(L, 2);
}

// The part of a tier's bandwidth that is left after failures: `degraded`, or 1.
static double left_of(lua_State *L) {
    return number_field(L, "degraded", 1);
}

static void read_name(lua_State *L, char name[TPERF_TIER_NAME_MAX]) {
    lua_getfield(L, -1, "name");
    snprintf(name, TPERF_TIER_NAME_MAX, "%s", luaL_checkstring(L, -1));
    lua_pop(L, 1);
}

// Reads a tier of uplinks from the table on top of the stack; inward: bytes/s per GPU, and latency, of the tier inward.
static void read_tier(lua_State *L, tperf_tier *tier, double *inward, double *latency) {
    read_name(L, tier->name);
    double over = number_field(L, "oversubscription", 1);
    *inward = number_field(L, "bandwidth", *inward / over);
    *latency = number_field(L, "latency", *latency);
    tier->bandwidth = *inward * left_of(L);
    tier->efficiency = number_field(L, "efficiency", 0);
    tier->latency_s = *latency;
    lua_getfield(L, -1, "shared");
    tier->alone = !lua_isnil(L, -1) && !lua_toboolean(L, -1);
    lua_pop(L, 1);
}

// Reads how units are linked, from the tier on top of the stack, whose size is given if it is a mesh.
static void read_links(lua_State *L, tperf_tier *tier) {
    if (enter(L, "axes")) {
        lua_pop(L, 1);
        read_list(L, "axes", tier->axes, TPERF_TORUS_AXES);
    }
    lua_getfield(L, -1, "topology");
    bool mesh = lua_isstring(L, -1) && strcmp(lua_tostring(L, -1), "all_to_all") == 0;
    lua_getfield(L, -2, "size");
    if (mesh) tier->mesh = luaL_checkinteger(L, -1) / tier->unit;
    lua_pop(L, 2);
}

static tperf_tier *add_tier(lua_State *L, tperf_system *out, int64_t unit, bool outside) {
    if (out->network.n_tiers == TPERF_TIERS_MAX - 2)
        luaL_error(L, "a network has at most %d tiers", TPERF_TIERS_MAX);
    tperf_tier *tier = &out->network.tiers[out->network.n_tiers++];
    tier->unit = unit;
    tier->outside = outside;
    return tier;
}

// The NICs' tier, if domains have links to each other and no switch: what passes them, beside the ports.
static void read_nic_links(lua_State *L, tperf_system *out, int64_t unit) {
    tperf_tier links = {.unit = unit};
    read_links(L, &links);
    if (!(links.axes[0] > 0) && links.mesh == 0) return;
    tperf_tier *tier = add_tier(L, out, unit, true);
    memcpy(tier->axes, links.axes, sizeof tier->axes);
    tier->mesh = links.mesh;
    snprintf(tier->name, sizeof tier->name, "%.24s links", out->network.slow.name);
    tier->bandwidth = out->network.slow.bandwidth * out->network.slow.nics_per_gpu * left_of(L);
    tier->latency_s = out->network.slow.latency_s;
}

// Reads the tiers that GPUs have no ports to, from the network on top of the stack.
static void read_tiers(lua_State *L, tperf_system *out) {
    if (!enter(L, "tiers")) return;
    double inward = out->network.fast.bandwidth, latency = out->network.fast.latency_s;
    lua_Integer unit = 1, n = (lua_Integer)lua_rawlen(L, -1);
    bool outside = false;
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, -1, i);
        luaL_checktype(L, -1, LUA_TTABLE);
        bool nics = lua_getfield(L, -1, "nics_per_gpu") != LUA_TNIL;
        lua_pop(L, 1);
        if (i == 1) read_name(L, out->network.fast.name);
        if (nics) {
            read_name(L, out->network.slow.name);
            inward = out->network.slow.bandwidth * out->network.slow.nics_per_gpu;
            latency = out->network.slow.latency_s;
            read_nic_links(L, out, unit);
        } else if (i > 1) {
            tperf_tier *tier = add_tier(L, out, unit, outside);
            read_tier(L, tier, &inward, &latency);
            read_links(L, tier);
        }
        outside = outside || nics;
        lua_getfield(L, -1, "size");
        unit = luaL_optinteger(L, -1, unit);
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

static void read_network(lua_State *L, tperf_system *out) {
    push_part(L, "network");
    push_part(L, "fast");
    out->network.fast.efficiency = read_constant(L, "efficiency", "send", 0);
    double fast_left = left_of(L);
    lua_getfield(L, -1, "domain");
    int whole;
    out->network.fast.domain = lua_tointegerx(L, -1, &whole);
    if (!whole) luaL_error(L, "the system's network.fast.domain must be an integer");
    lua_pop(L, 1);
    lua_getfield(L, -1, "mesh");
    out->network.fast.mesh = lua_toboolean(L, -1);
    lua_pop(L, 1);
    if (enter(L, "axes")) {
        lua_pop(L, 1);
        read_list(L, "axes", out->network.fast.axes, TPERF_TORUS_AXES);
    }
    lua_pop(L, 1);
    push_part(L, "slow");
    out->network.slow.efficiency =
        read_constant(L, "efficiency", NULL, out->curves.slow.efficiency);
    double slow_left = left_of(L);
    lua_pop(L, 1);
    read_tiers(L, out);
    out->network.fast.bandwidth *= fast_left;
    out->network.slow.bandwidth *= slow_left;
    lua_pop(L, 1);
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
    tperf_bind_plain(L, index);
    bool sealed = push_sealed(L, index);
    if (sealed) *out = *(const tperf_system *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (sealed) return;
    memset(out, 0, sizeof *out);
    lua_pushvalue(L, index);
    read_numbers(L, tperf_system_numbers, out);
    read_room(L, out);
    read_curves(L, &out->curves);
    read_accelerator(L, out);
    read_network(L, out);
    read_host(L, out);
    lua_pop(L, 1);
    tperf_system_complete(out);
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
    tperf_bind_plain(L, 1);
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

static void push_numbers(lua_State *L, const tperf_system_number *numbers) {
    lua_newtable(L);
    for (const tperf_system_number *f = numbers; f->name; f++) {
        lua_createtable(L, 0, 5);
        lua_pushstring(L, f->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, f->unit);
        lua_setfield(L, -2, "unit");
        tperf_fields_set(L, "low", f->low);
        tperf_fields_set(L, "high", f->high);
        lua_pushboolean(L, f->optional);
        lua_setfield(L, -2, "optional");
        lua_rawseti(L, -2, f - numbers + 1);
    }
}

// curves: list of { place, name, kind, by_dtype, required, heads, numbers = list of { name, unit, low, high, optional } }, from
// which the schema of systems is built.
void tperf_bind_curves(lua_State *L) {
    lua_newtable(L);
    for (const tperf_curve *row = tperf_curve_rows; row->place; row++) {
        lua_createtable(L, 0, 7);
        lua_pushstring(L, row->place);
        lua_setfield(L, -2, "place");
        lua_pushstring(L, row->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, row->kind);
        lua_setfield(L, -2, "kind");
        lua_pushboolean(L, row->by_dtype);
        lua_setfield(L, -2, "by_dtype");
        lua_pushboolean(L, row->required);
        lua_setfield(L, -2, "required");
        lua_pushboolean(L, row->heads);
        lua_setfield(L, -2, "heads");
        push_numbers(L, row->numbers);
        lua_setfield(L, -2, "numbers");
        lua_rawseti(L, -2, row - tperf_curve_rows + 1);
    }
}
