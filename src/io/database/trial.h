// trial.h: a database as it will be once a stopped writer's change is taken back, without taking it back. What SQLite
// writes to the file meanwhile goes to memory.
#ifndef TPERF_DATABASE_TRIAL_H
#define TPERF_DATABASE_TRIAL_H

#include "io/store.h"

// The bytes that a trial takes.
int tperf_trial_size(void);

// Makes a trial of a database that is open for reading; its trial lies `offset` bytes behind `file`. name: of the file,
// as long as it is open.
void tperf_trial_begin(sqlite3_file *file, int offset, const char *name);

// Makes a journal that is open for reading look as if it could be written to; offset: as above.
void tperf_trial_hold(sqlite3_file *file, int offset);

// Whether this is the name of a trial's journal; *gone: set to true, as its deletion does, or read.
bool tperf_trial_journal(const char *name, bool **gone);

#endif
