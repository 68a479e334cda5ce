// store.h: a database in one file (SQLite), for the cache of a sweep and its readers. The caller has checked the path:
// absolute, and without symbolic links.
#ifndef TPERF_STORE_H
#define TPERF_STORE_H

#ifdef __EMSCRIPTEN__ // see src/page/no_store.c
typedef struct sqlite3 sqlite3;
#else
#include <sqlite3.h>
#endif
#include <stdbool.h>
#include <stdint.h>

#include "tperf/heap.h"

typedef enum tperf_store_kind {
    TPERF_STORE_WRITE, // reads and writes; others may read meanwhile, and write in turn
    TPERF_STORE_READ,  // reads; creates and changes no file, not even beside the database
    TPERF_STORE_QUERY, // likewise, for untrusted SQL: only SELECT, with bounded work
} tperf_store_kind;

// Makes sure that a database can be opened under this name in a folder: creates a missing one with these bytes, unless
// a foreign file has a name that the database will use. An existing one must be a regular file with a single name.
// False with errno.
bool tperf_store_make(int at, const char *name, const void *bytes, size_t size);

// Opens an existing database. Returns SQLite's code; the caller closes *db unless it is NULL, even after a failure.
int tperf_store_open(const char *path, tperf_store_kind kind, sqlite3 **db);

// Closes it and its statements. The last writer leaves a single plain file.
void tperf_store_close(sqlite3 *db);

// The bytes of a new database after running the statements. Returns SQLite's code.
enum { TPERF_STORE_EMPTY_MOST = 1 << 16 };
int tperf_store_empty(const char *sql, char bytes[TPERF_STORE_EMPTY_MOST], size_t *size);

// Renames a damaged database and its companion files to path with ".damaged", or ".damaged-2" … appended. False with
// errno.
bool tperf_store_set_aside(const char *path, char *to, size_t size);

// The process on this machine that is writing to the database; 0 if none is or it cannot be determined.
long tperf_store_writer(const char *path);

// Sets the heap from which SQLite allocates. Call once, before any other function.
void tperf_store_use_heap(const tperf_heap *heap);

// Sets the callback that says whether to stop, because of Ctrl-C or a spent budget; steps: those since the last call,
// counted for queries. Without a callback nothing stops.
void tperf_store_ask(bool (*must_stop)(uint64_t steps));

#endif
