// regular.h: opens files that others name or made. A path may lead to a pipe, which blocks, to a device, or to files that
// expose the kernel: only regular files outside /proc, /sys and mounts of their kinds are opened.
#ifndef TPERF_REGULAR_H
#define TPERF_REGULAR_H

#include <errno.h>

enum { TPERF_NOT_A_FILE = ENXIO };

// The descriptor of a regular file for reading, or -1 with errno: TPERF_NOT_A_FILE for what is none. Never blocks.
int tperf_regular_open(const char *path);

#endif
