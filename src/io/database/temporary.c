// temporary.c: what SQLite sorts and sets aside goes into files that it sorts piece by piece, 2 MB at a time. Had it no
// files, it would keep each row in a block of its own, half as large again as the heap knows, and sort all of them in one
// step, which nothing could stop. The pieces come from SQLite's heap, so that they are charged for.
#include "io/database/temporary.h"

#include <string.h>

enum { PIECE = 1 << 16 }; // bytes

typedef struct temporary {
    sqlite3_file base;
    unsigned char **pieces;
    sqlite3_int64 count; // of pieces
    sqlite3_int64 size;  // bytes of the file
} temporary;

static int truncate_to(sqlite3_file *file, sqlite3_int64 size) {
    temporary *t = (temporary *)file;
    sqlite3_int64 kept = (size + PIECE - 1) / PIECE;
    while (t->count > kept)
        sqlite3_free(t->pieces[--t->count]);
    if (size < t->size) t->size = size;
    return SQLITE_OK;
}

static int close_file(sqlite3_file *file) {
    temporary *t = (temporary *)file;
    truncate_to(file, 0);
    sqlite3_free(t->pieces);
    t->pieces = NULL;
    return SQLITE_OK;
}

// Copies within one piece at a time. Returns how many bytes the piece has from there on, at most `size`.
static size_t within(sqlite3_int64 at, sqlite3_int64 size) {
    sqlite3_int64 rest = PIECE - at % PIECE;
    return (size_t)(rest < size ? rest : size);
}

static int read_file(sqlite3_file *file, void *to, int size, sqlite3_int64 at) {
    temporary *t = (temporary *)file;
    sqlite3_int64 there = t->size - at;
    if (there < size) memset(to, 0, (size_t)size);
    for (sqlite3_int64 left = there < size ? there : size; left > 0;) {
        size_t part = within(at, left);
        memcpy(to, t->pieces[at / PIECE] + at % PIECE, part);
        to = (char *)to + part;
        at += (sqlite3_int64)part;
        left -= (sqlite3_int64)part;
    }
    return there < size ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

static bool grow(temporary *t, sqlite3_int64 size) {
    sqlite3_int64 wanted = (size + PIECE - 1) / PIECE;
    if (wanted <= t->count) return true;
    unsigned char **pieces = sqlite3_realloc64(t->pieces, (sqlite3_uint64)wanted * sizeof *pieces);
    if (!pieces) return false;
    t->pieces = pieces;
    for (; t->count < wanted; t->count++) {
        pieces[t->count] = sqlite3_malloc(PIECE);
        if (!pieces[t->count]) return false;
        memset(pieces[t->count], 0, PIECE);
    }
    return true;
}

static int write_file(sqlite3_file *file, const void *from, int size, sqlite3_int64 at) {
    temporary *t = (temporary *)file;
    if (!grow(t, at + size)) return SQLITE_NOMEM;
    if (at + size > t->size) t->size = at + size;
    for (sqlite3_int64 left = size; left > 0;) {
        size_t part = within(at, left);
        memcpy(t->pieces[at / PIECE] + at % PIECE, from, part);
        from = (const char *)from + part;
        at += (sqlite3_int64)part;
        left -= (sqlite3_int64)part;
    }
    return SQLITE_OK;
}

static int size_of(sqlite3_file *file, sqlite3_int64 *size) {
    *size = ((temporary *)file)->size;
    return SQLITE_OK;
}

static int sync_nothing(sqlite3_file *file, int flags) {
    return (void)file, (void)flags, SQLITE_OK;
}

static int lock_nothing(sqlite3_file *file, int level) {
    return (void)file, (void)level, SQLITE_OK;
}

static int is_reserved(sqlite3_file *file, int *reserved) {
    (void)file;
    *reserved = 0;
    return SQLITE_OK;
}

static int control(sqlite3_file *file, int operation, void *data) {
    return (void)file, (void)operation, (void)data, SQLITE_NOTFOUND;
}

static int sector_size(sqlite3_file *file) {
    return (void)file, 4096;
}

static int characteristics(sqlite3_file *file) {
    return (void)file, 0;
}

int tperf_temporary_size(void) {
    return (int)sizeof(temporary);
}

void tperf_temporary_open(sqlite3_file *file) {
    static const sqlite3_io_methods methods = {
        .iVersion = 1,
        .xClose = close_file,
        .xRead = read_file,
        .xWrite = write_file,
        .xTruncate = truncate_to,
        .xSync = sync_nothing,
        .xFileSize = size_of,
        .xLock = lock_nothing,
        .xUnlock = lock_nothing,
        .xCheckReservedLock = is_reserved,
        .xFileControl = control,
        .xSectorSize = sector_size,
        .xDeviceCharacteristics = characteristics,
    };
    *(temporary *)file = (temporary){.base = {&methods}};
}
