// decode.c: one decode step as a function of the cache's length, summed over steps. See tperf/inference.h.
#include <math.h>
#include <string.h>

#include "base/minmax.h"
#include "tperf/inference.h"

static const double SAME_CHORD = 1e-8, ON_LINE = 1e-7; // relative

static bool same_kinds(const tperf_pass *a, const tperf_pass *b) {
    if (a->n_kernels != b->n_kernels || a->n_comms != b->n_comms) return false;
    for (int i = 0; i < a->n_kernels; i++)
        if (a->kernels[i].kind != b->kernels[i].kind) return false;
    for (int i = 0; i < a->n_comms; i++)
        if (a->comms[i].kind != b->comms[i].kind ||
            a->comms[i].axis_index != b->comms[i].axis_index)
            return false;
    return true;
}

static bool same_op(const tperf_op *a, const tperf_op *b) {
    return a == b ||
           (strcmp(a->name, b->name) == 0 && a->dtype == b->dtype &&
            a->matrix_dtype == b->matrix_dtype && a->eager == b->eager && a->fused == b->fused &&
            a->times == b->times && same_kinds(&a->forward, &b->forward));
}

// The first op in which two steps are not of one form; n_ops of the first: none.
static size_t first_unlike(const tperf_workload *a, const tperf_workload *b) {
    size_t i = 0;
    while (i < a->n_ops && i < b->n_ops && same_op(a->ops[i], b->ops[i]))
        i++;
    return i;
}

static bool of_one_form(const tperf_workload *a, const tperf_workload *b) {
    size_t ends = (size_t)a->n_sections * sizeof a->section_end[0];
    return a == b || (a->n_ops == b->n_ops && memcmp(a->section_end, b->section_end, ends) == 0 &&
                      first_unlike(a, b) == a->n_ops);
}

// The numbers of a pass that may vary with the keys, and how many there are.
enum { COUNTS_MAX = 3 + 5 * TPERF_KERNELS_MAX + TPERF_COMMS_MAX };

static int counts_of(const tperf_pass *pass, double *counts) {
    int n = 0;
    counts[n++] = pass->tensor_flops;
    counts[n++] = pass->vector_flops;
    counts[n++] = pass->bytes;
    for (int i = 0; i < pass->n_kernels; i++) {
        const tperf_kernel *k = &pass->kernels[i];
        counts[n++] = k->batch;
        counts[n++] = k->m;
        counts[n++] = k->n;
        counts[n++] = k->k;
        counts[n++] = k->shared;
    }
    for (int i = 0; i < pass->n_comms; i++)
        counts[n++] = pass->comms[i].bytes;
    return n;
}

static double between(double a, double b, double part) {
    return a + part * (b - a);
}

bool tperf_decode_on_line(const tperf_workload *first, const tperf_workload *last, double part,
                          const tperf_workload *step) {
    if (!of_one_form(first, last) || !of_one_form(first, step)) return false;
    for (size_t i = 0; i < step->n_ops; i++) {
        if (first->ops[i] == last->ops[i] && first->ops[i] == step->ops[i]) continue;
        double a[COUNTS_MAX], b[COUNTS_MAX], c[COUNTS_MAX];
        int n = counts_of(&first->ops[i]->forward, a);
        counts_of(&last->ops[i]->forward, b);
        counts_of(&step->ops[i]->forward, c);
        for (int k = 0; k < n; k++)
            if (fabs(c[k] - between(a[k], b[k], part)) > ON_LINE * fabs(c[k])) return false;
    }
    return true;
}

static tperf_status refuse_forms(const tperf_decode *d, int k, tperf_error *error) {
    const tperf_workload *a = d->workloads[k - 1], *b = d->workloads[k];
    size_t i = first_unlike(a, b);
    if (a->n_ops != b->n_ops || i == a->n_ops)
        return tperf_error_set(error, TPERF_INVALID,
                               "a decode step has %zu ops with %g keys, but %zu with %g", a->n_ops,
                               d->keys[k - 1], b->n_ops, d->keys[k]);
    return tperf_error_set(
        error, TPERF_INVALID,
        "op '%s' of a decode step has other collectives or kernels with %g keys than with %g",
        a->ops[i]->name, d->keys[k], d->keys[k - 1]);
}

// The form of a layout: a known one, the last ones first, or a new one.
static int form_of(tperf_decode *d, const tperf_workload *workload) {
    enum { COMPARED = 64 };
    int last = d->n_forms > COMPARED ? d->n_forms - COMPARED : 0;
    for (int f = d->n_forms - 1; f >= last; f--)
        if (of_one_form(d->forms[f].workload, workload)) return f;
    d->forms[d->n_forms] = (tperf_decode_form){.workload = workload};
    return d->n_forms++;
}

tperf_status tperf_decode_find_forms(tperf_decode *d, size_t *varying, tperf_error *error) {
    const tperf_workload *first = d->workloads[0];
    *varying = 0;
    d->n_forms = 0;
    for (int k = 0; k < d->n; k++) {
        const tperf_workload *one = d->workloads[k];
        if (one->n_kinds != first->n_kinds || one->grid.n != first->grid.n ||
            memcmp(one->sizes, first->sizes, sizeof one->sizes) != 0)
            return tperf_error_set(error, TPERF_INVALID,
                                   "the ops of a decode's steps are not of one model");
        int known = d->n_forms;
        d->form_of[k] = form_of(d, one);
        if (d->n_forms > known) *varying += one->n_ops;
        if (k > 0 && d->form_of[k] != d->form_of[k - 1] && d->keys[k] != d->keys[k - 1] + 1)
            return refuse_forms(d, k, error);
    }
    return TPERF_OK;
}

static bool differ(const tperf_op *a, const tperf_op *b) {
    if (a == b) return false;
    double x[COUNTS_MAX], y[COUNTS_MAX];
    int n = counts_of(&a->forward, x);
    counts_of(&b->forward, y);
    return memcmp(x, y, (size_t)n * sizeof *x) != 0;
}

static bool varies(const tperf_decode *d, int form, size_t op) {
    const tperf_op *first = d->forms[form].workload->ops[op];
    for (int k = 0; k < d->n; k++)
        if (d->form_of[k] == form && differ(first, d->workloads[k]->ops[op])) return true;
    return false;
}

void tperf_decode_compare(tperf_decode *d, tperf_varying *room) {
    for (int f = 0; f < d->n_forms; f++) {
        tperf_decode_form *form = &d->forms[f];
        size_t n = 0;
        int section = 0;
        for (size_t i = 0; i < form->workload->n_ops; i++) {
            while (i >= form->workload->section_end[section])
                section++;
            if (varies(d, f, i)) room[n++] = (tperf_varying){section, i};
        }
        form->n_varying = n;
        form->varying = room;
        room += n;
    }
}

// The layout at the step, or the last one before it.
static int layout_at(const tperf_decode *d, double keys) {
    int low = 0, high = d->n - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (d->keys[middle] <= keys)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

int tperf_decode_form_at(const tperf_decode *d, double keys) {
    return d->n_forms == 1 ? 0 : d->form_of[layout_at(d, keys)];
}

void tperf_decode_pass(const tperf_decode *d, size_t op, double keys, tperf_pass *pass) {
    int k = layout_at(d, keys);
    *pass = d->workloads[k]->ops[op]->forward;
    if (k + 1 == d->n || keys == d->keys[k]) return;
    const tperf_pass *end = &d->workloads[k + 1]->ops[op]->forward;
    double part = (keys - d->keys[k]) / (d->keys[k + 1] - d->keys[k]);
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
    for (int k = layout_at(decode, first); first <= last; k++) {
        double end = k + 2 < decode->n ? fmin(decode->keys[k + 1], last) : last;
        if (first <= end) add_interval(&s, first, end);
        first = fmax(first, end + 1);
    }
}
