// comm_record.c: see comm_record.h.
#include "bind/describe/comm_record.h"

#include "bind/fields.h"

static void set_text(lua_State *L, const char *name, const char *text) {
    lua_pushstring(L, text);
    lua_setfield(L, -2, name);
}

static void set_flag(lua_State *L, const char *name, bool value) {
    lua_pushboolean(L, value);
    lua_setfield(L, -2, name);
}

static void set_integer(lua_State *L, const char *name, int64_t value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, name);
}

void tperf_bind_push_tiers(lua_State *L, const tperf_bind_comm *c) {
    tperf_tier_use uses[TPERF_TIERS_MAX];
    int n = tperf_route_tiers(c->system, c->route, c->kind, c->group, uses);
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_createtable(L, 0, 3);
        set_text(L, "name", uses[i].name);
        tperf_fields_set(L, "bytes", uses[i].bytes);
        tperf_fields_set(L, "time", uses[i].seconds);
        lua_rawseti(L, -2, i + 1);
    }
}

void tperf_bind_push_comm(lua_State *L, const tperf_bind_comm *c) {
    lua_createtable(L, 0, 12);
    set_text(L, "kind", tperf_collective_names[c->kind]);
    tperf_fields_set(L, "bytes", c->bytes);
    set_integer(L, "gpus", c->group.size);
    set_integer(L, "fast", c->group.fast);
    tperf_fields_set(L, "time", c->seconds);
    tperf_fields_set(L, "fast_bytes", c->route.fast_bytes);
    tperf_fields_set(L, "nic_bytes", c->route.nic_bytes);
    set_text(L, "algorithm", c->route.algorithm);
    if (c->system->network.n_tiers == 0) return;
    tperf_bind_push_tiers(L, c);
    lua_setfield(L, -2, "tiers");
}

void tperf_bind_push_op_comm(lua_State *L, const tperf_workload *workload, const tperf_op *op,
                             const tperf_comm *comm, const tperf_platform *on,
                             const tperf_placement *placement) {
    double panels = tperf_panels_of(op, placement->panels);
    double times = tperf_comm_is_once(comm) ? 1 : tperf_op_times(op);
    tperf_group group = tperf_comm_group(comm, on, workload->sizes, placement);
    double seconds = times * panels * tperf_comm_time(comm, on, workload->sizes, placement, panels);
    tperf_route route = tperf_comm_route(comm, on, group, panels);
    route.fast_bytes *= times * panels;
    route.nic_bytes *= times * panels;
    for (int i = 0; i < TPERF_TIERS_MAX - 2; i++)
        route.up_bytes[i] *= times * panels;
    tperf_bind_push_comm(
        L, &(tperf_bind_comm){comm->kind, times * comm->bytes, group, route, seconds, on->system});
    set_text(L, "axis", comm->axis);
    set_flag(L, "beside", comm->beside);
    if (tperf_comm_is_once(comm)) set_flag(L, "once", true);
}
