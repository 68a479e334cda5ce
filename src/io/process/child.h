// child.h: runs another program to its end, without a shell and without named files.
#ifndef TPERF_CHILD_H
#define TPERF_CHILD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tperf_child {
    const char *const *arguments;   // the program first; NULL at the end
    const char *const *environment; // names and values in turn, added to this program's
    const char *input;              // its standard input
    size_t size;
    unsigned seconds;   // of processor time
    size_t memory;      // bytes
    size_t output;      // the most bytes of its standard output
    bool (*stop)(void); // asked again and again: whether to end it
} tperf_child;

// Runs it. What it wrote, *size bytes, which the caller frees; or NULL with errno: ENOENT without such a program, EINTR if
// it was told to stop, EIO if it failed or reached a limit.
char *tperf_child_run(const tperf_child *child, size_t *size);

// Kills the program that runs, if one does. Async-signal-safe.
void tperf_child_kill(void);

#endif
