// bind_normal.c: tperf.core.normal_below(z): the area of the standard normal distribution below z.
#include <math.h>

#include "bind/bind.h"

static int normal_below(lua_State *L) {
    lua_pushnumber(L, erfc(-luaL_checknumber(L, 1) / sqrt(2)) / 2);
    return 1;
}

void tperf_bind_normal_below(lua_State *L) {
    lua_pushcfunction(L, normal_below);
}
