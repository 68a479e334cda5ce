// transport.h: how messages travel between the processes of a run. Private to src/io/ranks*.c; see ranks.h for what
// the functions do.
#ifndef TPERF_TRANSPORT_H
#define TPERF_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tperf_transport {
    bool (*send)(int to, const void *bytes, size_t size);
    bool (*next)(int *from, size_t *size);
    void (*take)(void *bytes);
    void (*rest)(long nanoseconds);
    void (*finish)(void);
} tperf_transport;

// The processes, and this one's place among them.
typedef struct tperf_ranks {
    int count, self, here;
    const tperf_transport *transport; // NULL: this is the only process
} tperf_ranks;

// Joins the processes that an MPI launcher started; unchanged if there are none.
void tperf_mpi_start(int *argc, char ***argv, tperf_ranks *ranks);

// Makes copies of this process; see tperf_ranks_copy.
int tperf_copies_start(int count, tperf_ranks *ranks);

#endif
