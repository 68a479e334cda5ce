// bind.h: shared by the binding files. Only src/bind and src/cli include lua.h. A binding checks its arguments, copies
// them into the core's structs, calls the core, and pushes the result.
#ifndef TPERF_BIND_H
#define TPERF_BIND_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>

#include "tperf/error.h"
#include "tperf/heap.h"
#include "tperf/system.h"

// Puts tperf.core into package.loaded, and the searcher for embedded modules into package.searchers (after that of the
// tree in TPERF_LUA_DIR).
void tperf_bind_open(lua_State *L);

// The module tperf.core itself, for tperf_bind_open and for stock Lua's require.
int luaopen_tperf_core(lua_State *L);

// Raise a Lua error at the user's line: the innermost one outside the library. The format has the directives of
// lua_pushfstring.
_Noreturn int tperf_bind_raise(lua_State *L, const tperf_error *error);
_Noreturn int tperf_bind_fail(lua_State *L, const char *format, ...);

// lua_pushfstring, but its numbers have a point whatever the thread's locale: scripts call some functions of C directly.
const char *tperf_bind_push_text(lua_State *L, const char *format, ...);

// The state's allocator: memory that the core holds for a script counts as Lua's. Blocks that remain when the state
// closes are freed.
void tperf_bind_open_heap(lua_State *L);
tperf_heap tperf_bind_heap(lua_State *L);
// Whether to retry after an allocation failed: collects garbage, once.
bool tperf_bind_try_again(lua_State *L, tperf_status status, bool *tried);

// The type name of a tperf_system that never changes.
#define TPERF_BIND_MACHINE "tperf.machine"

// Copies the system (a table from tperf.system, or a machine) at index; raises if the core rejects it.
void tperf_bind_check_system(lua_State *L, int index, tperf_system *out);

// Pushes zeroed memory as a userdata of this type; `release` is its __gc, which runs after errors, too.
void *tperf_bind_new(lua_State *L, size_t size, const char *type, lua_CFunction release);

// Puts an object in place of its view at index: lua/tperf/base/object/frozen.lua.
void tperf_bind_plain(lua_State *L, int index);

// Pushes the registry's table at this key, created if missing; its keys are weak.
void tperf_bind_weak_table(lua_State *L, const void *key);

// Pushes a closed Lua file; tperf_bind_open_stream gives it a descriptor, which it then owns. False with errno on
// failure.
luaL_Stream *tperf_bind_new_stream(lua_State *L);
bool tperf_bind_open_stream(luaL_Stream *stream, int descriptor, const char *mode);

// Each pushes one function or table, a field of tperf.core.
void tperf_bind_resource(lua_State *L);
void tperf_bind_system(lua_State *L);
void tperf_bind_codec(lua_State *L);
void tperf_bind_seal_system(lua_State *L);
void tperf_bind_curves(lua_State *L);
void tperf_bind_at_size(lua_State *L);
void tperf_bind_time_parts(lua_State *L);   // list of the names in a breakdown
void tperf_bind_memory_parts(lua_State *L); // list of { name, held = all the time }
void tperf_bind_collective(lua_State *L);
void tperf_bind_routed_parts(lua_State *L);
void tperf_bind_normal_below(lua_State *L);
void tperf_bind_locale(lua_State *L);
void tperf_bind_machine(lua_State *L);
void tperf_bind_machine_methods(lua_State *L); // pushes the table of its methods
void tperf_bind_decode(lua_State *L);
void tperf_bind_grid(lua_State *L);
void tperf_bind_block(lua_State *L);
void tperf_bind_block_on_line(lua_State *L);
void tperf_bind_workload(lua_State *L);
void tperf_bind_op(lua_State *L);
int tperf_bind_given_op(lua_State *L);    // op.given
int tperf_bind_communicate(lua_State *L); // op:communicate
void tperf_bind_pipelines(lua_State *L);
void tperf_bind_records(lua_State *L);
void tperf_bind_reread(lua_State *L);
void tperf_bind_platforms(lua_State *L);
void tperf_bind_jobs(lua_State *L);
// tperf.core.keep(rules): reads rules that nothing will change once, for all later uses.
void tperf_bind_keep(lua_State *L);
void tperf_bind_ranks(lua_State *L);
void tperf_bind_search(lua_State *L);
void tperf_bind_end_threads(lua_State *L); // of searches; the next one starts its own
void tperf_bind_infer(lua_State *L);
void tperf_bind_steps_on_line(lua_State *L);
void tperf_bind_serve(lua_State *L);
void tperf_bind_schedulers(lua_State *L);
void tperf_bind_csv(lua_State *L);
void tperf_bind_units(lua_State *L);
void tperf_bind_yaml(lua_State *L);
void tperf_bind_is_terminal(lua_State *L);
void tperf_bind_terminal_columns(lua_State *L);
void tperf_bind_clock(lua_State *L);
void tperf_bind_hidden(lua_State *L);
void tperf_bind_schedule(lua_State *L);
void tperf_bind_file(lua_State *L);
void tperf_bind_store(lua_State *L);
// Pushes the place of a database (bind_store.c) in a folder, whose descriptor it takes, and makes the database of these
// bytes if it is missing; false with errno.
bool tperf_bind_make_place(lua_State *L, int at, const char *path, const char *bytes, size_t size);

void tperf_bind_faults(lua_State *L); // where TPERF_FAULTS is defined

#endif
