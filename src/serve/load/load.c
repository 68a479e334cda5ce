// load.c: lengths and arrivals drawn from distributions, see tperf/serve.h.
#include <math.h>

#include "serve/load/random.h"
#include "tperf/serve.h"

static double draw(const tperf_lengths *lengths, tperf_random *random) {
    switch (lengths->kind) {
    case TPERF_LENGTH_FIXED:
        return lengths->a;
    case TPERF_LENGTH_UNIFORM:
        return floor(lengths->a + tperf_random_unit(random) * (lengths->b - lengths->a + 1));
    case TPERF_LENGTH_LOGNORMAL:
        return round(lengths->a * exp(lengths->b * tperf_random_normal(random)));
    case TPERF_LENGTH_EXPONENTIAL: // 1 and the failures before a success of probability 1 / a
        if (lengths->a <= 1) return 1;
        return 1 + floor(-tperf_random_exponential(random) / log1p(-1 / lengths->a));
    case TPERF_LENGTH_VALUES:
        break;
    }
    return lengths->values[tperf_random_bits(random) % lengths->n_values];
}

void tperf_draw_lengths(const tperf_lengths *lengths, uint64_t seed, uint64_t purpose, size_t n,
                        int32_t *out) {
    for (size_t i = 0; i < n; i++) {
        tperf_random random = tperf_random_of(seed, purpose, i);
        double length = draw(lengths, &random);
        if (length < lengths->least) length = lengths->least;
        if (length > lengths->most) length = lengths->most;
        out[i] = (int32_t)length;
    }
}

// Mean 1.
static double draw_gap(const tperf_arrivals *arrivals, uint64_t seed, uint64_t number) {
    tperf_random random = tperf_random_of(seed, TPERF_DRAW_ARRIVAL, number);
    switch (arrivals->process) {
    case TPERF_ARRIVE_POISSON:
        return tperf_random_exponential(&random);
    case TPERF_ARRIVE_GAMMA:
        return tperf_random_gamma(&random, arrivals->cv);
    case TPERF_ARRIVE_UNIFORM:
        break;
    }
    return 1;
}

bool tperf_draw_arrivals(const tperf_arrivals *arrivals, const tperf_arrival_stage *stage,
                         uint64_t seed, int64_t *out) {
    size_t burst = (size_t)arrivals->burst, first = stage->first, n = stage->n;
    double sum = 0, scale = stage->gap * (double)burst;
    if (stage->fill) {
        for (size_t i = 0; i < n; i += burst)
            sum += draw_gap(arrivals, seed, first + i);
        scale = sum > 0 ? stage->gap * (double)n / sum : 0;
        sum = 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (i % burst == 0) sum += draw_gap(arrivals, seed, first + i);
        double at = (double)stage->start + round(sum * scale);
        if (!(at < 0x1p63)) return false;
        out[i] = stage->start + (int64_t)(sum * scale + 0.5);
    }
    return true;
}
