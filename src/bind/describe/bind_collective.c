// bind_collective.c: tperf.core.collective(system, rules, kind, bytes, gpus, fast, algorithm or nil) -> seconds, tiers
// (a list of { name, bytes, time } from the innermost out), algorithm; and
// tperf.core.routed_parts, documented below.
#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/describe/comm_record.h"
#include "bind/model_args.h"
#include "tperf/collective.h"

static int collective(lua_State *L) {
    tperf_system system;
    tperf_rules rules;
    tperf_bind_check_system(L, 1, &system);
    tperf_bind_check_rules(L, 2, &rules);
    int kind = luaL_checkoption(L, 3, NULL, tperf_collective_names);
    double bytes = luaL_checknumber(L, 4);
    tperf_group group = {luaL_checkinteger(L, 5), luaL_checkinteger(L, 6), 1, 1};
    tperf_error error;
    if (tperf_group_validate(group, &system, &error) != TPERF_OK)
        return tperf_bind_raise(L, &error);
    if (!(bytes >= 0) || !isfinite(bytes))
        return tperf_bind_fail(L, "'bytes' must not be negative");
    if (kind == TPERF_SEND && group.size > 2)
        return tperf_bind_fail(L, "a send takes place between 2 GPUs: gpus = 2, not %I",
                               (LUAI_UACINT)group.size);
    const tperf_asked_collective asked = {&system, &rules, (tperf_collective)kind, bytes, group};
    const char *name = luaL_optstring(L, 7, NULL);
    double seconds;
    tperf_route route;
    if (name && !tperf_collective_by(&asked, name, &seconds, &route))
        return tperf_bind_fail(
            L, "no algorithm '%s' of %s among %I GPUs, %I of a domain: %s is the one by itself",
            name, tperf_collective_names[kind], (LUAI_UACINT)group.size, (LUAI_UACINT)group.fast,
            tperf_collective_route(&system, &rules, asked.kind, 1, group).algorithm);
    if (!name) {
        seconds = tperf_collective_time(&system, &rules, asked.kind, bytes, group);
        route = tperf_collective_route(&system, &rules, asked.kind, bytes, group);
    }
    lua_pushnumber(L, seconds);
    tperf_bind_push_tiers(
        L, &(tperf_bind_comm){(tperf_collective)kind, bytes, group, route, 0, &system});
    lua_pushstring(L, route.algorithm);
    return 3;
}

// routed_parts(experts, top_k, groups, top_groups, parts): tperf_routing_parts
static int routed_parts(lua_State *L) {
    tperf_routing routing = {.experts = luaL_checknumber(L, 1),
                             .top_k = luaL_checknumber(L, 2),
                             .groups = luaL_checknumber(L, 3),
                             .top_groups = luaL_checknumber(L, 4)};
    const char *fault = tperf_routing_fault(&routing);
    if (fault) tperf_bind_fail(L, "experts: %s", fault);
    lua_pushnumber(L, tperf_routing_parts(&routing, luaL_checknumber(L, 5)));
    return 1;
}

void tperf_bind_collective(lua_State *L) {
    lua_pushcfunction(L, collective);
}

void tperf_bind_routed_parts(lua_State *L) {
    lua_pushcfunction(L, routed_parts);
}
