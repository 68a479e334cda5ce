// limits.c: budgets of memory and instructions, and their interaction with Ctrl-C.
//
// A script can catch any Lua error, run code while one unwinds (__close), and keep hooks from running in some places
// (message handlers of errors raised by hooks, __gc). So exhausting the instructions is not an error that a script
// sees: the process reports it and ends. Only the interactive prompt raises an error instead.
//
// What is counted is the script's work: instructions, bytes of large blocks, and what safe.c, output.c and store.c charge
// for. The same script is charged the same, and ends at the same instruction, however busy the machine is.
//
// One instruction may also work for long: compare two long strings, pass a million values on, walk two thousand
// __index tables; and so may `next` on a table that was large and math.sin of a million digits. That work cannot be
// counted: Lua tells nobody which instruction runs, nor with what, and such operations call nothing that could be
// replaced. So it has an account of its own, by processor time: where instructions took far more of it than usual, those
// that follow are looked at one by one, and the slow ones noted, as are slow calls of the standard library. Where these
// took most of the time of two looks in a row, that counts: a machine that did something else meanwhile makes some of
// them seem slow, but not most. A script whose slow instructions took four times as long as the limit's instructions
// usually do ends, too. Time in other C functions does not count, since a search is no work of the script's.
#include "cli/cli.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/locale.h"
#include "base/small.h"
#include "bind/interrupt.h"
#include "io/ranks.h"

enum {
    HOOK_EVERY = 1000,  // instructions; under a millisecond
    HOOKS_PER_LOOK = 8, // at the processor time, which takes a system call
    LARGE = 1024,
    BYTES_PER_STEP = 16,   // of charged blocks
    SLOW_WINDOW = 4000000, // ns for the instructions between two looks, 30 times as long as usual
    SLOWEST_WINDOW = 32000000,
    SLOW = 10000,            // ns for one
    LONGEST_LOOK = 50000000, // ns
    NS_PER_STEP =
        40, // of a slow one: four times as long as usual, so that only scripts end that do little else
    MOST_STANDARD = 256,
};

static struct {
    tperf_small small;           // most of what Lua asks for
    size_t memory, memory_limit; // bytes; limit 0: none
    bool memory_hit;
    uint64_t steps, step_limit; // instructions
    uint64_t slow;              // as many would have taken the time of the slow ones
    bool counting;              // a count hook is always on
    bool hurried;               // the hook runs at every instruction
    atomic_bool interactive;    // raise instead of ending the process
    bool ending;                // process exit: memory need not be freed
    lua_State *main;
} limits;

static struct {
    long long processor; // ns of processor time at the last event that was looked at
    int hooks;           // since then
    bool own;            // since then, only Lua and the standard library have run
    int left;            // events of this look to come
    long long all, slow; // ns of its events, and of the slow ones
    long long before;    // ns of the slow ones in the look just before, if these took most of it
    int window; // ns: longer ones are followed by a look; doubled when that found nothing, since C took the time
} pace;

static struct {
    lua_CFunction functions[MOST_STANDARD];
    int n;
} standard;

static void on_event(lua_State *L, lua_Debug *ar);

static void look_every(lua_State *L, int instructions) {
    lua_sethook(L, on_event, LUA_MASKCOUNT, instructions);
}

// Charges where no error can be raised; if the budget is spent, makes the hook run at once.
static void spend(uint64_t steps) {
    limits.steps += steps;
    if (!limits.step_limit || limits.steps < limits.step_limit) return;
    limits.hurried = true;
    look_every(limits.main, 1);
}

bool tperf_limits_pay(uint64_t steps) {
    if (limits.counting) spend(steps);
    return !limits.counting || !limits.step_limit || limits.steps < limits.step_limit;
}

bool tperf_limits_spend(uint64_t steps) {
    tperf_limits_pay(steps);
    return *tperf_interrupt_flag() || limits.hurried;
}

void *tperf_limits_allocate(void *unused, void *block, size_t old_size, size_t new_size) {
    (void)unused;
    size_t old = block ? old_size : 0; // without a block, Lua passes the object's type here
    if (new_size == 0) {
        if (!limits.ending) tperf_small_free(&limits.small, block, old);
        limits.memory -= old;
        return NULL;
    }
    if (limits.memory_limit && new_size > old &&
        (new_size - old > limits.memory_limit ||
         limits.memory > limits.memory_limit - (new_size - old))) {
        limits.memory_hit = true;
        return NULL;
    }
    void *result = tperf_small_resize(&limits.small, block, old, new_size);
    if (!result) return NULL;
    limits.memory += new_size - old;
    // One instruction may create a string of any length: charge it by its size.
    if (limits.counting && new_size > old && new_size - old >= LARGE)
        spend((new_size - old) / BYTES_PER_STEP);
    return result;
}

void tperf_limits_end(void) {
#ifdef NDEBUG // otherwise leaks are checked
    limits.ending = true;
#endif
}

const char *tperf_limits_memory_hint(void) {
    static char text[96];
    if (!limits.memory_hit) return "";
    locale_t before = tperf_locale_enter();
    snprintf(text, sizeof text, " (the limit is %.6g MiB; --max-memory SIZE raises it)",
             (double)limits.memory_limit / (1 << 20));
    tperf_locale_leave(before);
    return text;
}

// Pushes "script.lua:3: " for the innermost line outside the library.
static void push_position(lua_State *L) {
    lua_Debug ar;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline > 0 && strncmp(ar.source, "@lua/tperf/", 11) != 0) {
            lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
            return;
        }
    }
    lua_pushliteral(L, "");
}

static void stop(lua_State *L, const char *message) {
    luaL_checkstack(L, 4, NULL);
    push_position(L);
    if (limits.interactive) {
        limits.steps = limits.slow = 0;
        lua_pushstring(L, message);
        lua_concat(L, 2);
        lua_error(L);
    }
    tperf_interrupts_claim_end();
    tperf_cli_say(lua_tostring(L, -1), message);
    tperf_cli_exit(1);
}

// A search honours the request itself and ends with the best so far, even while it runs Lua; a sweep ends after the
// current point. Both unless they take too long: a callback may loop.
static bool is_searching(lua_State *L) {
    lua_Debug ar;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "S", &ar);
        if (strcmp(ar.source, "@lua/tperf/question/search/init.lua") == 0 ||
            strcmp(ar.source, "@lua/tperf/question/sweep/runner.lua") == 0)
            return true;
    }
    return false;
}

void tperf_limits_charge(lua_State *L, uint64_t steps) {
    limits.steps += steps;
    // Ranks other than the first end when that one says so.
    if (*tperf_interrupt_flag() && tperf_ranks_self() == 0 &&
        (!is_searching(L) || tperf_interrupts_overdue()) && tperf_interrupt_take())
        stop(L, "interrupted");
    bool spent = limits.steps >= limits.step_limit, slow = limits.slow >= limits.step_limit;
    if (!limits.step_limit || (!spent && !slow)) return;
    char message[160];
    snprintf(message, sizeof message,
             "more than %llu instructions%s (--max-instructions N raises the limit)",
             (unsigned long long)limits.step_limit,
             spent ? "" : ", by the time that slow ones took, such as comparing long strings");
    stop(L, message);
}

// The processor time since the last look.
static long long take_time(void) {
    struct timespec time;
    pace.hooks = 0;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
    long long before = pace.processor;
    pace.processor = time.tv_sec * 1000000000LL + time.tv_nsec;
    return pace.processor - before;
}

static void begin_look(int events) {
    pace.left = events;
    pace.all = pace.slow = 0;
}

static void look_closely(lua_State *L) {
    begin_look(HOOK_EVERY);
    pace.before = 0;
    take_time();
    lua_sethook(L, on_event, LUA_MASKCOUNT | LUA_MASKCALL | LUA_MASKRET, 1);
}

static void look_away(lua_State *L) {
    take_time();
    if (pace.window < SLOWEST_WINDOW) pace.window *= 2;
    look_every(L, HOOK_EVERY);
}

// Ends a look. If slow instructions took most of it, charges for them and begins another.
static void end_look(void) {
    long long slow = 2 * pace.slow > pace.all ? pace.slow : 0;
    limits.slow += (uint64_t)(slow < pace.before ? slow : pace.before) / NS_PER_STEP;
    pace.before = slow;
    begin_look(slow ? HOOK_EVERY : 0);
    if (slow) pace.window = SLOW_WINDOW;
}

static bool enters_standard(lua_State *L, lua_Debug *ar) {
    if (ar->event != LUA_HOOKCALL && ar->event != LUA_HOOKTAILCALL) return false;
    lua_getinfo(L, "f", ar);
    lua_CFunction f = lua_tocfunction(L, -1);
    lua_pop(L, 1);
    if (!f) return false;
    for (int i = 0; i < standard.n; i++)
        if (standard.functions[i] == f) return true;
    return tperf_safe_replaces(f);
}

// An event while instructions are looked at one by one, and the time of what came before it.
static void look(lua_State *L, lua_Debug *ar) {
    long long time = take_time();
    pace.all += time;
    if (pace.own && time > SLOW) pace.slow += time;
    pace.own = ar->event == LUA_HOOKCOUNT || enters_standard(L, ar);
    if (--pace.left <= 0 || pace.all > LONGEST_LOOK) end_look();
}

// The instructions of a thread that were looked at one by one and are not charged yet: they are charged by the
// thousand, as where nobody looks, so that looking changes nothing.
static uint64_t *uncharged(lua_State *L) {
    return (uint64_t *)lua_getextraspace(L);
}

void tperf_limits_new_thread(lua_State *thread) {
    *uncharged(thread) = 0; // Lua copies the main thread's
}

static void count(lua_State *L, lua_Debug *ar) {
    int every = lua_gethookcount(L);
    uint64_t steps = ar->event == LUA_HOOKCOUNT ? (uint64_t)every : 0;
    // Ctrl-C ends the script soon; to ask at each instruction whether something honours it would itself be slow work.
    bool interrupted = *tperf_interrupt_flag() != 0;
    limits.hurried = false;
    if (every > 1) {
        pace.own = false;
        if (!interrupted && ++pace.hooks >= HOOKS_PER_LOOK && take_time() > pace.window)
            look_closely(L);
    } else {
        if (!interrupted) look(L, ar);
        *uncharged(L) += steps;
        steps = *uncharged(L) >= HOOK_EVERY ? HOOK_EVERY : 0;
        *uncharged(L) -= steps;
        if (interrupted || (steps && pace.left <= 0)) look_away(L);
    }
    tperf_limits_charge(L, steps);
}

static void on_event(lua_State *L, lua_Debug *ar) {
    if (limits.counting) {
        count(L, ar);
        return;
    }
    tperf_limits_charge(L, 0);
    if (*tperf_interrupt_flag())
        look_every(L, HOOK_EVERY);
    else
        lua_sethook(L, NULL, 0, 0); // on_interrupt's request has been honoured
}

void tperf_limits_look(lua_State *L) {
    if (!limits.counting)
        lua_sethook(L, on_event, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

bool tperf_limits_interactive(void) {
    return limits.interactive;
}

// limits.memory(bytes): limits the memory of Lua, and of the core on its behalf.
static int limit_memory(lua_State *L) {
    limits.memory_limit = (size_t)luaL_checkinteger(L, 1);
    limits.memory_hit = false;
    return 0;
}

// limits.memory_left(): bytes left of the limit; nothing without one, as in the page.
static int memory_left(lua_State *L) {
    if (!limits.memory_limit) return 0;
    size_t used = limits.memory < limits.memory_limit ? limits.memory : limits.memory_limit;
    lua_pushinteger(L, (lua_Integer)(limits.memory_limit - used));
    return 1;
}

// limits.instructions([count]): counts instructions from now on; coroutines created later inherit the hook.
static int limit_instructions(lua_State *L) {
    limits.steps = limits.slow = 0;
    *uncharged(L) = 0;
    limits.step_limit = (uint64_t)luaL_optinteger(L, 1, 0);
    limits.counting = true;
    take_time();
    look_every(L, HOOK_EVERY);
    return 0;
}

// limits.interactive(): from now on a limit or Ctrl-C raises an error; resets the budgets and Ctrl-C. Returns whether
// Ctrl-C had been pressed.
static int be_interactive(lua_State *L) {
    limits.interactive = true;
    limits.steps = limits.slow = 0;
    lua_pushboolean(L, tperf_interrupt_take());
    tperf_interrupts_catch(limits.main);
    return 1;
}

// limits.seconds(n): after so many seconds, what runs then ends as by Ctrl-C; 0: no longer.
static int limit_seconds(lua_State *L) {
    lua_Integer seconds = luaL_checkinteger(L, 1);
    luaL_argcheck(L, seconds >= 0 && seconds <= 1 << 30, 1, "a number of seconds is needed");
    tperf_interrupts_after((unsigned)seconds);
    return 0;
}

// Adds the functions of the table on top, and pops it.
static void add_functions(lua_State *L) {
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        if (lua_iscfunction(L, -1) && standard.n < MOST_STANDARD)
            standard.functions[standard.n++] = lua_tocfunction(L, -1);
    lua_pop(L, 1);
}

static void remove_function(lua_CFunction function) {
    for (int i = 0; i < standard.n; i++)
        if (standard.functions[i] == function)
            standard.functions[i--] = standard.functions[--standard.n];
}

// Those that read and write are left out: they wait for the system, and are charged by their bytes (safe.c).
static void find_standard(lua_State *L) {
    static const char *const libraries[] = {
        LUA_GNAME, LUA_STRLIBNAME, LUA_TABLIBNAME, LUA_MATHLIBNAME, LUA_UTF8LIBNAME, LUA_OSLIBNAME,
        NULL};
    for (int i = 0; libraries[i]; i++) {
        lua_getglobal(L, libraries[i]);
        add_functions(L);
    }
    lua_pushliteral(L, "");
    if (lua_getmetatable(L, -1)) add_functions(L); // arithmetic on texts
    lua_getglobal(L, "print");
    remove_function(lua_tocfunction(L, -1));
    lua_pop(L, 2);
}

void tperf_limits_push(lua_State *L) {
    limits.main = L;
    pace.window = SLOW_WINDOW;
    find_standard(L);
    static const luaL_Reg functions[] = {
        {"memory", limit_memory},
        {"memory_left", memory_left},
        {"instructions", limit_instructions},
        {"interactive", be_interactive},
        {"seconds", limit_seconds},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
}
