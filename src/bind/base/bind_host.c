// bind_host.c: what surrounds the library: the terminal, and which characters of others' texts it must not get
// (tperf.core.hidden); the clock; the locale (tperf.core.locale, for lua/tperf/base/entry/neutral.lua).
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/locale.h"
#include "base/visible.h"
#include "bind/bind.h"

static int is_terminal(lua_State *L) {
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

// terminal_columns(descriptor) -> characters of a line of that terminal, nil if it does not say
static int terminal_columns(lua_State *L) {
    struct winsize size;
    int descriptor = (int)luaL_checkinteger(L, 1);
    if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
    lua_pushinteger(L, size.ws_col);
    return 1;
}

// Seconds of a monotonic clock.
static int clock_seconds(lua_State *L) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushnumber(L, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    return 1;
}

// hidden(text, from = 1, lines) -> the first and the last byte of the next character that cannot be shown as it is
// (base/visible.h), line ends and tabs too unless `lines`, and its code, nil for a byte that is not UTF-8; nothing
// without one.
static int hidden(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    lua_Integer from = luaL_optinteger(L, 2, 1);
    bool lines = lua_toboolean(L, 3);
    luaL_argcheck(L, from >= 1, 2, "a position is needed");
    for (size_t i = (size_t)from - 1; i < size;) {
        if ((text[i] >= 0x20 && text[i] < 0x7F) ||
            (lines && (text[i] == '\n' || text[i] == '\t'))) {
            i++;
            continue;
        }
        tperf_character c = tperf_character_at(text + i, size - i);
        if (!tperf_character_visible(c)) {
            lua_pushinteger(L, (lua_Integer)i + 1);
            lua_pushinteger(L, (lua_Integer)(i + c.bytes));
            if (!c.valid) return 2;
            lua_pushinteger(L, (lua_Integer)c.code);
            return 3;
        }
        i += c.bytes;
    }
    return 0;
}

void tperf_bind_hidden(lua_State *L) {
    lua_pushcfunction(L, hidden);
}

void tperf_bind_is_terminal(lua_State *L) {
    lua_pushcfunction(L, is_terminal);
}

void tperf_bind_terminal_columns(lua_State *L) {
    lua_pushcfunction(L, terminal_columns);
}

void tperf_bind_clock(lua_State *L) {
    lua_pushcfunction(L, clock_seconds);
}

// is_plain() -> boolean
static int is_plain(lua_State *L) {
    lua_pushboolean(L, tperf_locale_is_plain());
    return 1;
}

// enter() -> the locale that was
static int enter(lua_State *L) {
    lua_pushlightuserdata(L, (void *)tperf_locale_enter());
    return 1;
}

// leave(the locale that was)
static int leave(lua_State *L) {
    luaL_checktype(L, 1, LUA_TLIGHTUSERDATA);
    tperf_locale_leave((locale_t)lua_touserdata(L, 1));
    return 0;
}

void tperf_bind_locale(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"is_plain", is_plain}, {"enter", enter}, {"leave", leave}, {NULL, NULL}};
    luaL_newlib(L, functions);
}
