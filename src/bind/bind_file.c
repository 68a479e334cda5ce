// bind_file.c: tperf.core.file: what the library needs of files beyond Lua's own.
//   file.sha256(text) -> its digest, 64 hexadecimal digits
//   file.lock(file) -> whether this process now has the file to itself (until it closes it or ends)
//   file.truncate(file, size) -> true, or nil, message
//   file.writable(path) -> whether a file of that name can be written, or nil, message; leaves nothing behind
#define _DEFAULT_SOURCE // flock
#include <errno.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind/bind.h"
#include "tperf/sha256.h"

static int hash(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    tp_sha256 state;
    uint8_t digest[TP_SHA256_BYTES];
    tp_sha256_start(&state);
    tp_sha256_add(&state, text, size);
    tp_sha256_finish(&state, digest);
    char hex[2 * TP_SHA256_BYTES + 1];
    for (int i = 0; i < TP_SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    lua_pushstring(L, hex);
    return 1;
}

static FILE *check_file(lua_State *L) {
    luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    luaL_argcheck(L, stream->closef, 1, "a closed file");
    return stream->f;
}

static int lock(lua_State *L) {
    int status = flock(fileno(check_file(L)), LOCK_EX | LOCK_NB);
    if (status != 0 && errno != EWOULDBLOCK) return luaL_fileresult(L, 0, NULL);
    lua_pushboolean(L, status == 0);
    return 1;
}

static int truncate_file(lua_State *L) {
    FILE *file = check_file(L);
    lua_Integer size = luaL_checkinteger(L, 2);
    luaL_argcheck(L, size >= 0, 2, "must not be negative");
    return luaL_fileresult(L, fflush(file) == 0 && ftruncate(fileno(file), (off_t)size) == 0, NULL);
}

// Of a name that does not exist, its folder decides.
static int writable(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    struct stat info;
    errno = 0;
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) errno = EISDIR;
        return luaL_fileresult(L, !errno && access(path, W_OK) == 0, NULL);
    }
    if (errno != ENOENT) return luaL_fileresult(L, 0, NULL);
    const char *slash = strrchr(path, '/');
    lua_pushlstring(L, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
    return luaL_fileresult(L, access(lua_tostring(L, -1), W_OK | X_OK) == 0, NULL);
}

void tp_bind_file(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"sha256", hash},       {"lock", lock}, {"truncate", truncate_file},
        {"writable", writable}, {NULL, NULL},
    };
    luaL_newlib(L, functions);
}
