// ranks.h: the processes of one run under MPI. Rank 0 runs the script and sends work to the others. Without MPI, or
// without a launcher, the program is a single rank. Only the thread that called tperf_ranks_start may call these
// functions.
#ifndef TPERF_RANKS_H
#define TPERF_RANKS_H

#include <stdbool.h>
#include <stddef.h>

// Joins the other processes if a launcher (mpirun, srun) started several.
void tperf_ranks_start(int *argc, char ***argv);

int tperf_ranks_count(void);
int tperf_ranks_self(void); // from 0
int tperf_ranks_here(void); // ranks on this machine

// Whether the program was built with MPI.
bool tperf_ranks_built(void);

// Sends a copy of a non-empty message without waiting. False if out of memory.
bool tperf_ranks_send(int to, const void *bytes, size_t size);

// Whether a message has arrived; if so, its sender and size, and tperf_ranks_take must follow. Size 0: rank 0 ends the
// run.
bool tperf_ranks_next(int *from, size_t *size);
void tperf_ranks_take(void *bytes);

// Ends the run on this rank; call once. Rank 0 gives the others a second to end, then kills those still busy.
void tperf_ranks_finish(void);

#endif
