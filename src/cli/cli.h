// cli.h: what the files of the program share. The program is one process with one Lua state: it owns the
// signal handler, the memory and instruction budgets, and the functions that scripts get instead of the
// standard ones. Everything else (commands, options, the sandbox's table of names) is lua/tperf/cli/.
#ifndef TPERF_CLI_H
#define TPERF_CLI_H

#include <lua.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

// --- limits.c ---

// A lua_Alloc that counts, and refuses what would pass the limit.
void *tp_limits_allocate(void *unused, void *block, size_t old_size, size_t new_size);

// What a "not enough memory" message should add: the limit, when that is what was hit; else "".
const char *tp_limits_memory_hint(void);

// Installs the handler of Ctrl-C for this state: the first asks (tp_interrupt_raise), the second kills.
void tp_limits_catch_interrupts(lua_State *L);

// Counts steps of C code that a script can make arbitrarily long; ends the run at the budget or at Ctrl-C.
void tp_limits_charge(lua_State *L, uint64_t steps);

// Leaves the table { memory, instructions, interactive } of functions on the stack.
void tp_limits_push(lua_State *L);

// --- main.c ---

// Ends the process as a finished run would: standard output flushed and checked.
noreturn void tp_cli_exit(int status);

// --- output.c: leaves { folder, open, remove, rename } on the stack, confined to one folder. ---
void tp_output_push(lua_State *L);

// --- safe.c: leaves a table of functions on the stack that stand in for standard ones. ---
void tp_safe_push(lua_State *L);

// --- pattern_lib.c: adds find, match, gmatch and gsub, with a budget, to the table on top. ---
void tp_pattern_add(lua_State *L);

#endif
