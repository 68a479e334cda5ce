// input.c: files that a sandboxed script may read: regular files, except in /proc, /sys and /dev and below mounts of
// their kinds elsewhere (io/regular.h).
#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind/bind.h"
#include "cli/cli.h"
#include "cli/folder.h"
#include "io/regular.h"

// Pushes nil and a message for a file that may not be read.
static int push_failure(lua_State *L, const char *path) {
    if (errno != TPERF_NOT_A_FILE) return luaL_fileresult(L, 0, path);
    lua_pushnil(L);
    lua_pushfstring(
        L, "%s: scripts read regular files, none of /proc, /sys and /dev (--trust lifts this)",
        path);
    lua_pushinteger(L, EACCES);
    return 3;
}

// input.open(path): a regular file for reading, like io.open(path, "rb").
static int input_open(lua_State *L) {
    size_t length;
    const char *path = luaL_checklstring(L, 1, &length);
    luaL_Stream *stream = tperf_bind_new_stream(L);
    int descriptor = -1;
    errno = ENOENT;
    if (strlen(path) == length) descriptor = tperf_regular_open(path);
    if (descriptor >= 0 && tperf_bind_open_stream(stream, descriptor, "rb")) return 1;
    return push_failure(L, path);
}

// The name, without links, of an open file.
static bool name_of(int descriptor, const char *path, char real[PATH_MAX]) {
    struct stat open, named;
    errno = ENOENT;
    return realpath(path, real) && fstat(descriptor, &open) == 0 && lstat(real, &named) == 0 &&
           open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

// input.real(path): the absolute path, without links, of such a file, for libraries that open files by name; on request
// also its checksum.
static int input_real(lua_State *L) {
    size_t length;
    const char *path = luaL_checklstring(L, 1, &length);
    char real[PATH_MAX], digest[TPERF_SHA256_DIGITS + 1] = "";
    errno = ENOENT;
    int descriptor = strlen(path) == length ? tperf_regular_open(path) : -1;
    bool known = descriptor >= 0 && name_of(descriptor, path, real) &&
                 (!lua_toboolean(L, 2) || tperf_journal_hash(descriptor, digest));
    int error = errno;
    if (descriptor >= 0) close(descriptor);
    errno = error;
    if (!known) return push_failure(L, path);
    lua_pushstring(L, real);
    lua_pushstring(L, digest);
    return 2;
}

void tperf_input_push(lua_State *L) {
    static const luaL_Reg functions[] = {{"open", input_open}, {"real", input_real}, {NULL, NULL}};
    luaL_newlib(L, functions);
}
