// cli.h: what the files of the program share. The program is one process with one Lua state: it owns the
// signal handler, the memory and instruction budgets, and the functions that scripts get instead of the
// standard ones. Everything else (commands, options, the sandbox's table of names) is lua/tperf/cli/.
#ifndef TPERF_CLI_H
#define TPERF_CLI_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

// --- limits.c ---

// A lua_Alloc that counts, and refuses what would pass the limit. The core allocates through it, too (tperf_bind_heap).
void *tperf_limits_allocate(void *unused, void *block, size_t old_size, size_t new_size);

// What a "not enough memory" message should add: the limit, when that is what was hit; else "".
const char *tperf_limits_memory_hint(void);

// From now on freed memory is left to the end of the process.
void tperf_limits_end(void);

// Counts steps of C code that a script can make arbitrarily long; ends the run at the budget or at Ctrl-C.
void tperf_limits_charge(lua_State *L, uint64_t steps);

// Counts such steps where no error can be raised; whether the work has to end, as the budget is spent or Ctrl-C was
// pressed. The script ends at its next instruction.
bool tperf_limits_spend(uint64_t steps);

// Makes the hook run at the next instruction; async-signal-safe.
void tperf_limits_look(lua_State *L);

// Whether limits and Ctrl-C raise errors: at the prompt.
bool tperf_limits_interactive(void);

// Leaves the table { memory, memory_left, instructions, interactive } of functions on the stack.
void tperf_limits_push(lua_State *L);

// --- interrupts.c ---

// Installs the handler of Ctrl-C for this state; under MPI, of SIGTERM, too.
void tperf_interrupts_catch(lua_State *L);

// What a rank other than the first does at Ctrl-C and SIGTERM: it stops what it computes, and ends when the first rank
// says so, or two seconds later.
void tperf_interrupts_leave_to_first(void);

// Whether the request is so old that callbacks of searches and sweeps end, too.
bool tperf_interrupts_overdue(void);

// Whoever returns from it is the only one to end the program.
void tperf_interrupts_claim_end(void);

// --- line.c ---

// Leaves line() on the stack: it returns a function that reads an edited line, or nil without libedit.
void tperf_line_push(lua_State *L);

// --- end.c ---

// Ends the process as a finished run would: standard output flushed and checked.
noreturn void tperf_cli_exit(int status);

// A handler of signals that end the process: leaves no temporary file behind.
void tperf_cli_end(int signal_number);

// --- output.c ---

// Leaves a table of functions on the stack that write below one folder (see lua/tperf/cli/init.lua).
void tperf_output_push(lua_State *L);

// Puts in place what scripts left open; NULL, or which file of the run could not be written, and why.
const char *tperf_output_finish(void);

// Gives up what scripts left open.
void tperf_output_abandon(void);

// --- input.c: leaves a table of functions on the stack that read regular files. ---
void tperf_input_push(lua_State *L);

// --- safe.c: leaves a table of functions on the stack that stand in for standard ones. ---
void tperf_safe_push(lua_State *L);

// --- pattern_lib.c: adds find, match, gmatch and gsub, with a budget, to the table on top. ---
void tperf_pattern_add(lua_State *L);

#endif
