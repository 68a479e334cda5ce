// processors.h: how many threads of work this process may run at a time.
#ifndef TPERF_PROCESSORS_H
#define TPERF_PROCESSORS_H

// From 1 to 1024: the processors that it may run on (sched_getaffinity), or fewer where the quota of a container is less
// (cgroups, both versions; the files are looked for below `root`, "" for the machine's own).
int tperf_processors(const char *root);

#endif
