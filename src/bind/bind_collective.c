// bind_collective.c: tperf.core.collective(system, rules, kind, bytes, gpus, fast) -> seconds.
#include <math.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/model_args.h"
#include "tperf/collective.h"

static int collective(lua_State *L) {
    tp_system system;
    tp_rules rules;
    tp_bind_check_system(L, 1, &system);
    tp_bind_check_rules(L, 2, &rules);
    int kind = luaL_checkoption(L, 3, NULL, tp_collective_names);
    double bytes = luaL_checknumber(L, 4);
    tp_group group = {luaL_checkinteger(L, 5), luaL_checkinteger(L, 6)};
    tp_error error;
    if (tp_group_validate(group, &system, &error) != TP_OK) return tp_bind_raise(L, &error);
    if (!(bytes >= 0) || !isfinite(bytes)) return tp_bind_fail(L, "'bytes' must not be negative");
    if (kind == TP_SEND && group.size > 2)
        return tp_bind_fail(L, "a send takes place between 2 GPUs: gpus = 2, not %I",
                            (LUAI_UACINT)group.size);
    lua_pushnumber(L, tp_collective_time(&system, &rules, (tp_collective)kind, bytes, group));
    return 1;
}

void tp_bind_collective(lua_State *L) {
    lua_pushcfunction(L, collective);
}
