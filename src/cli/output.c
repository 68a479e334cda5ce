// output.c: writes files below the output folder and nowhere else: new files, and the script's own (folder.h). Every
// file is written whole or not at all (io/stage.h): a file that a script opens for writing appears when it is closed,
// or when the script ends successfully.
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/always.h"
#include "bind/bind.h"
#include "cli/cli.h"
#include "cli/folder.h"
#include "io/database/companions.h"
#include "io/stage.h"

static const char foreign[] = "it is there already, and no run of tperf wrote it";
static const char changed[] = "it has changed since a run of tperf wrote it";
static const char others[] = "another script wrote it";
static const char parted[] =
    "a file beside it with -wal, -shm or -journal at its end would become a part of it";
static const char remedy[] =
    "remove or rename it, or name another folder with --out; --trust lifts this";

enum {
    COPIED_PER_STEP = 8, // bytes: as long as an instruction of Lua takes
    SYNC_STEPS = 100000, // to put a file in place: disks take a millisecond
};

// --- open files ---

typedef struct open_file {
    FILE *file; // NULL: this slot is free
    tperf_stage *stage;
    char *path;     // as the script gave it
    bool too_large; // more was to be written than a file may hold
} open_file;

static open_file files[TPERF_STAGE_MOST];

// The first file that could not be written, and why. Even if the script ignores it (or lets the garbage collector close
// files), the run has failed.
static char failure[PATH_MAX + 128];

static const char *reason(int error) {
    return error == ECANCELED ? "no instructions are left (--max-instructions N raises the limit)"
                              : strerror(error);
}

static void note_failure(const char *path) {
    if (failure[0]) return;
    int error = errno;
    snprintf(failure, sizeof failure, "cannot write '%s': %s", path, reason(error));
    errno = error;
}

static open_file *find(const FILE *file) {
    for (int i = 0; i < TPERF_STAGE_MOST; i++)
        if (files[i].file == file) return &files[i];
    return NULL;
}

bool tperf_output_fits(const FILE *file, size_t bytes) {
    open_file *open = find(file);
    off_t at = open ? ftello(open->file) : -1;
    if (at < 0 || (at <= TPERF_MOST_BYTES && bytes <= (uintmax_t)(TPERF_MOST_BYTES - at)))
        return true;
    open->too_large = true;
    errno = EFBIG;
    return false;
}

enum { MOST_RACES = 8 };

// Commits a stage, replacing a file only if it is the script's own. Frees the stage. Another run of the script may write
// the file between the question whose it is and the answer; then it is asked again.
static bool put_in_place(tperf_stage *stage) {
    char digest[TPERF_SHA256_DIGITS + 1];
    int at = tperf_stage_folder(stage);
    const char *name = tperf_stage_name(stage);
    tperf_limits_pay(SYNC_STEPS);
    if (tperf_journal_hash(tperf_stage_descriptor(stage), digest) &&
        tperf_journal_note(at, name, digest)) {
        for (int races = 0; races < MOST_RACES; races++) {
            bool replace = tperf_journal_owner(at, name, NULL) == TPERF_OWN;
            if (tperf_stage_put(stage, replace)) return true;
            if (replace || errno != EEXIST) return false;
        }
    }
    tperf_stage_discard(stage);
    return false;
}

// Finishes writing a file; the stream stays open.
static bool finish_file(open_file *open) {
    errno = 0;
    bool written = !open->too_large && fflush(open->file) == 0 && !ferror(open->file);
    if (open->too_large) errno = EFBIG;
    open->file = NULL;
    if (!written) {
        if (!errno) errno = EIO;
        tperf_stage_discard(open->stage);
    }
    bool done = written && put_in_place(open->stage);
    if (!done) note_failure(open->path);
    free(open->path);
    return done;
}

static int close_file(lua_State *L) {
    luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    open_file *open = find(stream->f);
    bool done = !open || finish_file(open);
    int error = errno;
    fclose(stream->f); // everything has been written, or discarded
    errno = error;
    return luaL_fileresult(L, done, NULL);
}

const char *tperf_output_finish(void) {
    for (int i = 0; i < TPERF_STAGE_MOST; i++)
        if (files[i].file) finish_file(&files[i]);
    return failure[0] ? failure : NULL;
}

void tperf_output_abandon(void) {
    for (int i = 0; i < TPERF_STAGE_MOST; i++) {
        if (!files[i].file) continue;
        tperf_stage_discard(files[i].stage);
        free(files[i].path);
        files[i].file = NULL;
    }
    tperf_stage_discard_all();
}

// output.finish(): closes files that a script left open; nil and a message if any file of the run could not be written.
static int finish(lua_State *L) {
    const char *message = tperf_output_finish();
    lua_pushboolean(L, !message);
    if (!message) return 1;
    lua_pushnil(L);
    lua_pushstring(L, message);
    return 2;
}

// --- the output folder ---

// Marks a folder that has just been made, or removes it: without the mark scripts may put less into it. False with errno.
static bool mark(int at, const char *name) {
    int made = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0) return false;
    bool marked = tperf_journal_mark(made);
    int error = errno;
    close(made);
    if (!marked) unlinkat(at, name, AT_REMOVEDIR);
    errno = error;
    return marked;
}

// Creates the missing folders of a path. False with errno if the last one cannot be marked; other failures show when the
// path is opened.
static bool make_folders(const char *path) {
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part) return true;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) == 0 && path[i] == '\0' && !mark(AT_FDCWD, part)) return false;
    }
    return true;
}

// output.folder(path, named): sets the folder for output, creating it if missing; named: for all files that scripts may
// write. Returns its real path, or nil and a message.
static int set_folder(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    char real[PATH_MAX];
    if (!make_folders(path) || !realpath(path, real) ||
        !tperf_folder_set(real, lua_toboolean(L, 2)))
        return luaL_fileresult(L, 0, path);
    lua_pushstring(L, real);
    return 1;
}

// Returns nil and a message without an error number: the sandbox refuses.
static int refuse(lua_State *L, const char *whole, const char *why) {
    char path[128];
    if (snprintf(path, sizeof path, "%s", whole) >= (int)sizeof path)
        memcpy(path + sizeof path - 4, "...", 4);
    lua_pushnil(L);
    if (why == foreign || why == changed || why == others)
        lua_pushfstring(L, "cannot write '%s': %s (%s)", path, why, remedy);
    else if (tperf_names_advise(why))
        lua_pushfstring(L, "cannot write '%s': %s", path, why);
    else
        lua_pushfstring(L,
                        "cannot write '%s': %s (the output folder is %s; --out DIR names another, "
                        "--trust lifts this)",
                        path, why, tperf_folder_path());
    return 2;
}

// *exists: whether the name is taken. Returns NULL, or why a script may not replace it; sets errno if that cannot be
// determined or it is not a regular file with one name (a pipe, a folder, a hard link).
static const char *check_existing(const tperf_folder_entry *place, bool *exists) {
    struct stat info;
    *exists = fstatat(place->at, place->name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (!*exists && errno != ENOENT) return NULL;
    const char *part = tperf_companion_beside(place->at, place->name, false);
    errno = 0;
    if (part || !*exists) return part ? parted : NULL;
    if (!S_ISREG(info.st_mode) || info.st_nlink > 1) {
        errno = S_ISDIR(info.st_mode) ? EISDIR : EPERM;
        return NULL;
    }
    static const char *const reasons[] = {NULL, others, changed, foreign}; // by tperf_owner
    const char *reason = reasons[tperf_journal_owner(place->at, place->name, NULL)];
    errno = 0;
    return reason;
}

// Resolves argument i to the name of a new file or one of the script's, whose place->at the caller closes; or closes it
// and returns the number of values pushed for the refusal. goes: the file is removed or moved away, not written.
static int resolve(lua_State *L, int i, tperf_folder_entry *place, bool *exists, bool goes) {
    size_t length;
    const char *path = luaL_checklstring(L, i, &length);
    const char *refusal = tperf_folder_resolve(path, length, place);
    if (refusal) return refuse(L, path, refusal);
    if (place->at < 0) return luaL_fileresult(L, 0, path);
    refusal = check_existing(place, exists);
    int error = errno;
    if (!refusal && !error && !goes) refusal = tperf_names_file(place);
    if (!refusal && !error) return 0;
    close(place->at);
    errno = error;
    return refusal ? refuse(L, path, refusal) : luaL_fileresult(L, 0, path);
}

// --- writing ---

// Copies the existing file into the stage that will replace it.
static bool copy_existing(const tperf_folder_entry *place, tperf_stage *stage) {
    char block[1 << 14];
    int from = openat(place->at, place->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0) return false;
    ssize_t got;
    while ((got = read(from, block, sizeof block)) > 0 &&
           tperf_stage_write(stage, block, (size_t)got)) {
        if (tperf_limits_pay((uint64_t)got / COPIED_PER_STEP)) continue;
        errno = ECANCELED;
        break;
    }
    int error = errno;
    close(from);
    errno = error;
    return got == 0 && lseek(tperf_stage_descriptor(stage), 0, SEEK_SET) == 0;
}

static tperf_stage *begin(const tperf_folder_entry *place, bool exists, char kind) {
    if (kind == 'r' && !exists) {
        errno = ENOENT;
        return NULL;
    }
    tperf_stage *stage = tperf_stage_begin(place->at, place->name);
    if (!stage || !exists || kind == 'w' || copy_existing(place, stage)) return stage;
    tperf_stage_discard(stage);
    return NULL;
}

// Opens the stream on a copy of the stage's descriptor; on failure false with errno, and discards the stage.
static bool open_stage(luaL_Stream *stream, tperf_stage *stage, const char *mode,
                       const char *path) {
    int descriptor = fcntl(tperf_stage_descriptor(stage), F_DUPFD_CLOEXEC, 3);
    open_file *open = find(NULL);
    char *copy = open && descriptor >= 0 ? strdup(path) : NULL;
    if (!copy || !tperf_bind_open_stream(stream, descriptor, mode)) {
        if (!copy && descriptor >= 0) close(descriptor);
        free(copy);
        tperf_stage_discard(stage);
        return false;
    }
    stream->closef = close_file;
    *open = (open_file){stream->f, stage, copy, false};
    return true;
}

// output.open(path, mode): opens a file for writing, like io.open, whose modes the caller has checked.
static int output_open(lua_State *L) {
    tperf_folder_entry place;
    bool exists;
    const char *path = luaL_checkstring(L, 1), *mode = luaL_checkstring(L, 2);
    luaL_Stream *stream = tperf_bind_new_stream(L);
    int refused = resolve(L, 1, &place, &exists, false);
    if (refused) return refused;
    tperf_stage *stage = begin(&place, exists, mode[0]);
    bool opened = stage && open_stage(stream, stage, mode, path);
    int error = errno;
    close(place.at);
    errno = error;
    if (!opened) {
        if (error != ENOENT) note_failure(path);
        return luaL_fileresult(L, 0, path);
    }
    lua_pushvalue(L, 3);
    return 1;
}

static int push_failure(lua_State *L, const char *path) {
    note_failure(path);
    lua_pushnil(L);
    lua_pushfstring(L, "cannot write '%s': %s", path, reason(errno));
    return 2;
}

// output.write(path, text): writes a whole file; or returns nil and a message.
static int output_write(lua_State *L) {
    tperf_folder_entry place;
    bool exists;
    size_t size;
    const char *path = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &size);
    int refused = resolve(L, 1, &place, &exists, false);
    if (refused == 2) return refused;
    if (refused) {
        lua_pushnil(L);
        lua_pushfstring(L, "cannot write '%s': %s%s", path, strerror((int)lua_tointeger(L, -2)),
                        lua_tointeger(L, -2) == ENOENT ? " (make the folder first)" : "");
        return 2;
    }
    errno = EFBIG;
    tperf_stage *stage =
        size <= (uintmax_t)TPERF_MOST_BYTES ? tperf_stage_begin(place.at, place.name) : NULL;
    bool written = stage && tperf_stage_write(stage, text, size);
    if (stage && !written) tperf_stage_discard(stage);
    bool done = written && put_in_place(stage);
    int error = errno;
    close(place.at);
    errno = error;
    if (!done) return push_failure(L, path);
    lua_pushboolean(L, true);
    return 1;
}

// output.keep(path, bytes): the place of a database, created with these bytes if missing. For the library, which does
// not change files that are not its own.
static int output_keep(lua_State *L) {
    tperf_folder_entry place;
    size_t length, size;
    const char *path = luaL_checklstring(L, 1, &length), *bytes = luaL_checklstring(L, 2, &size);
    const char *refusal = tperf_folder_resolve(path, length, &place), *folder = tperf_folder_path();
    struct stat info;
    bool is_new = place.at >= 0 && fstatat(place.at, place.name, &info, AT_SYMLINK_NOFOLLOW) != 0;
    if (!refusal && is_new) refusal = tperf_names_file(&place);
    if (refusal && place.at >= 0) close(place.at);
    if (refusal) return refuse(L, path, refusal);
    if (place.at < 0) return luaL_fileresult(L, 0, path);
    lua_pushfstring(L, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, place.plain);
    bool made = tperf_bind_make_place(L, place.at, lua_tostring(L, -1), bytes, size);
    return made ? 1 : luaL_fileresult(L, 0, path);
}

// output.remove(path): removes a run's file, like os.remove.
static int output_remove(lua_State *L) {
    tperf_folder_entry place;
    bool exists;
    int refused = resolve(L, 1, &place, &exists, true);
    if (refused) return refused;
    int result = unlinkat(place.at, place.name, 0);
    int error = errno;
    close(place.at);
    errno = error;
    return luaL_fileresult(L, result == 0, lua_tostring(L, 1));
}

// output.retire(path): removes a file that any script's run wrote; for the program.
static int output_retire(lua_State *L) {
    tperf_folder_entry place;
    size_t length;
    const char *path = luaL_checklstring(L, 1, &length);
    const char *refusal = tperf_folder_resolve(path, length, &place);
    if (refusal) return refuse(L, path, refusal);
    if (place.at < 0) return luaL_fileresult(L, 0, path);
    bool exists;
    refusal = check_existing(&place, &exists);
    if (!errno && refusal == others) refusal = NULL;
    int error = errno;
    bool gone = !error && !refusal && (!exists || unlinkat(place.at, place.name, 0) == 0);
    if (!error) error = errno;
    close(place.at);
    if (refusal) return refuse(L, path, refusal);
    errno = error;
    return luaL_fileresult(L, gone, path);
}

// Records the file under its new name, and moves it there.
static bool move(const tperf_folder_entry *from, const tperf_folder_entry *to, bool replace) {
    char digest[TPERF_SHA256_DIGITS + 1];
    if (tperf_journal_owner(from->at, from->name, digest) == TPERF_OWN)
        return tperf_journal_note(to->at, to->name, digest) &&
               tperf_stage_move(from->at, from->name, to->at, to->name, replace);
    errno = ENOENT;
    return false;
}

// output.rename(from, to), like os.rename.
static int output_rename(lua_State *L) {
    tperf_folder_entry from, to;
    bool exists;
    luaL_checkstring(L, 2);
    int refused = resolve(L, 1, &from, &exists, true);
    if (refused) return refused;
    refused = resolve(L, 2, &to, &exists, false);
    if (refused) {
        close(from.at);
        return refused;
    }
    bool moved = move(&from, &to, exists);
    int error = errno;
    close(from.at);
    close(to.at);
    errno = error;
    if (!moved && error != ENOENT) note_failure(lua_tostring(L, 2));
    return luaL_fileresult(L, moved, lua_tostring(L, 1));
}

// --- for the program itself, not for scripts ---

// output.manifest(text): writes the run's manifest, in place of an earlier run's; the caller has seen that it is one.
static int manifest(lua_State *L) {
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    int at = tperf_folder_descriptor();
    if (!tperf_stage_whole(at, TPERF_MANIFEST, text, size, true))
        return push_failure(L, TPERF_MANIFEST);
    lua_pushboolean(L, true);
    return 1;
}

// Whether a new folder counts as tperf's: not one that a script puts among the user's, whose tools may look through it.
static bool becomes_own(const tperf_folder_entry *place) {
    return place->name == place->plain || tperf_journal_made(place->at);
}

static bool is_folder(const tperf_folder_entry *place) {
    struct stat info;
    return fstatat(place->at, place->name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(info.st_mode);
}

// output.make_folder(path): creates a folder below the output folder, unless it is there; nil and a message on failure.
static int make_folder(lua_State *L) {
    tperf_folder_entry place;
    size_t length;
    const char *path = luaL_checklstring(L, 1, &length);
    const char *refusal = tperf_folder_resolve(path, length, &place);
    if (!refusal && place.at >= 0) refusal = tperf_names_folder(-1, place.name);
    if (refusal && place.at >= 0) close(place.at);
    if (refusal) return refuse(L, path, refusal);
    bool made = place.at >= 0 && mkdirat(place.at, place.name, 0777) == 0;
    if (made && becomes_own(&place)) made = mark(place.at, place.name);
    int error = errno;
    if (place.at >= 0 && !made && error == EEXIST) made = is_folder(&place);
    if (place.at >= 0) close(place.at);
    if (!made) {
        lua_pushnil(L);
        lua_pushfstring(L, "cannot make the folder '%s': %s (name another folder)", path,
                        error == EEXIST ? "a file has that name" : strerror(error));
        return 2;
    }
    lua_pushboolean(L, true);
    return 1;
}

void tperf_output_push(lua_State *L) {
    static const luaL_Reg functions[] = {
        {"folder", set_folder},
        {"open", output_open},
        {"write", output_write},
        {"keep", output_keep},
        {"remove", output_remove},
        {"rename", output_rename},
        {"retire", output_retire},
        {"finish", finish},
        {"manifest", manifest},
        {"make_folder", make_folder},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
    tperf_program_add(L);
}
