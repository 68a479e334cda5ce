// trial.c: see trial.h. A database is kept in pieces: those that SQLite has written to are in its heap, the others are in
// the file. Locks above that of a reader are only pretended: while it is held, nobody else can write, and a journal
// whose writer is gone stays as it is.
#include "io/database/trial.h"

#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 16 }; // bytes

typedef struct trial {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *real;
    char journal[PATH_MAX + 16]; // its name; "": a journal's own
    bool gone;                   // the journal, as far as the trial knows
    unsigned char **pieces;      // NULL: in the file
    sqlite3_int64 count, size;   // of pieces; bytes of the database
    struct trial *next;
} trial;

static int behind; // of a trial behind its file
static trial *trials;

int tperf_trial_size(void) {
    return (int)sizeof(trial);
}

static trial *trial_of(sqlite3_file *file) {
    return (trial *)((char *)file + behind);
}

bool tperf_trial_journal(const char *name, bool **gone) {
    for (trial *t = trials; t; t = t->next) {
        if (strcmp(t->journal, name) != 0) continue;
        *gone = &t->gone;
        return true;
    }
    return false;
}

static void forget_from(trial *t, sqlite3_int64 kept) {
    for (; t->count > kept; t->count--)
        sqlite3_free(t->pieces[t->count - 1]);
}

static int close_file(sqlite3_file *file) {
    trial *t = trial_of(file);
    forget_from(t, 0);
    sqlite3_free(t->pieces);
    for (trial **link = &trials; *link; link = &(*link)->next) {
        if (*link != t) continue;
        *link = t->next;
        break;
    }
    return t->real->xClose(file);
}

// Reads from the file itself; what lies beyond its end is zero.
static int read_real(sqlite3_file *file, void *to, int size, sqlite3_int64 at) {
    int code = trial_of(file)->real->xRead(file, to, size, at);
    return code == SQLITE_IOERR_SHORT_READ ? SQLITE_OK : code;
}

// Returns how many bytes the piece has from there on, at most `size`.
static int within(sqlite3_int64 at, sqlite3_int64 size) {
    sqlite3_int64 rest = PIECE - at % PIECE;
    return (int)(rest < size ? rest : size);
}

static int read_file(sqlite3_file *file, void *to, int size, sqlite3_int64 at) {
    const trial *t = trial_of(file);
    sqlite3_int64 left = t->size - at < size ? t->size - at : size;
    int code = left < size ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
    memset(to, 0, (size_t)size);
    while (left > 0) {
        int part = within(at, left);
        const unsigned char *piece = at / PIECE < t->count ? t->pieces[at / PIECE] : NULL;
        if (piece) memcpy(to, piece + at % PIECE, (size_t)part);
        int failed = piece ? SQLITE_OK : read_real(file, to, part, at);
        if (failed) return failed;
        to = (char *)to + part;
        at += part;
        left -= part;
    }
    return code;
}

// Brings a piece into memory.
static int load(sqlite3_file *file, sqlite3_int64 number) {
    trial *t = trial_of(file);
    if (number >= t->count) {
        sqlite3_uint64 bytes = (sqlite3_uint64)(number + 1) * sizeof *t->pieces;
        unsigned char **pieces = sqlite3_realloc64(t->pieces, bytes);
        if (!pieces) return SQLITE_NOMEM;
        memset(pieces + t->count, 0, (size_t)(number + 1 - t->count) * sizeof *pieces);
        t->pieces = pieces;
        t->count = number + 1;
    }
    if (t->pieces[number]) return SQLITE_OK;
    t->pieces[number] = sqlite3_malloc(PIECE);
    if (!t->pieces[number]) return SQLITE_NOMEM;
    memset(t->pieces[number], 0, PIECE);
    return read_real(file, t->pieces[number], PIECE, number * PIECE);
}

static int write_file(sqlite3_file *file, const void *from, int size, sqlite3_int64 at) {
    trial *t = trial_of(file);
    for (sqlite3_int64 left = size; left > 0;) {
        int part = within(at, left), code = load(file, at / PIECE);
        if (code) return code;
        memcpy(t->pieces[at / PIECE] + at % PIECE, from, (size_t)part);
        from = (const char *)from + part;
        at += part;
        left -= part;
    }
    if (at > t->size) t->size = at;
    return SQLITE_OK;
}

// Nothing is written behind the end of a change that was taken back: what lies there need not become zero.
static int truncate_to(sqlite3_file *file, sqlite3_int64 size) {
    trial *t = trial_of(file);
    forget_from(t, (size + PIECE - 1) / PIECE);
    if (size < t->size) t->size = size;
    return SQLITE_OK;
}

static int size_of(sqlite3_file *file, sqlite3_int64 *size) {
    *size = trial_of(file)->size;
    return SQLITE_OK;
}

static int sync_nothing(sqlite3_file *file, int flags) {
    return (void)file, (void)flags, SQLITE_OK;
}

static int lock(sqlite3_file *file, int level) {
    return trial_of(file)->real->xLock(file,
                                       level < SQLITE_LOCK_SHARED ? level : SQLITE_LOCK_SHARED);
}

static int write_nothing(sqlite3_file *file, const void *from, int size, sqlite3_int64 at) {
    return (void)file, (void)from, (void)size, (void)at, SQLITE_READONLY;
}

static int cut_nothing(sqlite3_file *file, sqlite3_int64 size) {
    return (void)file, (void)size, SQLITE_OK;
}

static int control(sqlite3_file *file, int operation, void *data) {
    if (operation != SQLITE_FCNTL_HAS_MOVED) return SQLITE_NOTFOUND;
    return trial_of(file)->real->xFileControl(file, operation, data);
}

static trial *begin(sqlite3_file *file, int offset) {
    behind = offset;
    trial *t = trial_of(file);
    *t = (trial){.methods = *file->pMethods, .real = file->pMethods};
    t->methods.xSync = sync_nothing;
    t->methods.xFileControl = control;
    file->pMethods = &t->methods;
    return t;
}

void tperf_trial_begin(sqlite3_file *file, int offset, const char *name) {
    trial *t = begin(file, offset);
    t->real->xFileSize(file, &t->size);
    t->methods.xClose = close_file;
    t->methods.xRead = read_file;
    t->methods.xWrite = write_file;
    t->methods.xTruncate = truncate_to;
    t->methods.xFileSize = size_of;
    t->methods.xLock = lock;
    snprintf(t->journal, sizeof t->journal, "%s-journal", name);
    t->next = trials;
    trials = t;
}

void tperf_trial_hold(sqlite3_file *file, int offset) {
    trial *t = begin(file, offset);
    t->methods.xWrite = write_nothing;
    t->methods.xTruncate = cut_nothing;
}
