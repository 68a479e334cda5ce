// main.c: the tperf program. Creates the Lua state and its limits, calls lua/tperf/cli/, and exits with 0 (done), 1 (an
// error) or 2 (wrong usage). All Lua runs under one protected call.
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bind/bind.h"
#include "cli/cli.h"
#include "io/ranks.h"
#include "io/stage.h"
#include "io/store.h"

enum { GC_HEAD_START = 16384 }; // KiB

static bool verbose;
static bool nothing_to_close;    // no script has run: what objects hold ends with the process
static const char traceback_key; // its address is the registry key

// The run has ended: commits the files that it left open. Returns the exit status.
static int finish_files(int status) {
    const char *failure = tperf_output_finish();
    if (!failure) return status;
    tperf_cli_say(failure, "");
    return status == 0 ? 1 : status;
}

// A process's first files get the lowest free numbers, and output goes to 1 and 2 regardless. Opens closed standard
// streams such that using them still fails.
static bool reserve_streams(void) {
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
        if (fcntl(i, F_GETFD) >= 0) continue;
        if (open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY) != i) return false;
    }
    return true;
}

static void tidy_at_signals(void) {
    static const int ends[] = {SIGHUP, SIGPIPE, SIGTERM, SIGXCPU, SIGXFSZ};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction action;
        if (sigaction(ends[i], NULL, &action) != 0 || action.sa_handler != SIG_DFL) continue;
        action.sa_handler = tperf_cli_end;
        sigemptyset(&action.sa_mask);
        sigaction(ends[i], &action, NULL);
    }
}

static int to_text(lua_State *L) {
    luaL_tolstring(L, 1, NULL);
    return 1;
}

// The message of any error object, even one whose __tostring fails; keeps the traceback for --verbose.
static int on_error(lua_State *L) {
    const char *kind = luaL_typename(L, 1);
    if (!lua_isstring(L, 1)) {
        bool readable = luaL_getmetafield(L, 1, "__tostring") != LUA_TNIL;
        lua_settop(L, 1);
        lua_pushcfunction(L, to_text);
        lua_insert(L, 1);
        if (!readable || lua_pcall(L, 1, 1, 0) != LUA_OK || !lua_isstring(L, -1))
            lua_pushfstring(L, "the error is a %s value", kind);
    }
    if (verbose) {
        luaL_traceback(L, L, NULL, 1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &traceback_key);
    }
    return 1;
}

static int set_verbose(lua_State *L) {
    verbose = lua_toboolean(L, 1);
    return 0;
}

static int close_nothing(lua_State *L) {
    (void)L;
#ifdef NDEBUG // otherwise leaks are checked
    nothing_to_close = true;
#endif
    return 0;
}

static int exit_now(lua_State *L) {
    tperf_cli_exit(finish_files((int)luaL_checkinteger(L, 1)));
}

// Pushes the functions that lua/tperf/cli/ needs from C: see lua/tperf/cli/init.lua.
static void push_host(lua_State *L) {
    lua_newtable(L);
    lua_pushcfunction(L, set_verbose);
    lua_setfield(L, -2, "verbose");
    lua_pushcfunction(L, exit_now);
    lua_setfield(L, -2, "exit");
    lua_pushcfunction(L, close_nothing);
    lua_setfield(L, -2, "close_nothing");
    tperf_limits_push(L);
    lua_setfield(L, -2, "limits");
    tperf_output_push(L);
    lua_setfield(L, -2, "output");
    tperf_input_push(L);
    lua_setfield(L, -2, "input");
    tperf_safe_push(L);
    lua_setfield(L, -2, "safe");
    tperf_line_push(L);
    lua_setfield(L, -2, "line");
}

static int run(lua_State *L) {
    int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);
    lua_gc(L, LUA_GCSTOP); // the library's own code is never garbage
    luaL_openlibs(L);
    tperf_bind_open(L);
    bool is_first = tperf_ranks_self() == 0;
    if (is_first)
        tperf_interrupts_catch(L);
    else
        tperf_interrupts_leave_to_first();
    tperf_store_ask(tperf_limits_spend);
    lua_getglobal(L, "require");
    lua_pushstring(L, is_first ? "tperf.cli" : "tperf.cli.sandbox.worker");
    lua_call(L, 1, 1);
    lua_gc(L, LUA_GCRESTART);
    lua_gc(L, LUA_GCSTEP, -GC_HEAD_START); // most questions end before there is much to collect
    push_host(L);
    lua_createtable(L, argc, 0);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_call(L, 2, 1);
    return 1;
}

static int report(lua_State *L, int status) {
    const char *message = lua_tostring(L, -1);
    if (!message) message = "an error without a message";
    bool memory = status == LUA_ERRMEM || strstr(message, "not enough memory");
    tperf_cli_say(message, memory ? tperf_limits_memory_hint() : "");
    if (verbose && lua_rawgetp(L, LUA_REGISTRYINDEX, &traceback_key) == LUA_TSTRING)
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
    return 1;
}

int main(int argc, char **argv) {
    if (!reserve_streams()) return 1; // there is no stream to report it on
    tidy_at_signals();
    tperf_ranks_start(&argc, &argv);
    tperf_store_use_heap(&(tperf_heap){tperf_limits_allocate, NULL});
    lua_State *L = lua_newstate(tperf_limits_allocate, NULL);
    if (!L) {
        fprintf(stderr, "tperf: not enough memory\n");
        return 1;
    }
    lua_pushcfunction(L, on_error);
    lua_pushcfunction(L, run);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    int status = lua_pcall(L, 2, 1, 1);
    int result = status == LUA_OK ? finish_files((int)lua_tointeger(L, -1)) : report(L, status);
    tperf_output_abandon();
    tperf_limits_end();
    if (!nothing_to_close) lua_close(L); // runs finalizers and closes variables
    tperf_cli_exit(result);
}
