// bind_file.c: tperf.core.file: file operations beyond Lua's own.
//   file.sha256(text) -> its digest, 64 hexadecimal digits
//   file.write(path, text) -> true, or nil, message: writes a file whole or not at all (io/stage.h)
//   file.keep(path, bytes) -> the place of a database (bind_store.c), created with these bytes if missing; or nil,
//     message
//   file.real(path) -> the absolute path, without links, of a regular file; or nil, message
//   file.open(path [, streams]) -> a file for reading, or nil, message: a regular one (io/regular.h), or the descriptor that
//     /dev/stdin or /dev/fd/N names; streams: whatever the path, which the user named, leads to
//   file.rest(file, most) -> what is left of an open file, or its first bytes, more than `most`; or nil, message
//   file.arrived(most) -> what has arrived on standard input, at most so many bytes: waits for the first of them; "" if
//     interrupted; nil at the end. Beside it nothing else may read standard input
//   file.is_regular(path) -> whether it is a file with an end, not a pipe or a device
//   file.is_there(path) -> likewise, or whether it is the name of a descriptor: what file.open may open
//   file.writable(path) -> whether a file of this name can be written, or nil, message; leaves nothing behind
//   file.rsvg(svg, "png"|"pdf", zoom) -> the picture that rsvg-convert draws, or nil, why: "missing", "interrupted" or
//   "limits"
// In the sandbox src/cli/output.c provides write and keep, and src/cli/input.c open and real.
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "bind/bind.h"
#include "bind/interrupt.h"
#include "io/process/child.h"
#include "io/regular.h"
#include "io/stage.h"
#include "io/store.h"

static int hash(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    tperf_sha256 state;
    char hex[TPERF_SHA256_DIGITS + 1];
    tperf_sha256_start(&state);
    tperf_sha256_add(&state, text, size);
    tperf_sha256_finish_text(&state, hex);
    lua_pushstring(L, hex);
    return 1;
}

// Opens the folder of a path; *name is the last part of `real`. Follows symbolic links, like a shell's ">".
static int open_place(const char *path, char real[PATH_MAX], const char **name) {
    if (!realpath(path, real)) {
        if (errno != ENOENT) return -1;
        if (strlen(path) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        strcpy(real, path);
    }
    char *slash = strrchr(real, '/');
    *name = slash ? slash + 1 : real;
    if (!**name) {
        errno = EISDIR;
        return -1;
    }
    if (!slash) return open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *slash = '\0';
    return open(slash == real ? "/" : real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// Whether a path is a pipe, a terminal, /dev/null: to be written to, not replaced. /dev/stdout and /dev/fd/1 are, even
// if they are regular files; /dev/shm/x is a file like others.
static bool is_stream(const char *path) {
    struct stat info;
    bool is_device = strncmp(path, "/dev/", 5) == 0 && !strchr(path + 5, '/');
    return is_device || strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0 ||
           (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

// The descriptor that a name in /dev refers to, with its own file offset, which opening the name would not share; or
// -1.
static int named_descriptor(const char *path) {
    int number;
    char rest;
    if (strcmp(path, "/dev/stdout") == 0) return dup(STDOUT_FILENO);
    if (strcmp(path, "/dev/stderr") == 0) return dup(STDERR_FILENO);
    return sscanf(path, "/dev/fd/%d%c", &number, &rest) == 1 ? dup(number) : -1;
}

static bool write_stream(const char *path, const char *text, size_t size) {
    fflush(stdout); // which may be the same file
    int descriptor = named_descriptor(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : fopen(path, "ab");
    if (!file) return false;
    bool ok = fwrite(text, 1, size, file) == size;
    int error = errno;
    if (fclose(file) == 0 && ok) return true;
    if (!ok) errno = error;
    return false;
}

static bool write_whole(const char *path, const char *text, size_t size) {
    char real[PATH_MAX];
    const char *name;
    int at = open_place(path, real, &name);
    bool ok = at >= 0 && tperf_stage_whole(at, name, text, size, true);
    int error = errno;
    if (at >= 0) close(at);
    errno = error;
    return ok;
}

static int fail(lua_State *L, const char *path) {
    const char *advice = errno == ENOENT ? " (make the folder first)" : "";
    lua_pushnil(L);
    lua_pushfstring(L, "cannot write '%s': %s%s", path, strerror(errno), advice);
    return 2;
}

// Whether a new file can be created in the folder, whatever the permissions of the file that it replaces.
static bool can_stage(int at, const char *name) {
    struct stat info;
    if (fstatat(at, name, &info, 0) != 0) {
        if (errno != ENOENT) return false;
    } else if (S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return false;
    }
    return faccessat(at, ".", W_OK | X_OK, 0) == 0;
}

static bool can_write(const char *path) {
    char real[PATH_MAX];
    const char *name;
    int at = is_stream(path) ? named_descriptor(path) : open_place(path, real, &name);
    bool ok = is_stream(path) ? at >= 0 || access(path, W_OK) == 0 : at >= 0 && can_stage(at, name);
    int error = errno;
    if (at >= 0) close(at);
    errno = error;
    return ok;
}

static int writable(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    if (!can_write(path)) return fail(L, path);
    lua_pushboolean(L, true);
    return 1;
}

// --- reading ---

// Whether the user, or the user's shell, opened it: "<(command)" is /dev/fd/63.
static bool is_given(const char *path) {
    int number;
    char rest;
    return strcmp(path, "/dev/stdin") == 0 || sscanf(path, "/dev/fd/%d%c", &number, &rest) == 1;
}

// Whether a file is there, even if this user may not read it, which opening it then says.
static bool is_regular(const char *path) {
    int descriptor = tperf_regular_open(path);
    if (descriptor >= 0) close(descriptor);
    return descriptor >= 0 || errno == EACCES;
}

static int has_regular(lua_State *L) {
    size_t size;
    const char *path = luaL_checklstring(L, 1, &size);
    lua_pushboolean(L, strlen(path) == size && is_regular(path));
    return 1;
}

static int is_there(lua_State *L) {
    size_t size;
    const char *path = luaL_checklstring(L, 1, &size);
    struct stat info;
    bool given = is_given(path) && stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
    lua_pushboolean(L, strlen(path) == size && (given || is_regular(path)));
    return 1;
}

static int open_file(lua_State *L) {
    size_t size;
    const char *path = luaL_checklstring(L, 1, &size);
    luaL_Stream *stream = tperf_bind_new_stream(L);
    errno = ENOENT;
    int descriptor = -1;
    if (strlen(path) == size)
        descriptor = lua_toboolean(L, 2) || is_given(path) ? open(path, O_RDONLY | O_CLOEXEC)
                                                           : tperf_regular_open(path);
    if (descriptor >= 0 && tperf_bind_open_stream(stream, descriptor, "rb")) return 1;
    if (errno != TPERF_NOT_A_FILE) return luaL_fileresult(L, 0, path);
    lua_pushnil(L);
    lua_pushfstring(
        L, "%s: a regular file is needed, not a pipe, a device or one of /proc and /sys", path);
    return 2;
}

// The bytes left of a regular file, as far as the system knows.
static size_t bytes_left(FILE *file, size_t most) {
    enum { SOME = 1 << 16 };
    struct stat info;
    off_t at = ftello(file);
    if (at < 0 || fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= at)
        return SOME;
    return (size_t)(info.st_size - at) < most ? (size_t)(info.st_size - at) : most;
}

// The buffer begins as large as the file is: one that grew would take its bytes twice more.
static int rest_of(lua_State *L) {
    const luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    luaL_argcheck(L, stream->closef, 1, "it is closed");
    lua_Integer given = luaL_checkinteger(L, 2);
    luaL_argcheck(L, given >= 0 && given < LUA_MAXINTEGER, 2, "a number of bytes is needed");
    size_t most = (size_t)given + 1, length = 0, got;
    size_t room = bytes_left(stream->f, most) + 1;
    luaL_Buffer text;
    char *to = luaL_buffinitsize(L, &text, room);
    while ((got = fread(to, 1, room, stream->f)) > 0) {
        luaL_addsize(&text, got);
        length += got;
        if (got < room || length >= most) break;
        room = length < most - length ? length : most - length;
        to = luaL_prepbuffsize(&text, room);
    }
    if (ferror(stream->f)) {
        int error = errno;
        clearerr(stream->f); // a stream that is only written has failed in nothing that it is for
        errno = error;
        return luaL_fileresult(L, 0, NULL);
    }
    luaL_pushresult(&text);
    return 1;
}

static int arrived(lua_State *L) {
    lua_Integer most = luaL_checkinteger(L, 1);
    luaL_argcheck(L, most > 0 && most <= 1 << 30, 1, "a number of bytes is needed");
    luaL_Buffer text;
    size_t length = 0;
    char *to = luaL_buffinitsize(L, &text, (size_t)most);
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    do {
        ssize_t got = read(STDIN_FILENO, to + length, (size_t)most - length);
        if (got < 0 && length == 0 && errno != EINTR)
            return luaL_fileresult(L, 0, "standard input");
        if (got == 0 && length == 0) return 0;
        if (got <= 0) break;
        length += (size_t)got;
    } while (length < (size_t)most && poll(&input, 1, 0) > 0);
    luaL_pushresultsize(&text, length);
    return 1;
}

static int write_file(lua_State *L) {
    size_t size;
    const char *path = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &size);
    bool ok = is_stream(path) ? write_stream(path, text, size) : write_whole(path, text, size);
    if (!ok) return fail(L, path);
    lua_pushboolean(L, true);
    return 1;
}

static int close_file(lua_State *L) {
    luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    return luaL_fileresult(L, fclose(stream->f) == 0, NULL);
}

luaL_Stream *tperf_bind_new_stream(lua_State *L) {
    luaL_Stream *stream = lua_newuserdatauv(L, sizeof *stream, 0);
    stream->f = NULL;
    stream->closef = NULL; // a closed file: an error before the opening frees nothing
    luaL_setmetatable(L, LUA_FILEHANDLE);
    return stream;
}

bool tperf_bind_open_stream(luaL_Stream *stream, int descriptor, const char *mode) {
    stream->f = fdopen(descriptor, mode);
    int error = errno;
    if (!stream->f) close(descriptor);
    errno = error;
    if (stream->f) stream->closef = close_file;
    return stream->f != NULL;
}

static int keep(lua_State *L) {
    size_t size;
    const char *path = luaL_checkstring(L, 1), *bytes = luaL_checklstring(L, 2, &size), *name;
    char folder[PATH_MAX], whole[2 * PATH_MAX];
    int at = open_place(path, folder, &name);
    if (at < 0) return fail(L, path);
    snprintf(whole, sizeof whole, "%s%s%s", name == folder ? "" : folder, name == folder ? "" : "/",
             name);
    return tperf_bind_make_place(L, at, whole, bytes, size) ? 1 : fail(L, path);
}

static int real_path(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    char real[PATH_MAX];
    struct stat info;
    bool known = realpath(path, real) && stat(real, &info) == 0;
    if (known && !S_ISREG(info.st_mode)) errno = EISDIR;
    if (!known || !S_ISREG(info.st_mode)) return luaL_fileresult(L, 0, path);
    lua_pushstring(L, real);
    return 1;
}

static bool is_interrupted(void) {
    return *tperf_interrupt_flag() != 0;
}

// Limits of a picture that anyone would look at: rsvg-convert is far faster for the plots of the library.
enum { DRAWING_SECONDS = 60, DRAWING_MEMORY = 1 << 30, DRAWING_OUTPUT = 64 << 20 };

static int draw(lua_State *L) {
    static const char *const formats[] = {"png", "pdf", NULL};
    char zoom[32];
    size_t size = 0;
    const char *svg = luaL_checklstring(L, 1, &size);
    const char *format = formats[luaL_checkoption(L, 2, NULL, formats)];
    snprintf(zoom, sizeof zoom, "%.6g", luaL_checknumber(L, 3));
    const char *const arguments[] = {"rsvg-convert", "--format", format, "--zoom", zoom, NULL};
    // A fixed date of the PDF, so that the same picture gives the same bytes.
    const char *const environment[] = {"SOURCE_DATE_EPOCH", "0", NULL};
    tperf_child child = {.arguments = arguments,
                         .environment = environment,
                         .input = svg,
                         .size = size,
                         .seconds = DRAWING_SECONDS,
                         .memory = DRAWING_MEMORY,
                         .output = DRAWING_OUTPUT,
                         .stop = is_interrupted};
    char *picture = tperf_child_run(&child, &size);
    if (!picture) {
        lua_pushnil(L);
        lua_pushstring(L, errno == ENOENT    ? "missing"
                          : is_interrupted() ? "interrupted"
                                             : "limits");
        return 2;
    }
    lua_pushlstring(L, picture, size);
    free(picture);
    return 1;
}

void tperf_bind_file(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"sha256", hash},       {"write", write_file},  {"keep", keep},
        {"real", real_path},    {"writable", writable}, {"is_regular", has_regular},
        {"is_there", is_there}, {"open", open_file},    {"rest", rest_of},
        {"arrived", arrived},   {"rsvg", draw},         {NULL, NULL},
    };
    luaL_newlib(L, functions);
}
