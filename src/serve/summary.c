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

static tperf_quantiles of_all(const tperf_requests *requests, const tperf_served *served,
                              latency *of,
                              double *values) { // room for 2n
    size_t n = 0;
    for (size_t i = 0; i < served->n; i++) {
        if (served->tokens[i] == 0) continue;
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

// --- saturation ---

// In the long run a queue either settles or grows. It counts as growing if requests from the last quarter of the
// arrival span waited 1.5 times as long as those from the second quarter (the first fills the engines), and if that
// increase means more requests than chance explains for n arrivals.
static bool is_saturated(const tperf_requests *requests, const tperf_served *served) {
    double sum[4] = {0}, count[4] = {0};
    int64_t first = INT64_MAX, last = 0;
    for (size_t i = 0; i < served->n; i++) {
        if (served->tokens[i] == 0) continue;
        if (requests->arrival[i] < first) first = requests->arrival[i];
        if (requests->arrival[i] > last) last = requests->arrival[i];
    }
    if (first >= last) return false;
    double span = (double)(last - first);
    for (size_t i = 0; i < served->n; i++) {
        if (served->tokens[i] == 0) continue;
        int quarter = (int)(4 * ((double)(requests->arrival[i] - first) / span));
        if (quarter > 3) quarter = 3;
        sum[quarter] += ttft(requests, served, i);
        count[quarter]++;
    }
    if (count[1] == 0 || count[3] == 0) return false;
    double n = count[0] + count[1] + count[2] + count[3];
    double early = sum[1] / count[1], late = sum[3] / count[3];
    return late > 1.5 * early && (late - early) * n / span > sqrt(n);
}

// --- steady state ---

// A request's time in an engine is its decoding and the prefill of a prompt that waits for none.
static tperf_steadiness steadiness_of(const tperf_requests *requests, const tperf_served *served) {
    double first = INFINITY, last = 0, decoding = 0, prefill = INFINITY, drain = 0, n = 0;
    for (size_t i = 0; i < served->n; i++) {
        if (served->tokens[i] == 0) continue;
        double arrival = (double)requests->arrival[i];
        first = fmin(first, arrival);
        last = fmax(last, arrival);
        decoding += (double)(served->last_token[i] - served->first_token[i]);
        prefill = fmin(prefill, ttft(requests, served, i));
        drain = fmax(drain, (double)served->first_token[i]);
        n++;
    }
    if (n == 0) return (tperf_steadiness){0};
    tperf_steadiness s = {.span = last - first, .residence = decoding / n + prefill};
    double start = first + s.residence;
    s.middle = drain - start;
    for (size_t i = 0; i < served->n; i++) {
        double end = (double)served->last_token[i];
        s.completed += served->tokens[i] > 0 && end > start && end <= drain;
    }
    return s;
}

tperf_status tperf_serve_summarize(const tperf_requests *requests, const tperf_served *served,
                                   const tperf_objective *objective, tperf_serve_summary *summary,
                                   tperf_error *error) {
    double *values = tperf_heap_new(served->heap, 2 * (served->n + 1), sizeof *values);
    if (!values)
        return tperf_error_set(error, TPERF_NO_MEMORY,
                               "not enough memory for the latencies of %zu requests", served->n);
    summary->ttft = of_all(requests, served, ttft, values);
    summary->tpot = of_all(requests, served, tpot, values);
    summary->e2e = of_all(requests, served, e2e, values);
    tperf_heap_free(values);
    summary->good = 0;
    for (size_t i = 0; i < served->n; i++)
        summary->good += is_good(requests, served, i, objective);
    summary->saturated = is_saturated(requests, served);
    summary->steadiness = steadiness_of(requests, served);
    return TPERF_OK;
}
