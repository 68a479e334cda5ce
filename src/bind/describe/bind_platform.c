// bind_platform.c: core.platform, see bind/platform.h.
#include "bind/platform.h"

#include "bind/bind.h"
#include "bind/model_args.h"

static const char type_name[] = "tperf.platform";

const tperf_setup *tperf_bind_check_platform(lua_State *L, int index) {
    return luaL_checkudata(L, index, type_name);
}

static tperf_setup *push_setup(lua_State *L, const tperf_system *system, const tperf_rules *rules,
                               const tperf_software *software, tperf_mode mode) {
    tperf_setup *setup = lua_newuserdatauv(L, sizeof *setup, 0);
    tperf_setup_fill(setup, system, rules, software, mode);
    luaL_setmetatable(L, type_name);
    return setup;
}

// platform(system, rules, software, serves)
static int new_platform(lua_State *L) {
    lua_settop(L, 4);
    tperf_system system;
    tperf_rules rules;
    tperf_software software;
    tperf_bind_check_system(L, 1, &system);
    tperf_bind_check_rules(L, 2, &rules);
    bool has_software = !lua_isnil(L, 3);
    if (has_software) tperf_bind_check_software(L, 3, &software);
    push_setup(L, &system, &rules, has_software ? &software : NULL,
               lua_toboolean(L, 4) ? TPERF_SERVES : TPERF_TRAINS);
    return 1;
}

const tperf_setup *tperf_bind_push_bare(lua_State *L, const tperf_setup *platform) {
    return push_setup(L, &platform->described, &platform->rules, NULL,
                      platform->described.serves ? TPERF_SERVES : TPERF_TRAINS);
}

void tperf_bind_platforms(lua_State *L) {
    luaL_newmetatable(L, type_name);
    lua_pop(L, 1);
    lua_pushcfunction(L, new_platform);
}
