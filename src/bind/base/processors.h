// processors.h: the number of threads that a process may run in parallel.
#ifndef TPERF_PROCESSORS_H
#define TPERF_PROCESSORS_H

#include <stdbool.h>

// The processes of a run that are on this machine.
typedef struct tperf_sharing {
    int processes;
    bool launched; // by an MPI launcher, which may have given each of them processors of its own
} tperf_sharing;

// From 1 to 1024, the same for each of the processes: its part of the processors allowed by sched_getaffinity, or fewer
// if its part of a container's quota is smaller (cgroups, both versions; files are looked up below `root`, "" for this
// machine).
int tperf_processors(const char *root, tperf_sharing sharing);

#endif
