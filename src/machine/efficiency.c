// efficiency.c: see tperf/efficiency.h, which states every formula.
#include "tperf/efficiency.h"

#include <math.h>
#include <stddef.h>

tperf_kernel_cost tperf_kernel_cost_of(const tperf_kernel_time *time, double compute,
                                       double memory) {
    double work = compute * time->work, traffic = memory * time->traffic;
    double longer = work > traffic ? work : traffic, shorter = work > traffic ? traffic : work;
    double both = longer;
    if (!time->hides && longer > 0) both += shorter * shorter / (4 * longer);
    return (tperf_kernel_cost){compute * (time->setup + time->work),
                               both - work + memory * time->rest};
}

// The clock drops while the work goes on.
static tperf_kernel_time slowed(double work, double sustained, double after_s, double traffic) {
    work *= 1 + (1 / sustained - 1) * work / (work + after_s);
    return (tperf_kernel_time){.work = work, .traffic = traffic};
}

enum { HEIGHTS = 3 };
static const double heights[HEIGHTS] = {64, 128, 256}; // rows of tiles
static const struct {
    double columns;
    int heights; // there are tiles of so many of them
} widths[] = {{256, 2}, {128, 3}, {64, 2}};

enum { MOST_PARTS = 16 };
static const double least_depth = 256;     // of k in a part
static const double scale_bytes = 1. / 16; // of a 4-bit number

// The part of the rate that is left where rows of a factor begin on multiples of 8 bytes, or of fewer. The copies that
// feed the tensor cores then take 8 or 4 bytes at a time, and 2 have to pass through registers. Narrow factors have no
// such kernels: they are padded.
static double alignment(const tperf_kernel *kernel, const tperf_processor *p) {
    double bytes = kernel->aligned * p->element;
    if (bytes == 0 || bytes >= 16 || p->element < 2) return 1;
    double part = bytes >= 8 ? p->by_8 : p->by_less;
    return part > 0 ? part : 1;
}

static double waves_of(double blocks, double units, double quantisation) {
    return quantisation * ceil(blocks / units) + (1 - quantisation) * fmax(blocks / units, 1);
}

static double whole(double size, double step) {
    return ceil(size / step) * step;
}

// What all tiles of a product share: units of a second's work, and at most so many parts of its depth.
typedef struct tiling {
    const tperf_gemm_curve *curve;
    const tperf_processor *processor;
    const tperf_kernel *kernel;
    double rate, most;
} tiling;

// Seconds with so many tiles of so many rows and columns.
static double tiled_time(const tiling *t, double blocks, double rows, double columns) {
    const tperf_kernel *kernel = t->kernel;
    double units = t->processor->units, best = INFINITY;
    double rate = t->rate / (1 + t->curve->tile_loss * (1 / rows + 1 / columns));
    for (double parts = 1; parts <= t->most; parts *= 2) {
        if (parts > 1 && (kernel->k / parts < least_depth || blocks * parts / 2 > units)) break;
        double block = 2 * rows * columns * (kernel->k / parts + t->curve->depth) / rate;
        double sum = 0;
        if (parts > 1)
            sum = 2 * kernel->batch * kernel->m * kernel->n * (parts + 1) / t->processor->bandwidth;
        double time = waves_of(blocks * parts, units, t->curve->quantisation) * block + sum;
        if (time < best) best = time;
    }
    return best;
}

// Whether weights are stored in fewer bits than they are multiplied in.
static bool is_narrow(const tperf_kernel *kernel, const tperf_processor *p) {
    return kernel->second > 0 && kernel->second < p->element;
}

static double best_time(const tiling *t) {
    const tperf_kernel *kernel = t->kernel;
    double best = INFINITY, rows[HEIGHTS], down[HEIGHTS];
    double low = heights[0];
    if (t->curve->rows > 0 || is_narrow(kernel, t->processor))
        low = fmax(t->curve->rows, whole(kernel->m, 16));
    for (int i = 0; i < HEIGHTS; i++) {
        rows[i] = low < heights[0] ? low : heights[i];
        down[i] = ceil(kernel->m / rows[i]);
    }
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        double across = ceil(kernel->n / widths[i].columns);
        for (int j = 0; j < widths[i].heights; j++) {
            if (j > 0 && down[j] == down[j - 1]) continue; // as many tiles as of the lower ones
            double blocks = kernel->batch * down[j] * across;
            best = fmin(best, tiled_time(t, blocks, rows[j], widths[i].columns));
        }
    }
    return best;
}

tperf_kernel_time tperf_gemm_time(const tperf_gemm_curve *curve, const tperf_processor *p,
                                  const tperf_kernel *kernel) {
    double m = kernel->m, n = kernel->n, k = kernel->k;
    double bandwidth = p->bandwidth * (curve->memory > 0 ? curve->memory : 1);
    if (!(m > 0 && n > 0 && k > 0 && kernel->batch > 0)) return (tperf_kernel_time){0};
    double peak = p->peak * alignment(kernel, p);
    tiling t = {curve, p, kernel, curve->efficiency * peak / p->units,
                curve->split > 0 ? curve->split : MOST_PARTS};
    double best = best_time(&t);
    // Results have 16 bits; narrower factors are first quantised from 16-bit activations, here or by an earlier kernel.
    double second = kernel->second > 0 ? kernel->second : p->element;
    if (second == 0.5) second += scale_bytes; // more than half a byte has its scales already
    double bytes = p->element * m * k + second * k * n + fmax(p->element, 2) * m * n;
    if (p->element < 2 && !p->quantised) bytes += (2 + p->element) * m * k;
    double memory = kernel->batch * bytes / bandwidth;
    if (is_narrow(kernel, p) && curve->memory == 0) memory += kernel->batch * n * k * p->unpack_s;
    tperf_kernel_time time = slowed(best, curve->sustained, curve->sustained_after_s,
                                    memory + sqrt(curve->ramp_s * memory));
    time.setup = curve->setup_s;
    return time;
}

double tperf_at_size(const double *sizes, const double *y, int n, double size) {
    if (size <= sizes[0]) return y[0];
    for (int i = 1; i < n; i++) {
        if (size > sizes[i]) continue;
        double part = log(size / sizes[i - 1]) / log(sizes[i] / sizes[i - 1]);
        return y[i - 1] * pow(y[i] / y[i - 1], part);
    }
    return y[n - 1];
}

// What one of a curve's lists has for a head size.
static double at_size(const tperf_attention_curve *curve, const double *y, double head_size) {
    return tperf_at_size(curve->head_size, y, curve->n_sizes, head_size);
}

tperf_kernel_time tperf_attention_time(const tperf_attention_curve *curve, const tperf_processor *p,
                                       const tperf_kernel *kernel, bool backward) {
    double q = kernel->m, keys = kernel->n, d = kernel->k;
    if (!(q > 0 && keys > 0 && d > 0 && kernel->batch > 0)) return (tperf_kernel_time){0};
    double wide = whole(d, 16), rate = at_size(curve, curve->efficiency, wide) * p->peak / p->units;
    double ends = backward && curve->backward_keys > 0 ? curve->backward_keys : curve->keys;
    bool causal = kernel->kind == TPERF_KERNEL_ATTENTION_CAUSAL;
    // The last query sees all keys, the first keys - q + 1. The masked parts of tiles are included in `ends`.
    double seen = causal  ? fmax(keys - (fmin(q, keys) - 1) / 2, 1)
                  : q > 1 ? whole(keys, 128)
                          : keys;
    double masked = curve->masked * kernel->masked;
    double block = curve->tile > 0 ? fmin(fmax(curve->tile / wide, 16), 128) : 128;
    double rows = q > 1 ? whole(q, fmin(block, 64)) : q;
    double all = 4 * kernel->batch * wide * rows * (seen + masked + ends) / rate;
    double longest = 4 * wide * fmin(block, rows) * (keys + masked + ends) / rate;
    double work = fmax(all / p->units + curve->longest * longest * (1 - 1 / p->units), longest);
    double bytes = 2 * p->element * kernel->batch * d *
                   (q + keys / fmax(kernel->shared, 1)); // Q and O, K and V
    if (backward) { // five products instead of two (arXiv 2307.08691), three times the tensors
        work *= 2.5 / at_size(curve, curve->backward, wide);
        bytes *= 2;
    }
    return slowed(work + curve->setup_s, curve->sustained, curve->sustained_after_s,
                  bytes / p->bandwidth);
}

// Seconds of caches that stay whole, of which all together take `even`: in waves, the last of which may not fill the
// units, and none of which ends before a unit has read its cache.
static double whole_caches(double even, double caches, double units, double each_s) {
    double full = floor(caches / units), left = caches - full * units, wave = even * units / caches;
    double last = left > 0 ? fmax(even * left / caches, each_s) : 0;
    return full * fmax(wave, each_s) + last;
}

tperf_kernel_time tperf_decode_time(const tperf_decode_curve *curve,
                                    const tperf_attention_curve *attention,
                                    const tperf_processor *p, const tperf_kernel *kernel) {
    double heads = kernel->batch, keys = kernel->n, d = kernel->k, shared = fmax(kernel->shared, 1);
    double bytes = 2 * p->element * heads * d * (1 + keys / shared);
    double memory = bytes / (curve->efficiency * p->bandwidth);
    double narrow = kernel->second > 0 ? kernel->second / p->element : 1;
    double caches = heads / fmax(shared * narrow, 1);
    double pieces = caches * fmax(curve->pieces, 1);
    if (curve->whole > 0 && (curve->pieces > 0 || caches >= p->uncut * p->units || shared == 1))
        memory = whole_caches(memory, pieces, p->units, bytes / pieces / curve->whole);
    double work = caches * curve->block_s * (0.5 + d / 256) / p->units;
    if (attention->n_sizes > 0)
        work = fmax(work, 4 * heads * d * keys /
                              (at_size(attention, attention->efficiency, d) * p->peak));
    return (tperf_kernel_time){.setup = curve->setup_s,
                               .work = work,
                               .traffic = memory,
                               .rest = sqrt(curve->ramp_s * memory)};
}

double tperf_stream_time(const tperf_stream_curve *curve, double bandwidth, double bytes) {
    return curve->setup_s + bytes / (curve->efficiency * bandwidth);
}

// Bytes through each port without in-network reduction.
static double through_port(bool all_reduce, double gpus, double bytes) {
    return (all_reduce ? 2 : 1) * (gpus - 1) / gpus * bytes;
}

// The fraction `part` of a port's bandwidth after growth with the number of GPUs, at most 1.
static double grown(const tperf_link_curve *curve, double part, double gpus) {
    return fmin(part * pow(fmin(gpus, 8) / 2, curve->growth), 1);
}

static double ring_stream(const tperf_link_curve *curve, double bandwidth, double gpus,
                          double through) {
    return through / (grown(curve, curve->large, gpus) * bandwidth);
}

static double switch_stream(const tperf_link_curve *curve, double bandwidth, double gpus,
                            double bytes) {
    return (gpus + 1) / gpus * bytes / (curve->in_network * bandwidth);
}

double tperf_link_stream(const tperf_link_curve *curve, bool all_reduce, double bandwidth,
                         double gpus, double through, double bytes, bool *adds) {
    double ring = ring_stream(curve, bandwidth, gpus, through), stream = ring;
    if (all_reduce && gpus > 4 && curve->in_network > 0)
        stream = fmin(switch_stream(curve, bandwidth, gpus, bytes), ring);
    if (adds) *adds = stream < ring;
    return stream;
}

double tperf_link_steps(double gpus) {
    enum { LARGEST_RING = 8 };
    return gpus <= LARGEST_RING ? gpus - 1 : LARGEST_RING - 1 + log2(gpus / LARGEST_RING);
}

double tperf_link_time_of(const tperf_link_curve *curve, bool all_reduce, double bandwidth,
                          double gpus, double bytes, double stream) {
    double steps = (all_reduce ? 2 : 1) * tperf_link_steps(gpus), large = curve->extra_s + stream;
    double start = curve->latency_s + curve->hop_s * steps;
    if (!(bytes / gpus <= curve->switch_bytes)) return start + large;
    double through = through_port(all_reduce, gpus, bytes);
    return start + fmin(through / (grown(curve, curve->small, gpus) * bandwidth), large);
}

double tperf_link_time(const tperf_link_curve *curve, bool all_reduce, double bandwidth,
                       double gpus, double bytes) {
    double through = through_port(all_reduce, gpus, bytes);
    double stream = tperf_link_stream(curve, all_reduce, bandwidth, gpus, through, bytes, NULL);
    return tperf_link_time_of(curve, all_reduce, bandwidth, gpus, bytes, stream);
}

double tperf_one_shot_time(const tperf_direct_curve *curve, double bandwidth, double gpus,
                           double bytes) {
    return curve->latency_s + curve->hop_s * (gpus - 1) +
           (gpus - 1) * bytes / (curve->one_shot * bandwidth);
}

double tperf_two_shot_time(const tperf_direct_curve *curve, double bandwidth, double gpus,
                           double bytes) {
    double two = curve->extra_s + through_port(true, gpus, bytes) / (curve->two_shot * bandwidth);
    return curve->latency_s + curve->hop_s * (gpus - 1) + two;
}

double tperf_tree_start(const tperf_slow_curve *curve, double domains) {
    return curve->latency_s + curve->doubling_s * log2(domains);
}

double tperf_ring_start(const tperf_slow_curve *curve, double domains) {
    return curve->latency_s + curve->hop_s * (domains - 1);
}

double tperf_slow_time(const tperf_slow_curve *curve, double start, double seconds, double part) {
    return start + seconds + sqrt(part * curve->ramp_s * seconds);
}
