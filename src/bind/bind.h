// bind.h: what the binding files share. Only src/bind and src/cli see lua.h.
// A binding checks its arguments, copies them into the core's structs, calls, and pushes the
// result.
#ifndef TPERF_BIND_H
#define TPERF_BIND_H

#include <lauxlib.h>
#include <lua.h>

#include "tperf/error.h"
#include "tperf/system.h"

// Puts tperf.core into package.loaded and the searcher for the embedded modules into
// package.searchers (after the disk when the environment names TPERF_LUA_DIR).
void tp_bind_open(lua_State *L);

// The module tperf.core itself, for tp_bind_open and for stock Lua's require.
int luaopen_tperf_core(lua_State *L);

// Raises *error as a Lua error that points at the caller's line. Never returns.
int tp_bind_raise(lua_State *L, const tp_error *error);

// Copies the system (a table made by tperf.system) at index; raises when the core refuses it.
void tp_bind_check_system(lua_State *L, int index, tp_system *out);

// Each leaves one function or table on the stack, a field of tperf.core.
void tp_bind_resource(lua_State *L);
void tp_bind_system(lua_State *L);
void tp_bind_units(lua_State *L);
void tp_bind_yaml(lua_State *L);
void tp_bind_is_terminal(lua_State *L);
void tp_bind_clock(lua_State *L);
void tp_bind_schedule(lua_State *L);

#endif
