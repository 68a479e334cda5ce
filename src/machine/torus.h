// torus.h: groups of GPUs in a torus, as of TPUs and Trainium.
#ifndef TPERF_MACHINE_TORUS_H
#define TPERF_MACHINE_TORUS_H

#include <stdint.h>

#include "tperf/system.h"

// A group of GPUs that lie in a compact block. In each of its axes a GPU has a link to either side where the block is
// long enough to wrap; a shorter block is a line, whose ends have one link, and that one passes everything.
typedef struct tperf_block {
    double links; // of a GPU, that a gather keeps busy
    double hops;  // of a pass, from the farthest GPU
    double
        turned; // bytes of its all-to-all, in parts of what one GPU sends, that pass a link of the longest axis
} tperf_block;

// axes: the length from which each axis wraps; 0 after the last. size: GPUs of the group.
tperf_block tperf_torus_block(const double axes[TPERF_TORUS_AXES], int64_t size);

#endif
