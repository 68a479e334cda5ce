// line.c: the prompt's line editing, history and completion by libedit, if installed. It is loaded when a prompt
// starts; the program neither builds nor links against it.
#include <dlfcn.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

// Characters that separate words for completion. '.' and '-' belong to names: tperf.search, llama-3.1-70b.
static const char word_breaks[] = " \t\n\"'=<>~;,(){}[]+*/%^#";

static struct {
    char *(*readline)(const char *prompt);
    int (*add_history)(const char *line);
    lua_State *L; // while a line is read; the completion function is at stack index 2
} editor;

static void *symbol(void *library, const char *name, bool *all) {
    void *found = dlsym(library, name);
    if (!found) *all = false;
    return found;
}

// The next completion of a word, as readline asks: from state 0 on, until NULL. The caller frees it.
static char *next_completion(const char *text, int state) {
    lua_State *L = editor.L;
    if (state == 0) {
        lua_settop(L, 2);
        lua_pushvalue(L, 2);
        lua_pushstring(L, text);
        if (lua_pcall(L, 1, 1, 0) != LUA_OK || !lua_istable(L, 3)) return NULL;
    }
    bool there = lua_rawgeti(L, 3, (lua_Integer)state + 1) == LUA_TSTRING;
    char *copy = there ? strdup(lua_tostring(L, -1)) : NULL;
    lua_pop(L, 1);
    return copy;
}

// Loads libedit's functions; false if it is not installed.
static bool load(void) {
    void *library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    bool all = true;
    int (*initialize)(void), (*bind)(const char *line);
    *(void **)&editor.readline = symbol(library, "readline", &all);
    *(void **)&editor.add_history = symbol(library, "add_history", &all);
    *(void **)&initialize = symbol(library, "rl_initialize", &all);
    *(void **)&bind = symbol(library, "rl_parse_and_bind", &all);
    FILE **stream = symbol(library, "rl_outstream", &all);
    char *(**complete)(const char *, int) = symbol(library, "rl_completion_entry_function", &all);
    const char **breaks = symbol(library, "rl_basic_word_break_characters", &all);
    int *append = symbol(library, "rl_completion_append_character", &all);
    if (!all) return false;
    *stream = stderr; // like all messages
    *complete = next_completion;
    *breaks = word_breaks;
    *append = '\0';
    initialize();
    bind("setty -d intr="); // while editing, Ctrl-C is a key that clears the line
    bind("bind ^C em-kill-line");
    return true;
}

// read(prompt, complete) -> line without its end, or nil at the end of input. complete(word) returns the list of
// possible whole words.
static int read_line(lua_State *L) {
    const char *prompt = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    luaL_checkstack(L, 8, NULL);
    editor.L = L;
    char *line = editor.readline(prompt);
    editor.L = NULL;
    lua_settop(L, 2);
    if (!line) return 0;
    if (*line) editor.add_history(line);
    lua_pushstring(L, line);
    free(line);
    return 1;
}

// line() -> read, or nil without libedit.
static int line(lua_State *L) {
    if (!load()) return 0;
    lua_pushcfunction(L, read_line);
    return 1;
}

void tperf_line_push(lua_State *L) {
    lua_pushcfunction(L, line);
}
