// model_args.c: see model_args.h.
#include "bind/model_args.h"

#include <string.h>

#include "bind/bind.h"
#include "bind/fields.h"

// Further fields of the table are for the layout in Lua.
static void read_rules(lua_State *L, int index, tperf_rules *rules) {
    luaL_checktype(L, index, LUA_TTABLE);
    tperf_record_take(L, index, &tperf_rules_record, rules);
}

void tperf_bind_check_training(lua_State *L, int index, tperf_training *training) {
    tperf_record_read(L, index, &tperf_training_record, training);
}

void tperf_bind_check_software(lua_State *L, int index, tperf_software *software) {
    tperf_record_read(L, index, &tperf_software_record, software);
}

static const char kept_key; // registry key of a table: rules that never change -> their struct

// keep(rules)
static int keep(lua_State *L) {
    lua_settop(L, 1);
    tperf_bind_weak_table(L, &kept_key);
    lua_pushvalue(L, 1);
    read_rules(L, 1, lua_newuserdatauv(L, sizeof(tperf_rules), 0));
    lua_rawset(L, 2);
    return 0;
}

void tperf_bind_keep(lua_State *L) {
    lua_pushcfunction(L, keep);
}

void tperf_bind_check_rules(lua_State *L, int index, tperf_rules *rules) {
    index = lua_absindex(L, index);
    tperf_bind_plain(L, index);
    tperf_bind_weak_table(L, &kept_key);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    const tperf_rules *kept = lua_touserdata(L, -1);
    if (kept)
        *rules = *kept;
    else
        read_rules(L, index, rules);
    lua_pop(L, 2);
}

void tperf_bind_check_parts(lua_State *L, const tperf_workload *workload,
                            const tperf_placement *placement) {
    tperf_error error;
    if (tperf_placement_check(placement, workload, &error) != TPERF_OK)
        tperf_bind_fail(L, "%s", error.message);
}

void tperf_bind_check_placement(lua_State *L, int index, const tperf_workload *workload,
                                tperf_placement *placement) {
    size_t n = tperf_bind_check_sizes(L, index, placement->fast, TPERF_AXES_MAX);
    if (n != (size_t)workload->grid.n)
        tperf_bind_fail(L, "a placement of %d axes, not %d", workload->grid.n, (int)n);
    tperf_bind_check_parts(L, workload, placement);
}

void tperf_bind_check_order(lua_State *L, int index, int n_axes, tperf_rank_order *order) {
    int64_t axes[TPERF_AXES_MAX];
    unsigned seen = 0;
    order->n = (int)tperf_bind_check_sizes(L, index, axes, TPERF_AXES_MAX);
    for (int i = 0; i < order->n; i++) {
        if (axes[i] > n_axes || seen >> axes[i] & 1)
            tperf_bind_fail(L, "an order of ranks has each axis once, of %d", n_axes);
        seen |= 1u << axes[i];
        order->axes[i] = (int8_t)(axes[i] - 1);
    }
}

size_t tperf_bind_check_sizes(lua_State *L, int index, int64_t *out, size_t max) {
    size_t n = tperf_bind_length(L, index, "a list of sizes");
    if (n > max) tperf_bind_fail(L, "at most %I sizes, got %I", (LUAI_UACINT)max, (LUAI_UACINT)n);
    for (size_t i = 0; i < n; i++) {
        int whole;
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        out[i] = lua_tointegerx(L, -1, &whole);
        if (!whole || out[i] < 1) tperf_bind_fail(L, "a size must be an integer of at least 1");
        lua_pop(L, 1);
    }
    return n;
}

const int64_t *tperf_bind_push_sizes(lua_State *L, int index, size_t *n) {
    *n = 0;
    if (lua_isnoneornil(L, index)) {
        lua_pushnil(L);
        return NULL;
    }
    size_t length = tperf_bind_push_list(L, index, "a list of sizes");
    int64_t *list = lua_newuserdatauv(L, (length + 1) * sizeof *list, 0);
    lua_insert(L, -2);
    *n = tperf_bind_check_sizes(L, -1, list, length);
    lua_pop(L, 1);
    return list;
}
