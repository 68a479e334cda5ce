// ranks.h: the processes of one run under MPI, the first of which runs the script and sends work to the others. A
// program without MPI, or that no launcher has started, is one rank, alone. Only the thread that starts calls these.
#ifndef TPERF_RANKS_H
#define TPERF_RANKS_H

#include <stdbool.h>
#include <stddef.h>

// Joins the other processes, if a launcher (mpirun, srun) has started this one among several.
void tperf_ranks_start(int *argc, char ***argv);

int tperf_ranks_count(void);
int tperf_ranks_self(void); // from 0
int tperf_ranks_here(void); // how many of them are on this machine

// Whether the program was built with MPI.
bool tperf_ranks_built(void);

// Sends a copy of a message, not empty, and does not wait. False: there is no memory.
bool tperf_ranks_send(int to, const void *bytes, size_t size);

// Whether a message has come; if so, whose, and its size: 0 means that rank 0 wants the run to end. It is taken next.
bool tperf_ranks_next(int *from, size_t *size);
void tperf_ranks_take(void *bytes);

// Ends the run on this rank, once. Rank 0 gives the others a second to end; those that are at work then are killed.
void tperf_ranks_finish(void);

#endif
