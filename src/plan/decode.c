// decode.c: one decode step as a function of the cache's length, summed over steps. See tperf/inference.h.
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "tperf/inference.h"

static const double SAME_CHORD = 1e-8; // relative

static bool alike(const tperf_pass *a, const tperf_pass *b) {
    if (a->n_kernels != b->n_kernels || a->n_comms != b->n_comms) return false;
    for (int i = 0; i < a->n_kernels; i++)
        if (a->kernels[i].kind != b->kernels[i].kind) return false;
    for (int i = 0; i < a->n_comms; i++)
        if (a->comms[i].kind != b->comms[i].kind ||
            a->comms[i].axis_index != b->comms[i].axis_index)
            return false;
    return true;
}

static bool differ(const tperf_pass *a, const tperf_pass *b) {
    double distance = fabs(a->tensor_flops - b->tensor_flops) +
                      fabs(a->vector_flops - b->vector_flops) + fabs(a->bytes - b->bytes);
    for (int i = 0; i < a->n_kernels; i++) {
        const tperf_kernel *k = &a->kernels[i], *l = &b->kernels[i];
        distance += fabs(k->batch - l->batch) + fabs(k->m - l->m) + fabs(k->n - l->n) +
                    fabs(k->k - l->k) + fabs(k->shared - l->shared);
    }
    for (int i = 0; i < a->n_comms; i++)
        distance += fabs(a->comms[i].bytes - b->comms[i].bytes);
    return distance > 0;
}

tperf_status tperf_decode_compare(tperf_decode *decode, tperf_error *error) {
    const tperf_workload *first = decode->workloads[0];
    decode->n_varying = 0;
    for (int k = 1; k < decode->n; k++)
        if (decode->workloads[k]->n_ops != first->n_ops)
            return tperf_error_set(
                error, TPERF_INVALID, "a decode step has %zu ops with %g keys, but %zu with %g",
                first->n_ops, decode->keys[0], decode->workloads[k]->n_ops, decode->keys[k]);
    int section = 0;
    for (size_t i = 0; i < first->n_ops; i++) {
        while (i >= first->section_end[section])
            section++;
        bool varies = false;
        for (int k = 1; k < decode->n; k++) {
            const tperf_pass *pass = &decode->workloads[k]->ops[i]->forward;
            if (!alike(&first->ops[i]->forward, pass))
                return tperf_error_set(error, TPERF_INVALID,
                                       "op '%s' of a decode step has other collectives or kernels "
                                       "with %g keys than with %g",
                                       first->ops[i]->name, decode->keys[k], decode->keys[0]);
            varies = varies || differ(&first->ops[i]->forward, pass);
        }
        if (varies) decode->varying[decode->n_varying++] = (tperf_varying){section, i};
    }
    return TPERF_OK;
}

static double between(double a, double b, double part) {
    return a + part * (b - a);
}

void tperf_decode_pass(const tperf_decode *decode, size_t op, double keys, tperf_pass *pass) {
    int k = 0;
    while (k + 2 < decode->n && keys > decode->keys[k + 1])
        k++;
    *pass = decode->workloads[k]->ops[op]->forward;
    if (decode->n == 1) return;
    const tperf_pass *end = &decode->workloads[k + 1]->ops[op]->forward;
    double part = (keys - decode->keys[k]) / (decode->keys[k + 1] - decode->keys[k]);
    pass->tensor_flops = between(pass->tensor_flops, end->tensor_flops, part);
    pass->vector_flops = between(pass->vector_flops, end->vector_flops, part);
    pass->bytes = between(pass->bytes, end->bytes, part);
    for (int i = 0; i < pass->n_kernels; i++) {
        tperf_kernel *kernel = &pass->kernels[i];
        const tperf_kernel *last = &end->kernels[i];
        kernel->batch = between(kernel->batch, last->batch, part);
        kernel->m = between(kernel->m, last->m, part);
        kernel->n = between(kernel->n, last->n, part);
        kernel->k = between(kernel->k, last->k, part);
        kernel->shared = between(kernel->shared, last->shared, part);
    }
    for (int i = 0; i < pass->n_comms; i++)
        pass->comms[i].bytes = between(pass->comms[i].bytes, end->comms[i].bytes, part);
}

// An interval is looked at in so many points, evenly spaced; FEW steps are added up one by one.
enum { NODES = 9, MIDDLE = NODES / 2, FEW = 2 * NODES };

typedef struct interval {
    double low, high;
    double at[NODES][TPERF_STEP_VALUES];
} interval;

// The steps that are summed, and to where.
typedef struct summing {
    tperf_step_function step;
    const void *context;
    int n; // values of a step
    double *sum;
} summing;

static void add(const summing *s, const double *values, double times) {
    for (int i = 0; i < s->n; i++)
        s->sum[i] += times * values[i];
}

static void look(const summing *s, interval *all, int node) {
    double part = (double)node / (NODES - 1);
    s->step(s->context, between(all->low, all->high, part), all->at[node]);
}

// The polynomial of degree 4 through every second node, of t from -1 at the first to 1 at the last.
typedef struct quartic {
    double c0, c1, c2, c3, c4;
} quartic;

static quartic quartic_of(const interval *all, int value) {
    double low = all->at[0][value], left = all->at[2][value], middle = all->at[4][value],
           right = all->at[6][value], high = all->at[8][value];
    double even = (high + low) / 2 - middle, even_half = (right + left) / 2 - middle;
    double odd = (high - low) / 2, odd_half = (right - left) / 2;
    double c4 = (even - 4 * even_half) * 4 / 3, c1 = (8 * odd_half - odd) / 3;
    return (quartic){middle, c1, even - c4, odd - c1, c4};
}

static double quartic_at(const quartic *q, double t) {
    return q->c0 + t * (q->c1 + t * (q->c2 + t * (q->c3 + t * q->c4)));
}

// Whether the other nodes lie on it, of every value; a time that is small beside the first, which is the time of all,
// as nearly as that does.
static bool is_quartic(const summing *s, const interval *all) {
    for (int value = 0; value < s->n; value++) {
        quartic q = quartic_of(all, value);
        for (int node = 1; node < NODES; node += 2) {
            double t = (double)(node - MIDDLE) / MIDDLE;
            double scale = tperf_larger(fabs(all->at[node][value]), fabs(all->at[node][0]));
            if (fabs(all->at[node][value] - quartic_at(&q, t)) > SAME_CHORD * scale) return false;
        }
    }
    return true;
}

// Its sum over steps, n + 1 of them from t = -1 to 1: odd powers cancel; those of t^2 and t^4 follow from the sums of
// i^2 and i^4.
static void add_quartic(const summing *s, const interval *all) {
    double n = all->high - all->low;
    double squares = (n + 1) * (n + 2) / (3 * n);
    double fourths = (n + 1) * (n + 2) * (3 * n * n + 6 * n - 4) / (15 * n * n * n);
    for (int value = 0; value < s->n; value++) {
        quartic q = quartic_of(all, value);
        s->sum[value] += (n + 1) * q.c0 + squares * q.c2 + fourths * q.c4;
    }
}

static bool is_affine(const interval *all) {
    double part = (floor((all->low + all->high) / 2) - all->low) / (all->high - all->low);
    double chord = between(all->at[0][0], all->at[NODES - 1][0], part);
    return !(fabs(all->at[MIDDLE][0] - chord) > SAME_CHORD * fabs(chord)); // of infinite times, too
}

static void add_each(const summing *s, double low, double high) {
    double values[TPERF_STEP_VALUES];
    for (double keys = low; keys <= high; keys++) {
        s->step(s->context, keys, values);
        add(s, values, 1);
    }
}

// steps times the mean of both ends
static void add_chord(const summing *s, const interval *all) {
    double half = (all->high - all->low + 1) / 2;
    add(s, all->at[0], half);
    add(s, all->at[NODES - 1], half);
}

static void add_interval(const summing *s, double low, double high) {
    double steps = high - low + 1, middle = floor((low + high) / 2);
    if (steps <= 2) {
        add_each(s, low, high);
        return;
    }
    interval all = {.low = low, .high = high};
    look(s, &all, 0);
    look(s, &all, NODES - 1);
    s->step(s->context, middle, all.at[MIDDLE]);
    if (is_affine(&all)) {
        add_chord(s, &all);
    } else if (steps <= FEW) {
        add(s, all.at[0], 1);
        add_each(s, low + 1, high - 1);
        add(s, all.at[NODES - 1], 1);
    } else {
        for (int node = 1; node < NODES - 1; node++)
            look(s, &all, node);
        if (is_quartic(s, &all)) {
            add_quartic(s, &all);
        } else {
            add_interval(s, low, middle);
            add_interval(s, middle + 1, high);
        }
    }
}

void tperf_decode_sum(const tperf_decode *decode, double first, double last,
                      const tperf_step_values *values, double *sum) {
    memset(sum, 0, (size_t)values->n * sizeof *sum);
    summing s = {values->of, values->context, values->n, sum};
    for (int k = 0; k + 1 < decode->n || k == 0; k++) {
        double end = k + 2 < decode->n ? decode->keys[k + 1] : last;
        double low = fmax(first, k ? decode->keys[k] + 1 : first), high = fmin(last, end);
        if (low <= high) add_interval(&s, low, high);
    }
}
