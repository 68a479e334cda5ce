// store.c: see store.h. SQLite may open only the database and its companion files (-wal, -shm, -journal): a journal can
// name any file, which recovery would delete.
#define _XOPEN_SOURCE 700 // F_GETLK
#include "io/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/always.h"
#include "io/stage.h"

enum {
    STEPS = 1000,            // of SQLite's virtual machine, between two checks whether to stop
    PATIENCE = 10000,        // ms that a writer waits for another
    MOMENT = 10,             // ms between two tries
    LONGEST_VALUE = 1 << 20, // bytes, in a query: one step may scan all of them
};

static bool never(uint64_t steps) {
    (void)steps;
    return false;
}

static struct {
    bool (*must_stop)(uint64_t steps);
    tperf_heap heap;
    sqlite3_vfs files; // the system's, except for opening files
    int (*open)(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags);
} world = {.must_stop = never};

void tperf_store_ask(bool (*must_stop)(uint64_t steps)) {
    world.must_stop = must_stop;
}

// --- memory ---

typedef struct header {
    _Alignas(max_align_t) size_t size; // this header included
} header;

static void *resize(void *block, int size) {
    header *old = block ? (header *)block - 1 : NULL;
    size_t wanted = sizeof(header) + (size_t)size;
    header *h = world.heap.resize(world.heap.owner, old, old ? old->size : 0, wanted);
    if (!h) return NULL;
    h->size = wanted;
    return h + 1;
}

static void *new_block(int size) {
    return resize(NULL, size);
}

static void free_block(void *block) {
    header *h = (header *)block - 1;
    if (ALWAYS(block)) world.heap.resize(world.heap.owner, h, h->size, 0);
}

static int size_of(void *block) {
    return ALWAYS(block) ? (int)(((header *)block - 1)->size - sizeof(header)) : 0;
}

static int round_up(int size) {
    return (size + 7) & ~7;
}

static int begin_memory(void *unused) {
    (void)unused;
    return SQLITE_OK;
}

static void end_memory(void *unused) {
    (void)unused;
}

void tperf_store_use_heap(const tperf_heap *heap) {
    static const sqlite3_mem_methods methods = {new_block, free_block,   resize,     size_of,
                                                round_up,  begin_memory, end_memory, NULL};
    world.heap = *heap;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

// --- files ---

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                     int *out_flags) {
    if (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL))
        return world.open(vfs, name, file, flags, out_flags);
    file->pMethods = NULL;
    return SQLITE_CANTOPEN;
}

static int register_files(void) {
    if (world.open) return SQLITE_OK;
    int code = sqlite3_initialize();
    if (code != SQLITE_OK) return code;
    sqlite3_vfs *plain = sqlite3_vfs_find(NULL);
    if (NEVER(!plain)) return SQLITE_ERROR;
    world.files = *plain;
    world.files.pNext = NULL;
    world.files.zName = "tperf";
    world.files.xOpen = open_file;
    world.files.xDlOpen = NULL;
    world.open = plain->xOpen;
    return sqlite3_vfs_register(&world.files, 0);
}

// Builds "file:PATH?readonly_shm=1", which forbids creating files beside the database.
static bool make_uri(const char *path, char *uri, size_t size) {
    size_t used = (size_t)snprintf(uri, size, "file:");
    for (; *path && used + 4 < size; path++) {
        if (strchr("%?#", *path))
            used += (size_t)snprintf(uri + used, size - used, "%%%02x", (unsigned)*path);
        else
            uri[used++] = *path;
    }
    uri[used] = '\0';
    return !*path && (size_t)snprintf(uri + used, size - used, "?readonly_shm=1") < size - used;
}

static const char *const endings[] = {"-wal", "-shm", "-journal", NULL}; // of companion files

// Whether a file of this name exists; *own: it is a regular file with a single name.
static bool is_there(int at, const char *name, bool *own) {
    struct stat info;
    bool there = fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    *own = there && S_ISREG(info.st_mode) && info.st_nlink == 1;
    return there;
}

bool tperf_store_make(int at, const char *name, const void *bytes, size_t size) {
    bool own, there = is_there(at, name, &own);
    if (there && !own) return errno = EPERM, false;
    for (const char *const *ending = endings; *ending; ending++) {
        char beside[NAME_MAX + 16];
        if ((size_t)snprintf(beside, sizeof beside, "%s%s", name, *ending) > NAME_MAX)
            return errno = ENAMETOOLONG, false;
        if (is_there(at, beside, &own) && (!there || !own)) return errno = EEXIST, false;
    }
    // Another process may have been faster: its file is as good.
    return there || tperf_stage_whole(at, name, bytes, size, false) || errno == EEXIST;
}

// --- permissions of a connection ---

static int stop_query(void *unused) {
    (void)unused;
    return world.must_stop(STEPS);
}

static int wait_for_other(void *unused, int tries) {
    (void)unused;
    if (tries * MOMENT > PATIENCE || world.must_stop(0)) return 0;
    sqlite3_sleep(MOMENT);
    return 1;
}

// Functions whose cost is at most linear in their arguments.
static bool is_harmless(const char *name) {
    static const char *const names[] = {
        "abs",   "acos",    "asin",         "atan",         "atan2",     "avg",    "ceil",
        "cos",   "count",   "coalesce",     "cume_dist",    "degrees",   "exp",    "first_value",
        "floor", "glob",    "group_concat", "ifnull",       "iif",       "lag",    "last_value",
        "lead",  "length",  "like",         "ln",           "log",       "log10",  "log2",
        "lower", "max",     "min",          "mod",          "nth_value", "ntile",  "nullif",
        "pi",    "pow",     "power",        "percent_rank", "radians",   "rank",   "row_number",
        "round", "sign",    "sin",          "sqrt",         "substr",    "sum",    "tan",
        "total", "trim",    "ltrim",        "rtrim",        "trunc",     "typeof", "upper",
        "hex",   "unicode", "dense_rank",   "substring",    "ceiling",   "quote",  "char",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(names[i], name) == 0) return true;
    }
    return false;
}

static int allow(void *unused, int action, const char *first, const char *second,
                 const char *database, const char *trigger) {
    (void)unused, (void)first, (void)database, (void)trigger;
    if (action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE)
        return SQLITE_OK;
    return action == SQLITE_FUNCTION && ALWAYS(second) && is_harmless(second) ? SQLITE_OK
                                                                              : SQLITE_DENY;
}

static void confine_query(sqlite3 *db) {
    static const int limits[][2] = {
        {SQLITE_LIMIT_LENGTH, LONGEST_VALUE},   {SQLITE_LIMIT_SQL_LENGTH, 100000},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64}, {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_EXPR_DEPTH, 100},         {SQLITE_LIMIT_COMPOUND_SELECT, 20},
        {SQLITE_LIMIT_WORKER_THREADS, 0},       {SQLITE_LIMIT_VDBE_OP, 100000},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        sqlite3_limit(db, limits[i][0], limits[i][1]);
    sqlite3_set_authorizer(db, allow, NULL);
    sqlite3_progress_handler(db, STEPS, stop_query, NULL);
}

static int confine(sqlite3 *db, tperf_store_kind kind) {
    sqlite3_extended_result_codes(db, 1);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, kind == TPERF_STORE_QUERY, NULL);
    sqlite3_busy_handler(db, wait_for_other, NULL);
    int code = sqlite3_exec(db, "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON", NULL,
                            NULL, NULL);
    if (code == SQLITE_OK && kind == TPERF_STORE_QUERY) confine_query(db);
    return code;
}

int tperf_store_open(const char *path, tperf_store_kind kind, sqlite3 **db) {
    char uri[3 * PATH_MAX + 32];
    *db = NULL;
    int code = register_files();
    if (code != SQLITE_OK) return code;
    int flags = SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
    if (kind == TPERF_STORE_WRITE) {
        code = sqlite3_open_v2(path, db, flags | SQLITE_OPEN_READWRITE, world.files.zName);
    } else {
        if (!make_uri(path, uri, sizeof uri)) return SQLITE_CANTOPEN;
        code = sqlite3_open_v2(uri, db, flags | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                               world.files.zName);
    }
    return code == SQLITE_OK ? confine(*db, kind) : code;
}

void tperf_store_close(sqlite3 *db) {
    if (!db) return;
    for (sqlite3_stmt *statement; (statement = sqlite3_next_stmt(db, NULL));)
        sqlite3_finalize(statement);
    if (sqlite3_db_readonly(db, "main") == 0) {
        sqlite3_busy_handler(db, NULL, NULL); // other users need the companion files
        sqlite3_exec(db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    }
    sqlite3_close(db);
}

int tperf_store_empty(const char *sql, char bytes[TPERF_STORE_EMPTY_MOST], size_t *size) {
    sqlite3 *db = NULL;
    sqlite3_int64 count = 0;
    int code = register_files();
    if (code == SQLITE_OK) code = sqlite3_open(":memory:", &db);
    if (code == SQLITE_OK) code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    unsigned char *copy = code == SQLITE_OK ? sqlite3_serialize(db, "main", &count, 0) : NULL;
    if (code == SQLITE_OK && !copy) code = SQLITE_NOMEM;
    if (copy && count > TPERF_STORE_EMPTY_MOST) code = SQLITE_TOOBIG;
    *size = (size_t)count;
    if (code == SQLITE_OK) memcpy(bytes, copy, *size);
    sqlite3_free(copy);
    sqlite3_close(db);
    return code;
}

bool tperf_store_set_aside(const char *path, char *to, size_t size) {
    char from[PATH_MAX + 16], beside[PATH_MAX + 32];
    for (int i = 1;; i++) {
        int length = snprintf(to, size, i == 1 ? "%s.damaged" : "%s.damaged-%d", path, i);
        if (length < 0 || (size_t)length >= size || i > 1000) return errno = EEXIST, false;
        if (tperf_stage_move(AT_FDCWD, path, AT_FDCWD, to, false)) break;
        if (errno != EEXIST) return false;
    }
    for (const char *const *ending = endings; *ending; ending++) {
        snprintf(from, sizeof from, "%s%s", path, *ending);
        snprintf(beside, sizeof beside, "%s%s", to, *ending);
        rename(from, beside); // most do not exist
    }
    return true;
}

// --- the current writer ---

// The process that has locked a byte of the file, or 0.
static long locker(const char *path, off_t at) {
    int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    bool known = descriptor >= 0 && fcntl(descriptor, F_GETLK, &lock) == 0;
    if (descriptor >= 0) close(descriptor);
    return known && lock.l_type == F_WRLCK ? (long)lock.l_pid : 0;
}

long tperf_store_writer(const char *path) {
    enum { WRITE_LOCK = 120, RESERVED_LOCK = 0x40000001 }; // SQLite's file format, sections 1 and 2
    char beside[PATH_MAX];
    if ((size_t)snprintf(beside, sizeof beside, "%s-shm", path) >= sizeof beside) return 0;
    long writer = locker(beside, WRITE_LOCK);
    return writer ? writer : locker(path, RESERVED_LOCK);
}
