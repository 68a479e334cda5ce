// files.h: the files of a database, as SQLite may open them.
#ifndef TPERF_DATABASE_FILES_H
#define TPERF_DATABASE_FILES_H

#include "io/store.h"

// Registers the file system below; SQLite's code.
int tperf_store_files(const char **name);

// The URI under which that opens a database: the folder's descriptor is a part of it. False: too long.
bool tperf_store_uri(const tperf_store_place *place, tperf_store_kind kind, char *uri, size_t size);

// Whether a reader has no memory to share with writers, and thus no locks.
bool tperf_store_reads_alone(sqlite3_file *file);

#endif
