// store.c: see store.h.
#include "io/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/always.h"
#include "io/database/companions.h"
#include "io/database/files.h"
#include "io/stage.h"

enum {
    STEPS = 1000,               // of SQLite's virtual machine, between two checks whether to stop
    COST = 10,                  // of one, in instructions of Lua
    READ_PER_STEP = 16,         // bytes of a file that is checked as a whole
    BLOCK_COST = 100,           // of a block of memory that a statement takes before it runs
    MOST_RECURSIVE = 100000000, // steps of a recursive query, which may never end: seconds
    PATIENCE = 10000,           // ms that a writer waits for another
    MOMENT = 10,                // ms between two tries
    LONGEST_VALUE = 1 << 20,    // bytes, in a query: one step may scan all of them
};

static bool never(uint64_t steps) {
    (void)steps;
    return false;
}

static struct {
    bool (*must_stop)(uint64_t steps);
    tperf_heap heap;
    bool preparing, stopped; // a statement of a query; before it was prepared
} world = {.must_stop = never};

void tperf_store_ask(bool (*must_stop)(uint64_t steps)) {
    world.must_stop = must_stop;
}

// --- memory ---

typedef struct header {
    _Alignas(max_align_t) size_t size; // this header included
} header;

// A short statement may name parts of itself twice, those parts of theirs, and so on, all of which SQLite spells out
// before the first step. What it takes for that are blocks of memory.
static bool may_take(void) {
    if (world.preparing && !world.stopped) world.stopped = world.must_stop(BLOCK_COST);
    return !world.stopped;
}

static void *resize(void *block, int size) {
    if (!may_take()) return NULL;
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

// --- places ---

bool tperf_store_place_set(tperf_store_place *place, int at, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    *place = (tperf_store_place){.at = at};
    if (strlen(path) < sizeof place->path && strlen(name) < sizeof place->name) {
        strcpy(place->path, path);
        strcpy(place->name, name);
        return true;
    }
    tperf_store_place_close(place);
    errno = ENAMETOOLONG;
    return false;
}

void tperf_store_place_close(tperf_store_place *place) {
    int error = errno;
    if (place->at >= 0) close(place->at);
    place->at = -1;
    errno = error;
}

bool tperf_store_make(const tperf_store_place *place, const void *bytes, size_t size) {
    bool plain, there = tperf_companion_there(place->at, place->name, &plain);
    if (there && !plain) return errno = EPERM, false;
    if (tperf_companion_is(place->name)) return errno = EINVAL, false;
    if (strlen(place->name) + TPERF_COMPANION_LONGEST > NAME_MAX)
        return errno = ENAMETOOLONG, false;
    // Another process may have been faster: its files are as good.
    bool beside = tperf_companion_beside(place->at, place->name, there) &&
                  (there || !tperf_companion_there(place->at, place->name, &plain));
    if (beside) return errno = EEXIST, false;
    return there || tperf_stage_whole(place->at, place->name, bytes, size, false) ||
           errno == EEXIST;
}

// A lock on the folder itself: no other program asks for it. File systems without it get SQLite's own locks only.
bool tperf_store_lock(tperf_store_place *place) {
    if (place->locks > 0) return place->locks++, true;
    for (int tries = 0; flock(place->at, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        if (tries * MOMENT > PATIENCE || world.must_stop(0)) return false;
        sqlite3_sleep(MOMENT);
    }
    return place->locks++, true;
}

void tperf_store_unlock(tperf_store_place *place) {
    if (place->locks > 0 && --place->locks == 0) flock(place->at, LOCK_UN);
}

// --- statements ---

int tperf_store_prepare(const tperf_store *store, const char *sql, size_t size,
                        sqlite3_stmt **statement, const char **rest) {
    world.preparing = store->kind == TPERF_STORE_QUERY;
    int code = sqlite3_prepare_v2(store->db, sql, (int)size + 1, statement, rest);
    bool stopped = world.stopped;
    world.preparing = world.stopped = false;
    return stopped && code == SQLITE_NOMEM ? SQLITE_INTERRUPT : code;
}

// --- permissions of a connection ---

static int stop_query(void *data) {
    tperf_store *store = data;
    store->steps += STEPS;
    store->endless = store->recursive && store->steps > MOST_RECURSIVE;
    return world.must_stop(STEPS * COST) || store->endless;
}

static int wait_for_other(void *unused, int tries) {
    (void)unused;
    if (tries * MOMENT > PATIENCE || world.must_stop(0)) return 0;
    sqlite3_sleep(MOMENT);
    return 1;
}

// Functions whose cost is at most linear in their arguments; trim and its like with one.
static bool is_harmless(const char *name) {
    static const char *const names[] = {
        "abs",      "acos",    "asin",         "atan",         "atan2",     "avg",    "ceil",
        "cos",      "count",   "coalesce",     "cume_dist",    "degrees",   "exp",    "first_value",
        "floor",    "glob",    "group_concat", "ifnull",       "iif",       "lag",    "last_value",
        "lead",     "length",  "like",         "ln",           "log",       "log10",  "log2",
        "lower",    "max",     "min",          "mod",          "nth_value", "ntile",  "nullif",
        "pi",       "pow",     "power",        "percent_rank", "radians",   "rank",   "row_number",
        "round",    "sign",    "sin",          "sqrt",         "substr",    "sum",    "tan",
        "total",    "trim",    "ltrim",        "rtrim",        "trunc",     "typeof", "upper",
        "hex",      "unicode", "dense_rank",   "substring",    "ceiling",   "quote",  "char",
        "quantile", "stddev",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(names[i], name) == 0) return true;
    }
    return false;
}

static int allow(void *data, int action, const char *first, const char *second,
                 const char *database, const char *trigger) {
    tperf_store *store = data;
    (void)first, (void)database, (void)trigger;
    if (action == SQLITE_RECURSIVE) store->recursive = true;
    if (action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE)
        return SQLITE_OK;
    return action == SQLITE_FUNCTION && ALWAYS(second) && is_harmless(second) ? SQLITE_OK
                                                                              : SQLITE_DENY;
}

// --- aggregates that SQLite lacks ---

typedef struct sample {
    double *values;
    size_t count, capacity;
    double part; // of quantile
} sample;

// Adds a number to a sample; others, such as NULL, do not count.
static void add_value(sqlite3_context *context, int count, sqlite3_value **values) {
    sample *s = sqlite3_aggregate_context(context, sizeof *s);
    int type = sqlite3_value_numeric_type(values[0]);
    if (!s || (type != SQLITE_INTEGER && type != SQLITE_FLOAT)) return;
    if (count > 1) s->part = sqlite3_value_double(values[1]);
    if (s->count == s->capacity) {
        size_t capacity = 2 * s->capacity + 64;
        double *longer = sqlite3_realloc64(s->values, capacity * sizeof *longer);
        if (!longer) {
            sqlite3_result_error_nomem(context);
            return;
        }
        s->values = longer;
        s->capacity = capacity;
    }
    s->values[s->count++] = sqlite3_value_double(values[0]);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// quantile(x, q): linear between the order statistics at 1 + (n - 1) q (Hyndman and Fan 1996, definition 7), as numpy's
// default.
static void finish_quantile(sqlite3_context *context) {
    sample *s = sqlite3_aggregate_context(context, 0);
    if (!s || s->count == 0) return;
    if (s->part >= 0 && s->part <= 1) {
        qsort(s->values, s->count, sizeof *s->values, by_value);
        double at = s->part * (double)(s->count - 1);
        size_t below = (size_t)at, above = below + 1 < s->count ? below + 1 : below;
        double rest = at - (double)below;
        sqlite3_result_double(context,
                              s->values[below] + rest * (s->values[above] - s->values[below]));
    } else {
        sqlite3_result_error(context, "the second argument of quantile must be from 0 to 1", -1);
    }
    sqlite3_free(s->values);
}

// stddev(x): of a sample, the root of the squares' sum over n - 1; NULL for one number.
static void finish_deviation(sqlite3_context *context) {
    sample *s = sqlite3_aggregate_context(context, 0);
    if (!s) return;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < s->count; i++)
        mean += s->values[i] / (double)s->count;
    for (size_t i = 0; i < s->count; i++)
        squares += (s->values[i] - mean) * (s->values[i] - mean);
    if (s->count > 1) sqlite3_result_double(context, sqrt(squares / (double)(s->count - 1)));
    sqlite3_free(s->values);
}

static void add_aggregates(sqlite3 *db) {
    int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    sqlite3_create_function(db, "quantile", 2, flags, NULL, NULL, add_value, finish_quantile);
    sqlite3_create_function(db, "stddev", 1, flags, NULL, NULL, add_value, finish_deviation);
}

static void confine_query(tperf_store *store) {
    add_aggregates(store->db);
    static const int limits[][2] = {
        {SQLITE_LIMIT_LENGTH, LONGEST_VALUE},   {SQLITE_LIMIT_SQL_LENGTH, 100000},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64}, {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_EXPR_DEPTH, 100},         {SQLITE_LIMIT_COMPOUND_SELECT, 20},
        {SQLITE_LIMIT_WORKER_THREADS, 0},       {SQLITE_LIMIT_VDBE_OP, 100000},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        sqlite3_limit(store->db, limits[i][0], limits[i][1]);
    static const char *const trims[] = {"trim", "ltrim", "rtrim"}; // two texts take their product
    for (size_t i = 0; i < sizeof trims / sizeof *trims; i++)
        sqlite3_create_function(store->db, trims[i], 2, SQLITE_UTF8, NULL, NULL, NULL, NULL);
    sqlite3_set_authorizer(store->db, allow, store);
    sqlite3_progress_handler(store->db, STEPS, stop_query, store);
}

static int confine(tperf_store *store) {
    sqlite3 *db = store->db;
    sqlite3_extended_result_codes(db, 1);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, NULL); // a misspelt "column" is no text
    sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, store->kind == TPERF_STORE_QUERY, NULL);
    sqlite3_busy_handler(db, wait_for_other, NULL);
    int code =
        sqlite3_exec(db, "PRAGMA temp_store = FILE; PRAGMA cell_size_check = ON", NULL, NULL, NULL);
    if (code == SQLITE_OK && store->kind == TPERF_STORE_QUERY) confine_query(store);
    return code;
}

static sqlite3_file *file_of(sqlite3 *db) {
    sqlite3_file *file = NULL;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    return file && file->pMethods ? file : NULL;
}

// Whether a file begins as the caller's own do, but for one byte that the disk may have lost. Everything counts that
// is the same in all of them: SQLite's name, constants, encoding and application (sections 1.3 of its file format).
static bool begins_like(sqlite3 *db, const char *like) {
    static const struct {
        unsigned char from, to;
    } parts[] = {{0, 16}, {21, 24}, {44, 48}, {56, 60}, {72, 92}};
    enum { APPLICATION = 68, APPLICATION_END = 72 };
    char begin[TPERF_STORE_HEADER];
    sqlite3_file *file = file_of(db);
    if (!file || file->pMethods->xRead(file, begin, sizeof begin, 0) != SQLITE_OK) return false;
    int wrong = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int at = parts[i].from; at < parts[i].to; at++)
            wrong += begin[at] != like[at];
    return wrong <= 1 &&
           memcmp(begin + APPLICATION, like + APPLICATION, APPLICATION_END - APPLICATION) == 0;
}

int tperf_store_open(tperf_store *store, tperf_store_place *place, tperf_store_kind kind,
                     const char *like) {
    char uri[3 * PATH_MAX + 32];
    const char *files;
    bool plain, writes = kind == TPERF_STORE_WRITE;
    *store = (tperf_store){.place = place, .kind = kind};
    int code = tperf_store_files(&files);
    if (code != SQLITE_OK) return code;
    bool there = tperf_companion_there(place->at, place->name, &plain);
    if (!there || (writes && !plain) || !tperf_store_uri(place, kind, uri, sizeof uri))
        return SQLITE_CANTOPEN;
    int flags =
        SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE |
        (writes || kind == TPERF_STORE_TRIAL ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
    code = sqlite3_open_v2(uri, &store->db, flags, files);
    if (code != SQLITE_OK) return code;
    sqlite3_int64 size = 0;
    if (like && file_of(store->db))
        file_of(store->db)->pMethods->xFileSize(file_of(store->db), &size);
    world.must_stop((uint64_t)size / READ_PER_STEP); // which the script's next instruction heeds
    if ((like && !begins_like(store->db, like)) || tperf_store_moved(store)) {
        sqlite3_close(store->db); // which has read nothing else yet
        store->db = NULL;
        return SQLITE_AUTH;
    }
    return confine(store);
}

int tperf_store_open_memory(tperf_store *store) {
    const char *files;
    *store = (tperf_store){.kind = TPERF_STORE_READ};
    int code = tperf_store_files(&files);
    if (code == SQLITE_OK)
        code = sqlite3_open_v2(":memory:", &store->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXRESCODE,
                               files);
    return code == SQLITE_OK ? confine(store) : code;
}

void tperf_store_confine(tperf_store *store) {
    store->kind = TPERF_STORE_QUERY;
    confine_query(store);
}

bool tperf_store_moved(const tperf_store *store) {
    int moved = 0;
    if (store->db) sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved != 0;
}

bool tperf_store_overtaken(const tperf_store *store) {
    sqlite3_file *file = store->db && store->place ? file_of(store->db) : NULL;
    char beside[NAME_MAX + TPERF_COMPANION_LONGEST + 1];
    struct stat info;
    if (!file || !tperf_store_reads_alone(file)) return false;
    snprintf(beside, sizeof beside, "%s-shm", store->place->name);
    return fstatat(store->place->at, beside, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

void tperf_store_close(tperf_store *store) {
    if (!store->db) return;
    for (sqlite3_stmt *statement; (statement = sqlite3_next_stmt(store->db, NULL));)
        sqlite3_finalize(statement);
    bool locked = store->kind == TPERF_STORE_WRITE && tperf_store_lock(store->place);
    if (store->kind == TPERF_STORE_WRITE && !tperf_store_moved(store)) {
        sqlite3_busy_handler(store->db, NULL, NULL); // other users need the companion files
        sqlite3_exec(store->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
    } else { // the companion files belong to others
        sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    }
    sqlite3_close(store->db);
    store->db = NULL;
    if (locked) tperf_store_unlock(store->place);
}

int tperf_store_empty(const char *sql, char bytes[TPERF_STORE_EMPTY_MOST], size_t *size) {
    sqlite3 *db = NULL;
    sqlite3_int64 count = 0;
    int code = sqlite3_open(":memory:", &db);
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

// Names a file and its companions with ".damaged", or ".damaged-NUMBER". False if such a file is there.
static bool is_free(int at, const char *name, int number, char to[NAME_MAX + 1]) {
    bool plain;
    int length =
        snprintf(to, NAME_MAX + 1, number == 1 ? "%s.damaged" : "%s.damaged-%d", name, number);
    return length <= NAME_MAX - TPERF_COMPANION_LONGEST && !tperf_companion_there(at, to, &plain) &&
           !tperf_companion_beside(at, to, false);
}

bool tperf_store_set_aside(const tperf_store_place *place, char to[NAME_MAX + 1]) {
    char from[NAME_MAX + TPERF_COMPANION_LONGEST + 1],
        beside[NAME_MAX + TPERF_COMPANION_LONGEST + 1];
    int at = place->at, number = 1;
    while (number <= 1000 && !is_free(at, place->name, number, to))
        number++;
    if (number > 1000) return errno = EEXIST, false;
    if (!tperf_stage_move(at, place->name, at, to, false)) return false;
    for (const char *const *ending = tperf_companion_endings; *ending; ending++) {
        snprintf(from, sizeof from, "%s%s", place->name, *ending);
        snprintf(beside, sizeof beside, "%s%s", to, *ending);
        tperf_stage_move(at, from, at, beside, false); // most do not exist
    }
    return true;
}

// --- the current writer ---

// The process that has locked a byte of the file, or 0.
static long locker(int at, const char *name, off_t byte) {
    int descriptor = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    bool known = descriptor >= 0 && fcntl(descriptor, F_GETLK, &lock) == 0;
    if (descriptor >= 0) close(descriptor);
    return known && lock.l_type == F_WRLCK ? (long)lock.l_pid : 0;
}

long tperf_store_writer(const tperf_store_place *place) {
    enum { WRITE_LOCK = 120, RESERVED_LOCK = 0x40000001 }; // SQLite's file format, sections 1 and 2
    char beside[NAME_MAX + TPERF_COMPANION_LONGEST + 1];
    snprintf(beside, sizeof beside, "%s-shm", place->name);
    long writer = locker(place->at, beside, WRITE_LOCK);
    return writer ? writer : locker(place->at, place->name, RESERVED_LOCK);
}
