// program.c: what the program itself does with the output folder, and scripts do not: it names the running script, takes
// over the files of an earlier run, and runs a script again in a folder of its own, for `tperf verify`.
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/always.h"
#include "cli/cli.h"
#include "cli/folder.h"
#include "io/process/guard.h"

// output.script(path): sets the running script.
static int set_script(lua_State *L) {
    tperf_folder_set_script(luaL_checkstring(L, 1));
    return 0;
}

// output.claim(path, checksum): a manifest says that a run of this script wrote this file. If it is unchanged, scripts
// may replace it.
static int claim(lua_State *L) {
    tperf_folder_entry place;
    size_t length, size;
    char digest[TPERF_SHA256_DIGITS + 1];
    const char *path = luaL_checklstring(L, 1, &length), *wanted = luaL_checklstring(L, 2, &size);
    if (tperf_folder_resolve(path, length, &place) || place.at < 0) return 0;
    int descriptor =
        openat(place.at, place.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat info;
    if (descriptor >= 0 && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
        size == TPERF_SHA256_DIGITS && tperf_journal_hash(descriptor, digest) &&
        strcmp(digest, wanted) == 0)
        tperf_journal_note(place.at, place.name, digest);
    if (descriptor >= 0) close(descriptor);
    close(place.at);
    return 0;
}

// The folder of output.temporary, removed by a guard if the program ends first.
static tperf_guard guard = TPERF_GUARD_NONE;

// output.temporary(): makes a new folder the output folder, for all files that scripts may write, and returns its path.
// It goes when the program ends, however it ends.
static int temporary_folder(lua_State *L) {
    const char *base = getenv("TMPDIR");
    char path[PATH_MAX], real[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/tperf-XXXXXX", base && *base ? base : "/tmp");
    if (length < 0 || (size_t)length >= sizeof path || !mkdtemp(path))
        return luaL_error(L, "cannot make a temporary folder: %s", strerror(errno));
    if (!realpath(path, real) || !tperf_guard_start(&guard, real) ||
        !tperf_folder_set(real, true)) {
        int error = errno;
        rmdir(path);
        return luaL_error(L, "cannot use the temporary folder %s: %s", path, strerror(error));
    }
    lua_pushstring(L, real);
    return 1;
}

// output.remove_temporary(): removes that folder with all in it.
static int remove_temporary(lua_State *L) {
    (void)L;
    tperf_guard_end(&guard);
    return 0;
}

void tperf_program_end(void) {
    tperf_guard_end(&guard);
}

// output.silence(on): redirects standard output to /dev/null, or restores it.
static int silence(lua_State *L) {
    static int kept = -1;
    fflush(stdout);
    bool on = lua_toboolean(L, 1);
    if (NEVER(on == (kept >= 0))) return 0;
    if (on) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (nowhere < 0 || kept < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
            return luaL_error(L, "cannot silence standard output: %s", strerror(errno));
        close(nowhere);
    } else {
        dup2(kept, STDOUT_FILENO);
        close(kept);
        kept = -1;
    }
    return 0;
}

void tperf_program_add(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"script", set_script},
        {"claim", claim},
        {"temporary", temporary_folder},
        {"remove_temporary", remove_temporary},
        {"silence", silence},
        {NULL, NULL},
    };
    luaL_setfuncs(L, functions, 0);
}
