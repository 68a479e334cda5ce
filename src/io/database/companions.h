// companions.h: the files that SQLite takes for a part of a database X: X-journal, X-wal and X-shm beside it, and
// X-mj…, which ties the journals of several databases together. Whoever opens X rolls back what they say, and removes
// them: a journal may name any file of the user's.
#ifndef TPERF_COMPANIONS_H
#define TPERF_COMPANIONS_H

#include <stdbool.h>
#include <stddef.h>

// The endings of companion files, up to NULL; longest: bytes of the longest.
extern const char *const tperf_companion_endings[];
enum { TPERF_COMPANION_LONGEST = 8 };

// Whether a file of this name is a companion of some database, here or on a file system that ignores case.
bool tperf_companion_is(const char *name);

// Whether a file of this name exists; *plain: it is a regular file with a single name.
bool tperf_companion_there(int at, const char *name, bool *plain);

// The ending of a companion file that exists beside this name, whoever wrote it; NULL if there is none. Of those that
// are regular files with a single name only the others count, if `strange`.
const char *tperf_companion_beside(int at, const char *name, bool strange);

#endif
