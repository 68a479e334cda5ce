// ask.c: see tperf/ask.h. A handle is a Lua state with lua/tperf/door/, which answers.
#include "tperf/ask.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "bind/bind.h"

struct tperf_handle {
    lua_State *L; // its stack holds one value: the function that answers a text with a text
};

enum { GC_PAUSE = 400 }; // %: a question leaves little garbage beside what is remembered

// Texts come as addresses, since copying them into the state may fail, which only a protected call survives.
static void push_text(lua_State *L) {
    lua_pushstring(L, lua_touserdata(L, -1)); // NULL: nil
    lua_replace(L, -2);
}

// (address of data) -> the function that answers
static int open_library(lua_State *L) {
    lua_gc(L, LUA_GCINC, GC_PAUSE, 0, 0);
    luaL_openlibs(L);
    tperf_bind_open(L);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tperf.door.lines");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "open");
    lua_replace(L, -2);
    lua_insert(L, 1);
    push_text(L);
    lua_call(L, 1, 1);
    return 1;
}

// (the function that answers, address of the question) -> answer
static int answer(lua_State *L) {
    push_text(L);
    lua_call(L, 1, 1);
    return 1;
}

tperf_handle *tperf_open(const char *data, tperf_error *error) {
    tperf_handle *handle = calloc(1, sizeof *handle);
    lua_State *L = handle ? handle->L = luaL_newstate() : NULL;
    if (!L) {
        tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory");
        free(handle);
        return NULL;
    }
    lua_pushcfunction(L, open_library);
    lua_pushlightuserdata(L, (void *)data);
    int status = lua_pcall(L, 1, 1, 0);
    if (status == LUA_OK) return handle;
    const char *why = lua_tostring(L, -1);
    tperf_error_set(error, status == LUA_ERRMEM ? TPERF_NO_MEMORY : TPERF_INVALID, "%s",
                    why ? why : "the library cannot be opened");
    tperf_close(handle);
    return NULL;
}

tperf_status tperf_ask(tperf_handle *handle, const char *question, char **line) {
    lua_State *L = handle->L;
    lua_pushcfunction(L, answer);
    lua_pushvalue(L, 1);
    lua_pushlightuserdata(L, (void *)question);
    *line = lua_pcall(L, 2, 1, 0) == LUA_OK ? strdup(lua_tostring(L, -1)) : NULL;
    lua_settop(L, 1);
    return *line ? TPERF_OK : TPERF_NO_MEMORY;
}

void tperf_free(char *line) {
    free(line);
}

void tperf_close(tperf_handle *handle) {
    if (!handle) return;
    lua_close(handle->L);
    free(handle);
}
