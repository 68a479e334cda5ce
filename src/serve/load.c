// load.c: lengths and arrivals drawn from distributions, see tperf/serve.h.
#include <math.h>

#include "serve/random.h"
#include "tperf/serve.h"

static double draw(const tp_lengths *lengths, tp_random *random) {
    switch (lengths->kind) {
    case TP_LENGTH_FIXED:
        return lengths->a;
    case TP_LENGTH_UNIFORM:
        return floor(lengths->a + tp_random_unit(random) * (lengths->b - lengths->a + 1));
    case TP_LENGTH_LOGNORMAL:
        return round(lengths->a * exp(lengths->b * tp_random_normal(random)));
    case TP_LENGTH_EXPONENTIAL: // 1 and the failures before a success of probability 1 / a
        if (lengths->a <= 1) return 1;
        return 1 + floor(-tp_random_exponential(random) / log1p(-1 / lengths->a));
    case TP_LENGTH_VALUES:
        break;
    }
    return lengths->values[tp_random_bits(random) % lengths->n_values];
}

void tp_draw_lengths(const tp_lengths *lengths, uint64_t seed, uint64_t purpose, size_t n,
                     int32_t *out) {
    for (size_t i = 0; i < n; i++) {
        tp_random random = tp_random_of(seed, purpose, i);
        double length = draw(lengths, &random);
        if (length < lengths->least) length = lengths->least;
        if (length > lengths->most) length = lengths->most;
        out[i] = (int32_t)length;
    }
}

// Mean 1.
static double draw_gap(const tp_arrivals *arrivals, uint64_t seed, uint64_t number) {
    tp_random random = tp_random_of(seed, TP_DRAW_ARRIVAL, number);
    switch (arrivals->process) {
    case TP_ARRIVE_POISSON:
        return tp_random_exponential(&random);
    case TP_ARRIVE_GAMMA:
        return tp_random_gamma(&random, arrivals->cv);
    case TP_ARRIVE_UNIFORM:
        break;
    }
    return 1;
}

bool tp_draw_arrivals(const tp_arrivals *arrivals, uint64_t seed, int64_t start, double gap,
                      bool fill, size_t first, size_t n, int64_t *out) {
    size_t burst = (size_t)arrivals->burst;
    double sum = 0, scale = gap * (double)burst;
    if (fill) {
        for (size_t i = 0; i < n; i += burst)
            sum += draw_gap(arrivals, seed, first + i);
        scale = sum > 0 ? gap * (double)n / sum : 0;
        sum = 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (i % burst == 0) sum += draw_gap(arrivals, seed, first + i);
        double at = (double)start + round(sum * scale);
        if (!(at < 0x1p63)) return false;
        out[i] = start + (int64_t)(sum * scale + 0.5);
    }
    return true;
}
