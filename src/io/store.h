// store.h: a database in one file (SQLite), for the cache of a sweep and its readers.
#ifndef TPERF_STORE_H
#define TPERF_STORE_H

#ifdef __EMSCRIPTEN__ // see src/page/no_store.c
typedef struct sqlite3 sqlite3;
#else
#include <sqlite3.h>
#endif
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "tperf/heap.h"

#ifndef NAME_MAX
#define NAME_MAX 255
#endif

typedef enum tperf_store_kind {
    TPERF_STORE_WRITE, // reads and writes; others may read meanwhile, and write in turn
    TPERF_STORE_READ,  // reads; creates and changes no file, not even beside the database
    TPERF_STORE_QUERY, // likewise, for untrusted SQL: only SELECT, with bounded work
    TPERF_STORE_TRIAL, // reads what a writer would, after it has taken back what a stopped one left
} tperf_store_kind;

// A database's name in a folder that is held open: no link that takes the folder's name later leads elsewhere.
typedef struct tperf_store_place {
    int at;    // the folder's descriptor; -1: closed
    int locks; // held by this process
    char name[NAME_MAX + 1];
    char path[PATH_MAX]; // the whole name, absolute
} tperf_store_place;

// A place, for which the caller gives away the descriptor; false with errno, and closes it, if the name is too long.
bool tperf_store_place_set(tperf_store_place *place, int at, const char *path);
void tperf_store_place_close(tperf_store_place *place);

// Makes sure that a database can be opened at this place: creates a missing one with these bytes, unless a foreign file
// has a name that the database will use. An existing one must be a regular file with a single name. False with errno.
bool tperf_store_make(const tperf_store_place *place, const void *bytes, size_t size);

// Keeps other processes of tperf from opening, closing and replacing databases of the folder until it is unlocked as
// often. Waits for them; false if that takes too long.
bool tperf_store_lock(tperf_store_place *place);
void tperf_store_unlock(tperf_store_place *place);

typedef struct tperf_store {
    sqlite3 *db; // NULL: closed
    tperf_store_place *place;
    tperf_store_kind kind;
    uint64_t steps; // of a query; the caller resets them
    bool recursive; // the query is
    bool endless;   // and was stopped, since it seems not to end
} tperf_store;

// Opens an existing database. like, if not NULL: the first TPERF_STORE_HEADER bytes of one of the caller's own; any
// other is refused (SQLITE_AUTH) before a byte of it, or of its companions, could change. Returns SQLite's code; the
// caller closes the store, even after a failure, and before its place. Its address must not change.
enum { TPERF_STORE_HEADER = 100 };
int tperf_store_open(tperf_store *store, tperf_store_place *place, tperf_store_kind kind,
                     const char *like);

// Opens an empty database in memory, for the caller's own statements, until tperf_store_confine leaves it to queries.
// Returns SQLite's code.
int tperf_store_open_memory(tperf_store *store);
void tperf_store_confine(tperf_store *store);

// Prepares the first statement of a text of `size` bytes; *rest is what follows it. Returns SQLite's code:
// SQLITE_INTERRUPT if a query was to stop. What preparing it takes is charged for.
int tperf_store_prepare(const tperf_store *store, const char *sql, size_t size,
                        struct sqlite3_stmt **statement, const char **rest);

// Closes it and its statements. The last writer leaves a single plain file.
void tperf_store_close(tperf_store *store);

// Whether another file has taken the name of the open database.
bool tperf_store_moved(const tperf_store *store);

// Whether another program has begun to write to a database that was read without locks, since nobody wrote to it: what
// was read may mix old and new.
bool tperf_store_overtaken(const tperf_store *store);

// The bytes of a new database after running the statements. Returns SQLite's code.
enum { TPERF_STORE_EMPTY_MOST = 1 << 16 };
int tperf_store_empty(const char *sql, char bytes[TPERF_STORE_EMPTY_MOST], size_t *size);

// Renames a damaged database and its companion files to their names with ".damaged", or ".damaged-2" …, of which `to`
// gets the database's. False with errno.
bool tperf_store_set_aside(const tperf_store_place *place, char to[NAME_MAX + 1]);

// The process on this machine that is writing to the database; 0 if none is or it cannot be determined. The database
// must not be open in this one, which would lose its locks.
long tperf_store_writer(const tperf_store_place *place);

// Sets the heap from which SQLite allocates. Call once, before any other function.
void tperf_store_use_heap(const tperf_heap *heap);

// Sets the callback that says whether to stop, because of Ctrl-C or a spent budget; steps: those since the last call,
// counted for queries. Without a callback nothing stops.
void tperf_store_ask(bool (*must_stop)(uint64_t steps));

#endif
