// store.h: a database in one file (SQLite), as the cache of a sweep and what reads it need it. Whoever opens one has
// checked its path: absolute, and without symbolic links.
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
    TPERF_STORE_READ,  // reads: no file is made or changed, not even beside it
    TPERF_STORE_QUERY, // likewise, for SQL that nobody has checked: SELECT alone, of bounded work
} tperf_store_kind;

// Makes sure that a database can be opened under that name in a folder: one that is missing is made with these bytes,
// unless somebody's file has a name that the database will use; what is there must be a file of its own. False with
// errno.
bool tperf_store_make(int at, const char *name, const void *bytes, size_t size);

// Opens a database that is there. Returns SQLite's code; *db, unless NULL, is to be closed also after a failure.
int tperf_store_open(const char *path, tperf_store_kind kind, sqlite3 **db);

// Closes it and its statements. The last writer leaves one plain file, with nothing beside it.
void tperf_store_close(sqlite3 *db);

// The bytes of a database that holds what the statements make. Returns SQLite's code.
enum { TPERF_STORE_EMPTY_MOST = 1 << 16 };
int tperf_store_empty(const char *sql, char bytes[TPERF_STORE_EMPTY_MOST], size_t *size);

// Gives a damaged database, and what lies beside it, another name: path with ".damaged", or ".damaged-2" … behind it.
// False with errno.
bool tperf_store_set_aside(const char *path, char *to, size_t size);

// The process of this machine that writes to the database at this moment; 0 when none does or nobody can tell.
long tperf_store_writer(const char *path);

// What SQLite holds comes from this heap. Before anything else here, once.
void tperf_store_use_heap(const tperf_heap *heap);

// Whether work may not go on, as the user wants to end it or a budget is spent; steps are those done since the last
// call, counted for queries. Without it, all work goes on.
void tperf_store_ask(bool (*must_stop)(uint64_t steps));

#endif
