// bind_faults.c: tperf.core.faults, only in the debug, asan and coverage variants: failing allocations.
//   faults.fail(kind, n)   makes the n-th allocation of that kind from now on fail, once; 0: none
//   faults.count(kind)     -> the number of allocations since
// kind: "core" (malloc, calloc and realloc of our own C, of libyaml, and of the core's tperf_heap), "site" (of these,
// the first at each allocating place of the program), "lua" (Lua's requests to its allocator, also for a tperf_heap),
// and two that are not among the former: "read" (Lua's while it reads the code of one of the library's modules) and
// "load" (Lua's while that code runs for the first time). The environment does the same for a whole run:
// TPERF_FAULT=core:12. Its count goes to the file TPERF_FAULT_COUNT, after the sizes, one a line, of Lua's requests if
// these are counted and none fails.
//
// The linker (--wrap, see Makefile) redirects the calls of the program's own objects here, so the code is unaware of
// it; libyaml calls its yaml_malloc and the like through the dynamic linker, which finds these first.
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind/bind.h"

enum { CORE, SITE, LUA, READ, LOAD, KINDS, MOST_SITES = 256 };
static const char *const kind_names[] = {"core", "site", "lua", "read", "load", NULL};

static struct {
    atomic_llong count, failing; // the number of the failing allocation; 0: none
} kinds[KINDS];
static _Thread_local bool in_lua_allocator;
static _Thread_local int loading;     // nested modules of the library
static _Thread_local bool reading;    // the code of one
static const void *sites[MOST_SITES]; // [kinds[SITE].count]
static bool retry_fails;              // after Lua's emergency collection
static bool heap_retry_fails;         // likewise for users of its memory
static int counted = KINDS;           // the kind that the environment named
static FILE *counts;                  // TPERF_FAULT_COUNT

static bool fails(int kind) {
    long long number = atomic_fetch_add(&kinds[kind].count, 1) + 1;
    return number == atomic_load(&kinds[kind].failing);
}

static bool fails_at_new_site(const void *site) {
    static atomic_flag lock = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&lock))
        continue;
    long long n = atomic_load(&kinds[SITE].count), i = 0;
    while (i < n && sites[i] != site)
        i++;
    bool is_new = i == n && n < MOST_SITES;
    if (is_new) sites[n] = site;
    bool failing = is_new && fails(SITE);
    atomic_flag_clear(&lock);
    return failing;
}

static bool core_fails(const void *site) {
    bool site_fails = fails_at_new_site(site), failing = fails(CORE) || site_fails;
    if (failing) errno = ENOMEM; // as POSIX requires
    return failing;
}

static bool heap_fails(const void *site) {
    bool again = heap_retry_fails;
    heap_retry_fails = !again && core_fails(site);
    return again || heap_retry_fails;
}

#define HERE       __builtin_return_address(0)
#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *block, size_t size);
void *WRAP(malloc)(size_t size);
void *WRAP(calloc)(size_t count, size_t size);
void *WRAP(realloc)(void *block, size_t size);

void *WRAP(malloc)(size_t size) {
    return core_fails(HERE) ? NULL : REAL(malloc)(size);
}

void *WRAP(calloc)(size_t count, size_t size) {
    return core_fails(HERE) ? NULL : REAL(calloc)(count, size);
}

void *WRAP(realloc)(void *block, size_t size) {
    return !in_lua_allocator && core_fails(HERE) ? NULL : REAL(realloc)(block, size);
}

void *REAL(tperf_heap_new)(const tperf_heap *heap, size_t count, size_t size);
void *REAL(tperf_heap_zeroed)(const tperf_heap *heap, size_t count, size_t size);
void *REAL(tperf_heap_grow)(const tperf_heap *heap, void *block, size_t count, size_t size);
void *WRAP(tperf_heap_new)(const tperf_heap *heap, size_t count, size_t size);
void *WRAP(tperf_heap_zeroed)(const tperf_heap *heap, size_t count, size_t size);
void *WRAP(tperf_heap_grow)(const tperf_heap *heap, void *block, size_t count, size_t size);

void *WRAP(tperf_heap_new)(const tperf_heap *heap, size_t count, size_t size) {
    return heap_fails(HERE) ? NULL : REAL(tperf_heap_new)(heap, count, size);
}

void *WRAP(tperf_heap_zeroed)(const tperf_heap *heap, size_t count, size_t size) {
    return heap_fails(HERE) ? NULL : REAL(tperf_heap_zeroed)(heap, count, size);
}

void *WRAP(tperf_heap_grow)(const tperf_heap *heap, void *block, size_t count, size_t size) {
    return heap_fails(HERE) ? NULL : REAL(tperf_heap_grow)(heap, block, count, size);
}

// Absent from tperf/core.so, whose interpreter brings its own.
__attribute__((weak)) void *REAL(tperf_limits_allocate)(void *unused, void *block, size_t old,
                                                        size_t new);
void *WRAP(tperf_limits_allocate)(void *unused, void *block, size_t old, size_t new);

void *WRAP(tperf_limits_allocate)(void *unused, void *block, size_t old, size_t new) {
    if (new > (block ? old : 0)) {
        bool again = retry_fails;
        retry_fails = !again && fails(reading ? READ : loading ? LOAD : LUA);
        if (counts && !reading && !loading && counted == LUA &&
            atomic_load(&kinds[LUA].failing) == 0)
            fprintf(counts, "%zu\n", new);
        if (again || retry_fails) return NULL;
    }
    in_lua_allocator = true;
    void *result = REAL(tperf_limits_allocate)(unused, block, old, new);
    in_lua_allocator = false;
    return result;
}

int REAL(luaL_loadbufferx)(lua_State *L, const char *text, size_t size, const char *name,
                           const char *mode);
int WRAP(luaL_loadbufferx)(lua_State *L, const char *text, size_t size, const char *name,
                           const char *mode);

// Runs a module's code, the upvalue. An error leaves `loading` as it is until the next failure is set.
static int run_module(lua_State *L) {
    loading++;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    loading--;
    return lua_gettop(L);
}

int WRAP(luaL_loadbufferx)(lua_State *L, const char *text, size_t size, const char *name,
                           const char *mode) {
    reading = true;
    int status = REAL(luaL_loadbufferx)(L, text, size, name, mode);
    reading = false;
    loading++;
    if (status == LUA_OK) lua_pushcclosure(L, run_module, 1);
    loading--;
    return status;
}

// --- libyaml's ---

#define EXPORT __attribute__((visibility("default")))
EXPORT void *yaml_malloc(size_t size);
EXPORT void *yaml_realloc(void *block, size_t size);
EXPORT unsigned char *yaml_strdup(const unsigned char *text);

void *yaml_malloc(size_t size) {
    return malloc(size ? size : 1);
}

void *yaml_realloc(void *block, size_t size) {
    return block ? realloc(block, size ? size : 1) : malloc(size ? size : 1);
}

unsigned char *yaml_strdup(const unsigned char *text) {
    size_t size = text ? strlen((const char *)text) + 1 : 0;
    unsigned char *copy = size ? malloc(size) : NULL;
    return copy ? memcpy(copy, text, size) : NULL;
}

// --- counts of processes that exit immediately ---

#ifdef TPERF_COVERAGE
void __gcov_dump(void);
_Noreturn void REAL(_exit)(int status);
_Noreturn void WRAP(_exit)(int status);
int REAL(raise)(int signal_number);
int WRAP(raise)(int signal_number);

void WRAP(_exit)(int status) {
    __gcov_dump();
    REAL(_exit)(status);
}

int WRAP(raise)(int signal_number) {
    __gcov_dump();
    return REAL(raise)(signal_number);
}
#endif

// --- setting the failure ---

static void set(int kind, long long number) {
    atomic_store(&kinds[kind].count, 0);
    atomic_store(&kinds[kind].failing, number);
    retry_fails = false;
    heap_retry_fails = false;
    loading = 0;
}

static int fail(lua_State *L) {
    set(luaL_checkoption(L, 1, NULL, kind_names), luaL_checkinteger(L, 2));
    return 0;
}

static int count(lua_State *L) {
    lua_pushinteger(L, atomic_load(&kinds[luaL_checkoption(L, 1, NULL, kind_names)].count));
    return 1;
}

// Writes the count, and lets no allocation fail after main: gcov then writes its own counts.
static void stop(void) {
    if (counts) {
        fprintf(counts, "%lld\n", (long long)atomic_load(&kinds[counted].count));
        fclose(counts);
        counts = NULL;
    }
    set(CORE, 0);
    set(SITE, 0);
}

__attribute__((constructor)) static void read_environment(void) {
    atexit(stop);
    const char *text = getenv("TPERF_FAULT");
    for (int kind = 0; text && kind < KINDS; kind++) {
        size_t length = strlen(kind_names[kind]);
        if (strncmp(text, kind_names[kind], length) != 0 || text[length] != ':') continue;
        counted = kind;
        const char *path = getenv("TPERF_FAULT_COUNT");
        counts = path ? fopen(path, "w") : NULL;
        set(kind, strtoll(text + length + 1, NULL, 10));
    }
}

void tperf_bind_faults(lua_State *L) {
    static const luaL_Reg functions[] = {{"fail", fail}, {"count", count}, {NULL, NULL}};
    luaL_newlib(L, functions);
}
