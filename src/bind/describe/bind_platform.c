// bind_platform.c: core.platform, see bind/platform.h.
#include "bind/platform.h"

#include <string.h>

#include "bind/bind.h"
#include "bind/model_args.h"

static const char type_name[] = "tperf.platform";

const tperf_bind_platform *tperf_bind_check_platform(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

static tperf_bind_platform *push_platform(lua_State *L) {
    tperf_bind_platform *platform = lua_newuserdatauv(L, sizeof *platform, 0);
    memset(platform, 0, sizeof *platform);
    platform->software = tperf_software_none;
    luaL_setmetatable(L, type_name);
    return platform;
}

// platform(system, rules, software, serves)
static int new_platform(lua_State *L) {
    lua_settop(L, 4);
    tperf_bind_platform *platform = push_platform(L);
    tperf_bind_check_system(L, 1, &platform->described);
    platform->described.serves = lua_toboolean(L, 4);
    tperf_bind_check_rules(L, 2, &platform->rules);
    platform->system = platform->described;
    platform->has_software = !lua_isnil(L, 3);
    if (!platform->has_software) return 1;
    tperf_bind_check_software(L, 3, &platform->software);
    tperf_system_run(&platform->system, &platform->software);
    return 1;
}

const tperf_bind_platform *tperf_bind_push_bare(lua_State *L, const tperf_bind_platform *platform) {
    tperf_bind_platform *bare = push_platform(L);
    bare->described = bare->system = platform->described;
    bare->rules = platform->rules;
    return bare;
}

void tperf_bind_platforms(lua_State *L) {
    luaL_newmetatable(L, type_name);
    lua_pop(L, 1);
    lua_pushcfunction(L, new_platform);
}
