// temporary.h: SQLite's temporary files, in memory.
#ifndef TPERF_DATABASE_TEMPORARY_H
#define TPERF_DATABASE_TEMPORARY_H

#include "io/store.h"

// The bytes that such a file takes.
int tperf_temporary_size(void);

// Makes `file`, which has room for them, a new empty one.
void tperf_temporary_open(sqlite3_file *file);

#endif
