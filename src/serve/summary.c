// summary.c: tperf_serve_summarize: latencies, their quantiles, goodput, saturation.
#include <math.h>
#include <string.h>

#include "tperf/serve.h"

double tperf_tick_sum_value(tperf_tick_sum sum) {
    return (double)sum.high * 0x1p64 + (double)sum.low;
}

// --- quantiles ---

static void swap(double *a, double *b) {
    double t = *a;
    *a = *b;
    *b = t;
}

// Splits v[low … high] in two (Hoare): no element up to the returned index, which is below high, exceeds any element
// after it.
static size_t split(double *v, size_t low, size_t high) {
    double pivot = v[low + (high - low) / 2];
    size_t i = low, j = high;
    for (;;) {
        while (v[i] < pivot)
            i++;
        while (v[j] > pivot)
            j--;
        if (i >= j) return j;
        swap(&v[i], &v[j]);
        i++;
        j--;
    }
}

// Moves the k-th smallest of n into place: no element before it is larger, none after it smaller.
static void select_kth(double *v, size_t n, size_t k) {
    size_t low = 0, high = n - 1;
    while (low < high) {
        size_t middle = split(v, low, high);
        if (k <= middle)
            high = middle;
        else
            low = middle + 1;
    }
}

static double quantile(double *v, size_t n, double q) {
    double at = q * (double)(n - 1);
    size_t k = (size_t)at;
    select_kth(v, n, k);
    double low = v[k], next = low;
    if (k + 1 < n) {
        next = v[k + 1];
        for (size_t i = k + 2; i < n; i++)
            if (v[i] < next) next = v[i];
    }
    return low + (at - (double)k) * (next - low);
}

static double mean(const double *v, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (double)n;
}

static tperf_latencies figures(double *v, size_t n) {
    tperf_latencies f = {.mean = mean(v, n)};
    f.p50 = quantile(v, n, 0.50);
    f.p90 = quantile(v, n, 0.90);
    f.p99 = quantile(v, n, 0.99);
    return f;
}

// --- intervals ---

// Requests that queue behind each other are not independent, so the spread is estimated between sections of the run, in
// order of requests (Asmussen and Glynn, Stochastic Simulation, 2007, III.5): Student's t of the sections about the
// value of the whole run. A quantile needs some values above it in each section.
enum { SECTIONS = 10 };
static const double T_95 = 2.262; // 97.5 % of Student's t, 9 degrees of freedom
static const size_t LEAST_MEAN = 5, LEAST_P50 = 10, LEAST_P90 = 50, LEAST_P99 = 500; // per section

static double margin(double squares, size_t section, size_t least) {
    if (section < least) return NAN;
    return T_95 * sqrt(squares / (SECTIONS - 1) / SECTIONS);
}

// Values are in the order of the requests.
static tperf_latencies margins(double *v, size_t n, const tperf_latencies *all) {
    size_t section = n / SECTIONS;
    tperf_latencies sum = {0};
    for (size_t s = 0; s < SECTIONS && section > 0; s++) {
        size_t first = s * n / SECTIONS, end = (s + 1) * n / SECTIONS;
        tperf_latencies f = figures(v + first, end - first);
        sum.mean += (f.mean - all->mean) * (f.mean - all->mean);
        sum.p50 += (f.p50 - all->p50) * (f.p50 - all->p50);
        sum.p90 += (f.p90 - all->p90) * (f.p90 - all->p90);
        sum.p99 += (f.p99 - all->p99) * (f.p99 - all->p99);
    }
    return (tperf_latencies){
        margin(sum.mean, section, LEAST_MEAN),
        margin(sum.p50, section, LEAST_P50),
        margin(sum.p90, section, LEAST_P90),
        margin(sum.p99, section, LEAST_P99),
    };
}

// values and copy have n elements each; both are reordered.
static tperf_quantiles quantiles(double *values, double *copy, size_t n) {
    const tperf_latencies none = {NAN, NAN, NAN, NAN};
    if (n == 0) return (tperf_quantiles){NAN, NAN, NAN, NAN, none};
    memcpy(copy, values, n * sizeof *copy);
    tperf_latencies f = figures(copy, n);
    return (tperf_quantiles){f.mean, f.p50, f.p90, f.p99, margins(values, n, &f)};
}

// --- latencies ---

typedef double latency(const tperf_requests *requests, const tperf_served *served, size_t i);

static double ttft(const tperf_requests *requests, const tperf_served *served, size_t i) {
    return (double)(served->first_token[i] - requests->arrival[i]);
}

static double e2e(const tperf_requests *requests, const tperf_served *served, size_t i) {
    return (double)(served->last_token[i] - requests->arrival[i]);
}

// NaN for an answer of one token.
static double tpot(const tperf_requests *requests, const tperf_served *served, size_t i) {
    (void)requests;
    if (served->tokens[i] < 2) return NAN;
    return (double)(served->last_token[i] - served->first_token[i]) / (served->tokens[i] - 1);
}

// Requests that arrive within these ticks.
typedef struct interval {
    double from, to;
} interval;

static bool is_within(const tperf_requests *requests, size_t i, interval when) {
    double arrival = (double)requests->arrival[i];
    return arrival >= when.from && arrival <= when.to;
}

static tperf_quantiles of_some(const tperf_requests *requests, const tperf_served *served,
                               latency *of, interval when, double *values) { // room for 2n
    size_t n = 0;
    for (size_t i = 0; i < served->n; i++) {
        if (served->tokens[i] == 0 || !is_within(requests, i, when)) continue;
        double value = of(requests, served, i);
        if (!isnan(value)) values[n++] = value;
    }
    return quantiles(values, values + served->n + 1, n);
}

static bool is_good(const tperf_requests *requests, const tperf_served *served, size_t i,
                    const tperf_objective *o) {
    if (served->tokens[i] == 0) return false;
    return ttft(requests, served, i) <= o->ttft && e2e(requests, served, i) <= o->e2e &&
           !(tpot(requests, served, i) > o->tpot);
}

static tperf_serve_figures figures_of(const tperf_requests *requests, const tperf_served *served,
                                      const tperf_objective *objective, interval when,
                                      double *values) {
    tperf_serve_figures f = {
        .ttft = of_some(requests, served, ttft, when, values),
        .tpot = of_some(requests, served, tpot, when, values),
        .e2e = of_some(requests, served, e2e, when, values),
    };
    for (size_t i = 0; i < served->n; i++) {
        if (!is_within(requests, i, when)) continue;
        f.finished += served->tokens[i] > 0;
        f.rejected += served->tokens[i] == 0;
        f.good += is_good(requests, served, i, objective);
    }
    return f;
}

// --- saturation ---

// In the long run a queue either settles or grows. It counts as growing if requests of a later time took 1.5 times as long
// as those of an earlier one, and if that increase means more requests than chance explains for n arrivals.
static bool grows(const tperf_requests *requests, const tperf_served *served, latency *of,
                  interval early, interval late, double rate) {
    double sum[2] = {0}, count[2] = {0};
    for (size_t i = 0; i < served->n; i++) {
        bool is_late = is_within(requests, i, late);
        if (served->tokens[i] == 0 || !(is_late || is_within(requests, i, early))) continue;
        sum[is_late] += of(requests, served, i);
        count[is_late]++;
    }
    if (count[0] == 0 || count[1] == 0) return false;
    double before = sum[0] / count[0], after = sum[1] / count[1];
    double n = rate * (late.to - early.from);
    return after > 1.5 * before && (after - before) * rate > sqrt(n);
}

// Waits grow from the second quarter of the arrivals (the first fills the engines) to the last. Engines that take more
// requests at a time instead of letting them wait answer ever later: from the first half of the undisturbed arrivals to
// the second.
static bool is_saturated(const tperf_requests *requests, const tperf_served *served,
                         interval undisturbed) {
    double first = INFINITY, last = 0, n = 0;
    for (size_t i = 0; i < served->n; i++) {
        if (served->tokens[i] == 0) continue;
        first = fmin(first, (double)requests->arrival[i]);
        last = fmax(last, (double)requests->arrival[i]);
        n++;
    }
    if (n == 0 || first >= last) return false;
    double span = last - first, rate = n / span;
    interval second = {first + span / 4, first + span / 2}, fourth = {first + 0.75 * span, last};
    if (grows(requests, served, ttft, second, fourth, rate)) return true;
    double middle = (undisturbed.from + undisturbed.to) / 2;
    if (!(undisturbed.from < middle)) return false;
    return grows(requests, served, e2e, (interval){undisturbed.from, middle},
                 (interval){middle, undisturbed.to}, rate);
}

// --- steady state ---

enum { SAMPLE = 4096, HALVINGS = 40 };
static const double FULL = 0.98; // of the requests that are in engines in the long run

// When of `stays` lasting `more` longer each FULL of the mean number have come: t with E[min(R, t)] = FULL E[R].
static double filled_after(const double *stays, size_t n, double more) {
    double sum = 0, low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        sum += stays[i] + more;
        high = fmax(high, stays[i] + more);
    }
    for (int k = 0; k < HALVINGS; k++) {
        double t = (low + high) / 2, filled = 0;
        for (size_t i = 0; i < n; i++)
            filled += fmin(stays[i] + more, t);
        if (filled < FULL * sum)
            low = t;
        else
            high = t;
    }
    return high;
}

// The part of an answer that is generated from one tick to another, if its tokens come evenly. Closed loops of equal
// answers end many at once, so that their ends say less.
static double part_between(const tperf_served *served, size_t i, double from, double to) {
    double first = (double)served->first_token[i], last = (double)served->last_token[i];
    if (last <= first) return last > from && last <= to;
    double within = fmin(last, to) - fmax(first, from);
    return within > 0 ? within / (last - first) : 0;
}

static void count_middle(const tperf_served *served, double from, double to, tperf_steadiness *s) {
    for (size_t i = 0; i < served->n; i++) {
        double part = served->tokens[i] > 0 ? part_between(served, i, from, to) : 0;
        s->completed += part;
        s->tokens += part * served->tokens[i];
    }
}

// stays: room for SAMPLE; *when: arrivals that the run does not disturb.
static tperf_steadiness steadiness_of(const tperf_requests *requests, const tperf_served *served,
                                      double *stays, interval *when) {
    double first = INFINITY, last = 0, decoding = 0, prefill = INFINITY, drain = 0, end = 0;
    size_t n = 0, sampled = 0, stride = served->n / SAMPLE + 1;
    for (size_t i = 0; i < served->n; i++) {
        if (served->tokens[i] == 0) continue;
        double arrival = (double)requests->arrival[i];
        double stay = (double)(served->last_token[i] - served->first_token[i]);
        first = fmin(first, arrival);
        last = fmax(last, arrival);
        decoding += stay;
        prefill = fmin(prefill, ttft(requests, served, i));
        drain = fmax(drain, (double)served->first_token[i]);
        end = fmax(end, (double)served->last_token[i]);
        if (n++ % stride == 0) stays[sampled++] = stay;
    }
    *when = (interval){INFINITY, -INFINITY};
    if (n == 0) return (tperf_steadiness){0};
    tperf_steadiness s = {.span = last - first, .residence = decoding / (double)n + prefill};
    s.ramp_up = filled_after(stays, sampled, prefill);
    double start = first + s.ramp_up;
    s.middle = drain - start;
    s.drain = end - drain;
    s.undisturbed = last - s.ramp_up - start;
    count_middle(served, start, drain, &s);
    *when = (interval){start, last - s.ramp_up};
    return s;
}

tperf_status tperf_serve_summarize(const tperf_requests *requests, const tperf_served *served,
                                   const tperf_objective *objective, tperf_serve_summary *summary,
                                   tperf_error *error) {
    const interval always = {-INFINITY, INFINITY};
    size_t room = served->n + 1 > SAMPLE ? served->n + 1 : SAMPLE;
    double *values = tperf_heap_new(served->heap, 2 * room, sizeof *values);
    if (!values)
        return tperf_error_set(error, TPERF_NO_MEMORY,
                               "not enough memory for the latencies of %zu requests", served->n);
    interval undisturbed;
    summary->steadiness = steadiness_of(requests, served, values, &undisturbed);
    tperf_serve_figures all = figures_of(requests, served, objective, always, values);
    summary->ttft = all.ttft;
    summary->tpot = all.tpot;
    summary->e2e = all.e2e;
    summary->good = all.good;
    summary->middle = figures_of(requests, served, objective, undisturbed, values);
    summary->saturated = is_saturated(requests, served, undisturbed);
    tperf_heap_free(values);
    return TPERF_OK;
}
