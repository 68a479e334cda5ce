// overlap.h: how a pass's collectives overlap its kernels: what its cost and its segments follow from. Private to
// src/price.
#ifndef TPERF_PRICE_OVERLAP_H
#define TPERF_PRICE_OVERLAP_H

#include "tperf/price.h"

// Seconds of a pass's collectives, by how they overlap.
typedef struct tperf_comm_times {
    double carried, crossing, waited, beside, late_chunks, once;
    double calls;                   // of the host
    double slowing, slowing_beside; // by all collectives, and by the overlapped ones
    bool chunked;                   // some overlap a product in chunks
} tperf_comm_times;

// A chunked product of `chunk_work` seconds hides its chunked collectives; the remaining kernels hide the other
// overlapped ones. panels: pieces of each collective, of which these are the seconds of one.
tperf_comm_times tperf_comm_times_of(const tperf_pass *pass, const tperf_platform *on,
                                     const int64_t *sizes, const tperf_placement *placement,
                                     double panels, double chunk_work);

// Seconds by which collectives beside kernels of so many seconds delay what follows them.
double tperf_late_beside_kernels(const tperf_op *op, const tperf_platform *on,
                                 const tperf_comm_times *t, double panels, double kernels);

#endif
