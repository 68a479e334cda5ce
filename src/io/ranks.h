// ranks.h: the processes of one run: ranks under MPI, or copies of this process on one machine. Rank 0 runs the script
// and sends work to the others. Only the thread that called tperf_ranks_start may call these functions.
#ifndef TPERF_RANKS_H
#define TPERF_RANKS_H

#include <stdbool.h>
#include <stddef.h>

// Joins the other processes if an MPI launcher (mpirun, srun) started several.
void tperf_ranks_start(int *argc, char ***argv);

// Makes this process rank 0 of `count`; the others are copies of it, in which the function returns their rank. They
// have no standard input and output, ignore Ctrl-C, and end when rank 0 does. Returns -1 and sets errno if that is impossible; ENOTSUP: there are several processes already, or none can be copied
// here.
int tperf_ranks_copy(int count);

int tperf_ranks_count(void);
int tperf_ranks_self(void); // from 0
int tperf_ranks_here(void); // ranks on this machine

bool tperf_ranks_launched(void); // by an MPI launcher, not as copies

// Whether the program was built with MPI.
bool tperf_ranks_built(void);

// Sends a copy of a non-empty message without waiting. False if out of memory.
bool tperf_ranks_send(int to, const void *bytes, size_t size);

// Whether a message has arrived; if so, its sender and size, and tperf_ranks_take must follow. Size 0: the sender has
// ended; if that is rank 0, the run ends.
bool tperf_ranks_next(int *from, size_t *size);
void tperf_ranks_take(void *bytes);

// Sleeps for less than a second, or until a message arrives, where the transport can tell.
void tperf_ranks_rest(double seconds);

// Ends the run on this rank; call once. Rank 0 makes sure that the others end.
void tperf_ranks_finish(void);

#endif
