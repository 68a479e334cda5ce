// page.c: tperf as WebAssembly, for the page and for the npm package. One Lua state, created at the first question,
// answers questions as JSON: the page's with lua/tperf/page/, the package's with lua/tperf/door/. The program's own main
// is in the same module: the page runs scripts with it, each in a fresh instance.
#include <emscripten.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "bind/bind.h"
#include "cli/cli.h"

enum { GC_PAUSE = 400 }; // %: a question leaves little garbage beside what is remembered

static lua_State *state;

// (question, module) -> answer of the function that the module returns; opens the libraries before the first one.
static int answer(lua_State *L) {
    if (lua_getglobal(L, "require") == LUA_TNIL) {
        lua_gc(L, LUA_GCINC, GC_PAUSE, 0, 0);
        luaL_openlibs(L);
        tperf_bind_open(L);
        lua_getglobal(L, "require");
    }
    lua_pushvalue(L, 2);
    lua_call(L, 1, 1);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

// JSON in, JSON out, which the caller frees. NULL if out of memory even for that.
static char *answer_of(const char *module, const char *question) {
    if (!state) state = lua_newstate(tperf_limits_allocate, NULL);
    if (!state) return NULL;
    lua_pushcfunction(state, answer);
    lua_pushstring(state, question);
    lua_pushstring(state, module);
    // these modules catch all errors except a lack of memory
    int status = lua_pcall(state, 2, 1, 0);
    const char *text =
        status == LUA_OK ? lua_tostring(state, -1) : "{\"error\":\"not enough memory\"}";
    char *copy = strdup(text);
    lua_settop(state, 0);
    return copy;
}

EMSCRIPTEN_KEEPALIVE char *tperf_page_ask(const char *question) {
    return answer_of("tperf.page", question);
}

EMSCRIPTEN_KEEPALIVE char *tperf_door_ask(const char *question) {
    return answer_of("tperf.page.door", question);
}
