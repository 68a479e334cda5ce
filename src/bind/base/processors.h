// processors.h: the number of threads that this process may run in parallel.
#ifndef TPERF_PROCESSORS_H
#define TPERF_PROCESSORS_H

// From 1 to 1024: the processors allowed by sched_getaffinity, or fewer if a container's quota is smaller (cgroups,
// both versions; files are looked up below `root`, "" for this machine).
int tperf_processors(const char *root);

#endif
