// ask.c: see tperf/ask.h. A handle is a Lua state with lua/tperf/door/, which answers.
#include "tperf/ask.h"

#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/interrupt.h"

struct tperf_handle {
    // Its stack holds one value: the function that answers a text with a text. NULL after a question was cancelled,
    // which may leave anything half done.
    lua_State *L;
    char *data; // as given to tperf_open, or NULL
    atomic_int cancelled;
    atomic_int stop; // the same for the core, and cleared by a search that ends early
    atomic_long done, total;
};

enum { GC_PAUSE = 400 };    // %: a question leaves little garbage beside what is remembered
enum { HOOK_EVERY = 1000 }; // instructions; under a millisecond

static tperf_handle *handle_of(lua_State *L) {
    return *(tperf_handle **)lua_getextraspace(L);
}

static void end_if_cancelled(lua_State *L, lua_Debug *unused) {
    (void)unused;
    if (atomic_load_explicit(&handle_of(L)->cancelled, memory_order_relaxed))
        luaL_error(L, "interrupted");
}

// (done, total), or nothing at the end
static int report(lua_State *L) {
    tperf_handle *handle = handle_of(L);
    atomic_store(&handle->done, (long)fmin(luaL_optnumber(L, 1, 0), INT_MAX));
    atomic_store(&handle->total, (long)fmin(luaL_optnumber(L, 2, 0), INT_MAX));
    return 0;
}

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
    lua_pushcfunction(L, report);
    lua_call(L, 2, 1);
    lua_sethook(L, end_if_cancelled, LUA_MASKCOUNT, HOOK_EVERY);
    return 1;
}

// (the function that answers, address of the question) -> answer
static int answer(lua_State *L) {
    push_text(L);
    lua_call(L, 1, 1);
    return 1;
}

static tperf_status open_state(tperf_handle *handle, tperf_error *error) {
    lua_State *L = luaL_newstate();
    if (!L) return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory");
    *(tperf_handle **)lua_getextraspace(L) = handle;
    lua_pushcfunction(L, open_library);
    lua_pushlightuserdata(L, handle->data);
    int status = lua_pcall(L, 1, 1, 0);
    if (status == LUA_OK) {
        handle->L = L;
        return TPERF_OK;
    }
    const char *why = lua_tostring(L, -1);
    tperf_error_set(error, TPERF_INVALID, "%s", why ? why : "the library cannot be opened");
    lua_close(L);
    return status == LUA_ERRMEM ? TPERF_NO_MEMORY : TPERF_INVALID;
}

tperf_handle *tperf_open(const char *data, tperf_error *error) {
    tperf_handle *handle = calloc(1, sizeof *handle);
    if (!handle || (data && !(handle->data = strdup(data)))) {
        tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory");
    } else if (open_state(handle, error) == TPERF_OK) {
        return handle;
    }
    tperf_close(handle);
    return NULL;
}

tperf_status tperf_ask(tperf_handle *handle, const char *question, char **line) {
    *line = NULL;
    atomic_store(&handle->stop, 0);
    atomic_store(&handle->cancelled, 0);
    atomic_store(&handle->done, 0);
    atomic_store(&handle->total, 0);
    if (!handle->L && open_state(handle, NULL) != TPERF_OK) return TPERF_NO_MEMORY;
    lua_State *L = handle->L;
    lua_pushcfunction(L, answer);
    lua_pushvalue(L, 1);
    lua_pushlightuserdata(L, (void *)question);
    tperf_interrupt_use(&handle->stop);
    int status = lua_pcall(L, 2, 1, 0);
    tperf_interrupt_use(NULL);
    if (atomic_load(&handle->cancelled)) {
        lua_close(L);
        handle->L = NULL;
        return TPERF_INTERRUPTED;
    }
    if (status == LUA_OK) *line = strdup(lua_tostring(L, -1));
    lua_settop(L, 1);
    return *line ? TPERF_OK : TPERF_NO_MEMORY;
}

void tperf_cancel(tperf_handle *handle) {
    atomic_store(&handle->cancelled, 1);
    atomic_store(&handle->stop, 1);
}

void tperf_progress(tperf_handle *handle, long *done, long *total) {
    *done = atomic_load(&handle->done);
    *total = atomic_load(&handle->total);
}

void tperf_free(char *line) {
    free(line);
}

void tperf_close(tperf_handle *handle) {
    if (!handle) return;
    if (handle->L) lua_close(handle->L);
    free(handle->data);
    free(handle);
}
