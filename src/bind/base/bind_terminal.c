// bind_terminal.c: core.is_terminal(descriptor) and core.clock(), for progress lines and colours.
#include <time.h>
#include <unistd.h>

#include "bind/bind.h"

static int is_terminal(lua_State *L) {
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

// Seconds of a monotonic clock.
static int clock_seconds(lua_State *L) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushnumber(L, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    return 1;
}

void tperf_bind_is_terminal(lua_State *L) {
    lua_pushcfunction(L, is_terminal);
}

void tperf_bind_clock(lua_State *L) {
    lua_pushcfunction(L, clock_seconds);
}
