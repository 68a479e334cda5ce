// executable.h: where this program lies, so that it finds the data beside it.
#ifndef TPERF_EXECUTABLE_H
#define TPERF_EXECUTABLE_H

#include <stdbool.h>
#include <stddef.h>

// Writes the absolute path, without links, of the program that this process runs. False if the system does not tell.
bool tperf_executable(char *path, size_t size);

#endif
