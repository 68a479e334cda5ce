// torus.c: see torus.h. The formulas are those of How to Scale Your Model (jax-ml, 2025), chapter on sharding: an axis of n
// chips that wraps gathers V bytes in V (n - 1) / n / (2 W) or n / 2 hops, and exchanges them in a quarter of the former.
#include "machine/torus.h"

// The axis to lengthen by a factor: the shortest that is not longer than it must be to wrap, or the shortest.
static int next_axis(const double axes[TPERF_TORUS_AXES], const double length[TPERF_TORUS_AXES],
                     double factor) {
    int best = 0;
    bool fits = false;
    for (int i = 0; i < TPERF_TORUS_AXES && axes[i] > 0; i++) {
        bool good = length[i] * factor <= axes[i];
        if ((good && !fits) || (good == fits && length[i] < length[best])) best = i;
        fits = fits || good;
    }
    return best;
}

// Largest factors first, so that the axes come out as equal as they can.
static void divide(const double axes[TPERF_TORUS_AXES], int64_t size,
                   double length[TPERF_TORUS_AXES]) {
    int64_t factors[64];
    int count = 0;
    for (int64_t f = 2; f * f <= size; f++)
        for (; size % f == 0; size /= f)
            factors[count++] = f;
    if (size > 1) factors[count++] = size;
    while (count-- > 0) {
        double factor = (double)factors[count];
        length[next_axis(axes, length, factor)] *= factor;
    }
}

tperf_block tperf_torus_block(const double axes[TPERF_TORUS_AXES], int64_t size) {
    double length[TPERF_TORUS_AXES] = {1, 1, 1};
    tperf_block block = {0};
    divide(axes, size, length);
    for (int i = 0; i < TPERF_TORUS_AXES && axes[i] > 0; i++) {
        if (length[i] == 1) continue;
        bool wraps = length[i] >= axes[i] && length[i] > 2;
        double turned = length[i] / (wraps ? 8 : 4);
        block.links += wraps ? 2 : 1;
        block.hops += wraps ? length[i] / 2 : length[i] - 1;
        if (turned > block.turned) block.turned = turned;
    }
    return block;
}
