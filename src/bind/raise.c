// raise.c: errors at the user's line, and texts, see bind.h.
#include <stdarg.h>

#include "base/locale.h"
#include "bind/bind.h"

// tperf.base.check knows which frames are the user's; before it is loaded there are no user frames.
static void push_where(lua_State *L) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, "tperf.base.check") == LUA_TTABLE) {
        lua_getfield(L, -1, "where");
        lua_call(L, 0, 1);
    } else {
        luaL_where(L, 1);
    }
}

static const char *push_text(lua_State *L, const char *format, va_list arguments) {
    locale_t before = tperf_locale_enter();
    const char *text = lua_pushvfstring(L, format, arguments);
    tperf_locale_leave(before);
    return text;
}

const char *tperf_bind_push_text(lua_State *L, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = push_text(L, format, arguments);
    va_end(arguments);
    return text;
}

int tperf_bind_fail(lua_State *L, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    push_where(L);
    push_text(L, format, arguments);
    va_end(arguments);
    lua_concat(L, 2);
    lua_error(L), __builtin_unreachable();
}

int tperf_bind_raise(lua_State *L, const tperf_error *error) {
    tperf_bind_fail(L, "%s", error->message);
}

bool tperf_bind_try_again(lua_State *L, tperf_status status, bool *tried) {
    if (status != TPERF_NO_MEMORY || *tried) return false;
    *tried = true;
    lua_gc(L, LUA_GCCOLLECT);
    return true;
}
