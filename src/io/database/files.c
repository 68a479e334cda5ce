// files.c: the files of a database, as SQLite may open them: the database and its companions -wal, -shm and
// -journal, since a journal can name any file, which recovery would delete. Temporary files are in memory. A folder is its descriptor, which no link
// can turn elsewhere; links in place of files are not followed (os_unix.c opens with O_NOFOLLOW).
//
// A reader creates and changes nothing. SQLite wants -wal and -shm beside a database that was left in the mode of
// write-ahead logging, and makes what is missing: here a missing -wal is empty, and without a -shm nobody is writing, so
// the reader indexes the -wal in memory of its own, as SQLite does if it may not write to a -shm that nobody uses.
#include "io/database/files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/always.h"
#include "io/database/temporary.h"
#include "io/database/trial.h"

// Behind SQLite's own part of a reader's file.
typedef struct reader {
    sqlite3_io_methods methods;
    int (*map)(sqlite3_file *file, int page, int size, int extend, void volatile **memory);
    int (*lock)(sqlite3_file *file, int offset, int count, int flags);
    const char *name;
    bool alone;
} reader;

static struct {
    sqlite3_vfs files; // the system's, except for what follows
    int (*open)(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags);
    int (*remove)(sqlite3_vfs *vfs, const char *name, int sync);
    int (*access)(sqlite3_vfs *vfs, const char *name, int flags, int *there);
    int size; // of SQLite's own part
} world;

// Whether a name is taken by what is no regular file: opening a pipe blocks.
static bool is_strange(const char *name) {
    struct stat info;
    return lstat(name, &info) == 0 && !S_ISREG(info.st_mode);
}

static reader *reader_of(sqlite3_file *file) {
    return (reader *)((char *)file + world.size);
}

static int map_alone(sqlite3_file *file, int page, int size, int extend, void volatile **memory) {
    reader *r = reader_of(file);
    char shared[PATH_MAX + 16];
    snprintf(shared, sizeof shared, "%s-shm", r->name);
    int code = is_strange(shared) ? SQLITE_CANTOPEN : r->map(file, page, size, extend, memory);
    r->alone = (code & 0xff) == SQLITE_CANTOPEN;
    if (!r->alone) return code;
    *memory = NULL;
    return SQLITE_READONLY_CANTINIT;
}

static int lock_alone(sqlite3_file *file, int offset, int count, int flags) {
    reader *r = reader_of(file);
    return r->alone ? SQLITE_OK : r->lock(file, offset, count, flags);
}

static void read_alone(sqlite3_file *file, const char *name) {
    reader *r = reader_of(file);
    r->name = name;
    r->methods = *file->pMethods;
    r->map = r->methods.xShmMap;
    r->lock = r->methods.xShmLock;
    r->methods.xShmMap = map_alone;
    r->methods.xShmLock = lock_alone;
    file->pMethods = &r->methods;
}

bool tperf_store_reads_alone(sqlite3_file *file) {
    return file->pMethods && file->pMethods->xShmMap == map_alone && reader_of(file)->alone;
}

static int open_log(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *out_flags) {
    if (!sqlite3_uri_boolean(sqlite3_filename_database(name), "readonly_shm", 0))
        return world.open(vfs, name, file, flags, out_flags);
    struct stat info;
    bool there = lstat(name, &info) == 0;
    flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    return world.open(vfs, there ? name : "/dev/null", file, flags, out_flags);
}

// Opens a file of a trial for reading, although SQLite asks for one that it can write to.
static int open_on_trial(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                         int *out_flags) {
    int offset = world.size + (int)sizeof(reader);
    int reads = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    int code = world.open(vfs, name, file, reads, NULL);
    if (code != SQLITE_OK) return code;
    if (flags & SQLITE_OPEN_MAIN_DB && file->pMethods->iVersion >= 2) read_alone(file, name);
    if (flags & SQLITE_OPEN_MAIN_DB) tperf_trial_begin(file, offset, name);
    if (flags & SQLITE_OPEN_MAIN_JOURNAL && flags & SQLITE_OPEN_READWRITE)
        tperf_trial_hold(file, offset);
    if (out_flags) *out_flags = flags;
    return SQLITE_OK;
}

static int open_database(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                         int *out_flags) {
    bool *gone;
    if (sqlite3_uri_boolean(name, "trial", 0))
        return open_on_trial(vfs, name, file, flags, out_flags);
    if (flags & SQLITE_OPEN_MAIN_JOURNAL && tperf_trial_journal(name, &gone))
        return *gone ? SQLITE_CANTOPEN : open_on_trial(vfs, name, file, flags, out_flags);
    int code = world.open(vfs, name, file, flags, out_flags);
    bool reads = flags & SQLITE_OPEN_MAIN_DB && flags & SQLITE_OPEN_READONLY;
    if (code == SQLITE_OK && reads && file->pMethods->iVersion >= 2) read_alone(file, name);
    return code;
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *out_flags) {
    file->pMethods = NULL;
    if (name && is_strange(name)) return SQLITE_CANTOPEN;
    if (flags & SQLITE_OPEN_WAL) return open_log(vfs, name, file, flags, out_flags);
    if (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL))
        return open_database(vfs, name, file, flags, out_flags);
    if (name || flags & SQLITE_OPEN_SUPER_JOURNAL) return SQLITE_CANTOPEN;
    tperf_temporary_open(file);
    if (out_flags) *out_flags = flags;
    return SQLITE_OK;
}

// A trial's journal is deleted for the trial alone.
static int delete_file(sqlite3_vfs *vfs, const char *name, int sync) {
    bool *gone;
    if (!tperf_trial_journal(name, &gone)) return world.remove(vfs, name, sync);
    *gone = true;
    return SQLITE_OK;
}

static int look_for(sqlite3_vfs *vfs, const char *name, int flags, int *there) {
    bool *gone;
    if (!tperf_trial_journal(name, &gone) || !*gone) return world.access(vfs, name, flags, there);
    *there = 0;
    return SQLITE_OK;
}

static int keep_name(sqlite3_vfs *vfs, const char *name, int size, char *out) {
    (void)vfs;
    return snprintf(out, (size_t)size, "%s", name) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

int tperf_store_files(const char **name) {
    *name = "tperf";
    if (world.open) return SQLITE_OK;
    int code = sqlite3_initialize();
    if (code != SQLITE_OK) return code;
    sqlite3_vfs *plain = sqlite3_vfs_find(NULL);
    if (NEVER(!plain)) return SQLITE_ERROR;
    world.files = *plain;
    world.files.pNext = NULL;
    world.files.zName = *name;
    world.files.szOsFile = plain->szOsFile + (int)sizeof(reader) + tperf_trial_size();
    if (NEVER(world.files.szOsFile < tperf_temporary_size())) return SQLITE_ERROR;
    world.files.xOpen = open_file;
    world.files.xDelete = delete_file;
    world.files.xAccess = look_for;
    world.files.xFullPathname = keep_name;
    world.files.xDlOpen = NULL;
    world.size = plain->szOsFile;
    world.open = plain->xOpen;
    world.remove = plain->xDelete;
    world.access = plain->xAccess;
    return sqlite3_vfs_register(&world.files, 0);
}

// The name of a file by way of its folder's descriptor, where the system has such names; false elsewhere.
static bool by_descriptor(const tperf_store_place *place, char *path, size_t size) {
    struct stat held, named;
    int length = snprintf(path, size, "/proc/self/fd/%d", place->at);
    if (fstat(place->at, &held) != 0 || stat(path, &named) != 0 || held.st_dev != named.st_dev ||
        held.st_ino != named.st_ino)
        return false;
    snprintf(path + length, size - (size_t)length, "/%s", place->name);
    return true;
}

bool tperf_store_uri(const tperf_store_place *place, tperf_store_kind kind, char *uri,
                     size_t size) {
    char path[NAME_MAX + 64];
    const char *from = by_descriptor(place, path, sizeof path) ? path : place->path;
    size_t used = (size_t)snprintf(uri, size, "file:");
    for (; *from && used + 4 < size; from++) {
        if (strchr("%?#", *from))
            used += (size_t)snprintf(uri + used, size - used, "%%%02x", (unsigned)*from);
        else
            uri[used++] = *from;
    }
    uri[used] = '\0';
    const char *rest = kind == TPERF_STORE_WRITE   ? ""
                       : kind == TPERF_STORE_TRIAL ? "?readonly_shm=1&trial=1"
                                                   : "?readonly_shm=1";
    return !*from && (size_t)snprintf(uri + used, size - used, "%s", rest) < size - used;
}
