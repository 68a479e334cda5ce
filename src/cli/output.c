// output.c: writing files below one folder and nowhere else.
//
// A path is made plain first ("a/../b" is "b"; leaving the folder is refused), then walked from the
// folder's descriptor with O_NOFOLLOW at every step, so that no symbolic link leads out, not even one put
// there between the check and the use.
#define _XOPEN_SOURCE 700 // realpath
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    int descriptor;      // the output folder; -1 until set
    char path[PATH_MAX]; // its real path
} folder = {-1, ""};

static const char outside[] = "is outside the output folder";

// Makes the folders of a path that are missing. What fails shows when the path is opened.
static void make_folders(const char *path) {
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part) return;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        mkdir(part, 0777);
    }
}

// output.folder(path): where files may be written; made if it is missing. Returns its real path, or nil and a message.
static int set_folder(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    make_folders(path);
    char real[PATH_MAX];
    int descriptor = realpath(path, real) ? open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (descriptor < 0) return luaL_fileresult(L, 0, path);
    if (folder.descriptor >= 0) close(folder.descriptor);
    folder.descriptor = descriptor;
    memcpy(folder.path, real, sizeof folder.path);
    lua_pushstring(L, real);
    return 1;
}

// The plain form of path, relative to the folder, in out[PATH_MAX]; NULL, or why not.
static const char *plain_path(const char *path, char *out) {
    if (strlen(path) >= PATH_MAX) return outside;
    if (path[0] == '/') {
        size_t length = strcmp(folder.path, "/") == 0 ? 0 : strlen(folder.path);
        if (strncmp(path, folder.path, length) != 0 || path[length] != '/') return outside;
        path += length;
    }
    size_t used = 0;
    while (*path) {
        size_t length = strcspn(path, "/");
        if (length == 2 && memcmp(path, "..", 2) == 0) {
            if (used == 0) return outside;
            while (used > 0 && out[used - 1] != '/')
                used--;
            if (used > 0) used--;
        } else if (length > 0 && !(length == 1 && path[0] == '.')) {
            if (used > 0) out[used++] = '/';
            memcpy(out + used, path, length);
            used += length;
        }
        path += length + (path[length] == '/');
    }
    out[used] = '\0';
    return used ? NULL : "is the output folder itself";
}

// Opens the folder that holds the file; *name is the last part of plain. Returns -1 with errno set.
static int open_parent(char *plain, const char **name) {
    int at = fcntl(folder.descriptor, F_DUPFD_CLOEXEC, 0);
    for (char *slash; at >= 0 && (slash = strchr(plain, '/')); plain = slash + 1) {
        *slash = '\0';
        int next = openat(at, plain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int error = errno;
        close(at);
        errno = error;
        at = next;
    }
    *name = plain;
    return at;
}

// Resolves argument i to a folder's descriptor and a name in it, or raises.
static int resolve(lua_State *L, int i, char *plain, const char **name) {
    size_t length;
    const char *path = luaL_checklstring(L, i, &length);
    if (folder.descriptor < 0) luaL_error(L, "no output folder");
    const char *refusal = strlen(path) != length ? outside : plain_path(path, plain);
    if (refusal)
        luaL_error(
            L,
            "cannot write '%s': it %s (that is %s; --out DIR chooses another, --trust lifts this)",
            path, refusal, folder.path);
    int at = open_parent(plain, name);
    struct stat info;
    bool link =
        at >= 0 && fstatat(at, *name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
    if (at >= 0 && link) close(at);
    if (link || (at < 0 && (errno == ELOOP || errno == ENOTDIR)))
        luaL_error(L, "cannot write '%s': a symbolic link or a file is in its way", path);
    return at;
}

static int close_file(lua_State *L) {
    luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    return luaL_fileresult(L, fclose(stream->f) == 0, NULL);
}

// The open(2) flags of a mode that writes; -1 when it is none.
static int open_flags(const char *mode) {
    char kind = mode[0];
    const char *rest = mode + 1;
    bool update = *rest == '+';
    if (update) rest++;
    if (*rest == 'b') rest++;
    if (!kind || *rest || !strchr("rwa", kind) || (kind == 'r' && !update)) return -1;
    int flags = update ? O_RDWR : O_WRONLY;
    return flags | (kind == 'r' ? 0 : O_CREAT) | (kind == 'a' ? O_APPEND : 0);
}

// Only regular files: opening a pipe waits, writing to a device does things. Truncates after that check.
static int open_regular(int at, const char *name, int flags, bool truncate) {
    int descriptor = openat(at, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (descriptor < 0) return -1;
    struct stat info;
    int error = fstat(descriptor, &info) != 0                 ? errno
                : !S_ISREG(info.st_mode) || info.st_nlink > 1 ? EPERM
                                                              : 0;
    if (!error && truncate && ftruncate(descriptor, 0) != 0) error = errno;
    if (!error) return descriptor;
    close(descriptor);
    errno = error;
    return -1;
}

// output.open(path, mode): a file for writing, as io.open.
static int output_open(lua_State *L) {
    char plain[PATH_MAX];
    const char *path = luaL_checkstring(L, 1), *mode = luaL_checkstring(L, 2), *name;
    int flags = open_flags(mode);
    luaL_argcheck(L, flags >= 0, 2, "invalid mode");
    luaL_Stream *stream = lua_newuserdatauv(L, sizeof *stream, 0);
    stream->closef = NULL; // a closed file, so that an error before the opening frees nothing
    luaL_setmetatable(L, LUA_FILEHANDLE);
    int at = resolve(L, 1, plain, &name);
    int descriptor = at < 0 ? -1 : open_regular(at, name, flags, mode[0] == 'w');
    stream->f = descriptor < 0 ? NULL : fdopen(descriptor, mode);
    int error = errno;
    if (descriptor >= 0 && !stream->f) close(descriptor);
    if (at >= 0) close(at);
    errno = error;
    if (!stream->f) return luaL_fileresult(L, 0, path);
    stream->closef = close_file;
    return 1;
}

// output.remove(path): a file or an empty folder, as os.remove.
static int output_remove(lua_State *L) {
    char plain[PATH_MAX];
    const char *name;
    int at = resolve(L, 1, plain, &name);
    int result = at < 0 ? -1 : unlinkat(at, name, 0);
    if (at >= 0 && result != 0 && (errno == EISDIR || errno == EPERM))
        result = unlinkat(at, name, AT_REMOVEDIR);
    int error = errno;
    if (at >= 0) close(at);
    errno = error;
    return luaL_fileresult(L, result == 0, lua_tostring(L, 1));
}

// output.rename(from, to), as os.rename.
static int output_rename(lua_State *L) {
    char plain_from[PATH_MAX], plain_to[PATH_MAX];
    const char *from, *to;
    luaL_checkstring(L, 2);
    int at_to = resolve(L, 2, plain_to, &to);
    if (at_to >= 0) close(at_to); // the next call may raise: reopen below
    int at_from = resolve(L, 1, plain_from, &from);
    if (at_from < 0) return luaL_fileresult(L, 0, lua_tostring(L, 1));
    plain_path(lua_tostring(L, 2), plain_to);
    at_to = open_parent(plain_to, &to);
    int result = at_to < 0 ? -1 : renameat(at_from, from, at_to, to);
    int error = errno;
    close(at_from);
    if (at_to >= 0) close(at_to);
    errno = error;
    return luaL_fileresult(L, result == 0, lua_tostring(L, 1));
}

// output.make_folder(path): a folder below the output folder; nil and a message when it cannot be made.
static int make_folder(lua_State *L) {
    char plain[PATH_MAX];
    const char *name;
    int at = resolve(L, 1, plain, &name);
    int result = at < 0 ? -1 : mkdirat(at, name, 0777);
    int error = errno;
    if (at >= 0) close(at);
    errno = error;
    return luaL_fileresult(L, result == 0, lua_tostring(L, 1));
}

// output.temporary(): makes a new folder, the output folder from now on, and returns its path.
static int temporary_folder(lua_State *L) {
    const char *base = getenv("TMPDIR");
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/tperf-XXXXXX", base && *base ? base : "/tmp");
    if (length < 0 || (size_t)length >= sizeof path || !mkdtemp(path))
        return luaL_error(L, "cannot make a temporary folder: %s", strerror(errno));
    lua_settop(L, 0);
    lua_pushstring(L, path);
    return set_folder(L);
}

// output.remove_folder(path): an empty folder, anywhere; for the program, not for scripts.
static int remove_folder(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    return luaL_fileresult(L, rmdir(path) == 0, path);
}

// output.silence(on): sends standard output to nowhere, and back.
static int silence(lua_State *L) {
    static int kept = -1;
    fflush(stdout);
    if (lua_toboolean(L, 1) && kept < 0) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (nowhere < 0 || kept < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
            return luaL_error(L, "cannot silence standard output: %s", strerror(errno));
        close(nowhere);
    } else if (!lua_toboolean(L, 1) && kept >= 0) {
        dup2(kept, STDOUT_FILENO);
        close(kept);
        kept = -1;
    }
    return 0;
}

void tp_output_push(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"folder", set_folder},
        {"open", output_open},
        {"remove", output_remove},
        {"rename", output_rename},
        {"make_folder", make_folder},
        {"temporary", temporary_folder},
        {"remove_folder", remove_folder},
        {"silence", silence},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
}
