// cli.h: shared by the files of the program. The program is one process with one Lua state: it owns the signal handler,
// the memory and instruction budgets, and the replacements for standard functions. Everything else (commands, options,
// the sandbox's table of names) is in lua/tperf/cli/.
#ifndef TPERF_CLI_H
#define TPERF_CLI_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdnoreturn.h>

// --- limits.c ---

// A lua_Alloc that counts, and fails beyond the limit. The core allocates through it, too (tperf_bind_heap).
void *tperf_limits_allocate(void *unused, void *block, size_t old_size, size_t new_size);

// An addition to "not enough memory" messages: the limit, if it was reached; else "".
const char *tperf_limits_memory_hint(void);

// From now on freed memory is left to process exit.
void tperf_limits_end(void);

// Charges steps of C code that a script can make arbitrarily long; ends the run at the budget or at Ctrl-C.
void tperf_limits_charge(lua_State *L, uint64_t steps);

// Prepares a new thread, whose instructions are counted apart.
void tperf_limits_new_thread(lua_State *thread);

// Charges such steps where no error can be raised. Returns whether the work must end, because of the budget or Ctrl-C;
// the script then ends at its next instruction.
bool tperf_limits_spend(uint64_t steps);

// Likewise, for work that is finished in spite of Ctrl-C. Returns whether the budget still holds.
bool tperf_limits_pay(uint64_t steps);

// Makes the hook run at the next instruction; async-signal-safe.
void tperf_limits_look(lua_State *L);

// Whether limits and Ctrl-C raise errors, as at the prompt.
bool tperf_limits_interactive(void);

// Pushes the table of functions { memory, memory_left, instructions, interactive }.
void tperf_limits_push(lua_State *L);

// --- interrupts.c ---

// Installs the Ctrl-C handler for this state; under MPI, also for SIGTERM.
void tperf_interrupts_catch(lua_State *L);

// Handles Ctrl-C and SIGTERM on ranks other than the first: stops the computation, and ends when rank 0 says so or two
// seconds later.
void tperf_interrupts_leave_to_first(void);

// Asks the computation to end after so many seconds, as Ctrl-C does; 0: does not. One alarm at a time.
void tperf_interrupts_after(unsigned seconds);

// Whether the request is so old that even callbacks of searches and sweeps must end.
bool tperf_interrupts_overdue(void);

// Returns only in the one thread that ends the program.
void tperf_interrupts_claim_end(void);

// --- line.c ---

// Pushes line(), which returns a function that reads an edited line, or nil without libedit.
void tperf_line_push(lua_State *L);

// --- end.c ---

// Exits as a finished run does: flushes standard output and checks it.
noreturn void tperf_cli_exit(int status);

// Prints "tperf: " and a message on standard error, which may have texts of others in it: what is not visible of them is
// escaped. Standard output comes before it.
void tperf_cli_say(const char *message, const char *more);

// A handler for fatal signals: removes temporary files, then ends the process.
void tperf_cli_end(int signal_number);

// --- output.c ---

// Pushes a table of functions that write below one folder (see lua/tperf/cli/init.lua).
void tperf_output_push(lua_State *L);

// Commits the files that scripts left open. NULL, or a message naming the file that could not be written, and why.
const char *tperf_output_finish(void);

// Whether so many more bytes fit into a file that a script writes; if not, the file is given up (EFBIG).
bool tperf_output_fits(const FILE *file, size_t bytes);

// Discards the files that scripts left open.
void tperf_output_abandon(void);

// --- program.c ---

// Adds the program's own functions to the table of output functions on top.
void tperf_program_add(lua_State *L);

// Removes the temporary folder, if there is one. Async-signal-safe.
void tperf_program_end(void);

// --- input.c: pushes a table of functions that read regular files. ---
void tperf_input_push(lua_State *L);

// --- safe.c ---

// Pushes a table of replacements for standard functions.
void tperf_safe_push(lua_State *L);

// Whether a function is one of them.
bool tperf_safe_replaces(lua_CFunction function);

// --- pattern/pattern_lib.c: adds find, match, gmatch and gsub, with a budget, to the table on top. ---
void tperf_pattern_add(lua_State *L);

#endif
