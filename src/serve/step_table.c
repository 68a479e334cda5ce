// step_table.c: a step's time from tables of a priced workload, see tperf/serve.h.
#include <math.h>

#include "tperf/serve.h"

// The piece of an ascending axis that contains x, and the fraction within it; the end pieces extrapolate.
static int32_t piece_of(const double *axis, int32_t n, double x, double *part) {
    int32_t low = 0;
    for (int32_t left = n - 1, half; left > 1; left -= half) { // no branch to be mispredicted
        half = left / 2;
        low = axis[low + half] <= x ? low + half : low;
    }
    *part = n > 1 ? (x - axis[low]) / (axis[low + 1] - axis[low]) : 0;
    return low;
}

static double on_line(const double *y, int32_t at, int32_t n, double part) {
    return n > 1 ? y[at] + part * (y[at + 1] - y[at]) : y[at];
}

static double line_at(const tperf_line *line, double x) {
    double part;
    int32_t at = piece_of(line->x, line->n, x, &part);
    return on_line(line->y, at, line->n, part);
}

static double grid_at(const tperf_step_grid *s, double x, double y) {
    double across, along;
    int32_t row = piece_of(s->x, s->nx, x, &across), column = piece_of(s->y, s->ny, y, &along);
    const double *first = s->z + (size_t)row * (size_t)s->ny;
    double low = on_line(first, column, s->ny, along);
    if (s->nx == 1) return low;
    return low + across * (on_line(first + s->ny, column, s->ny, along) - low);
}

// The tokens that kernels process: CUDA graphs exist for a few sizes, and a batch is padded to the next one.
static double padded(const tperf_step_table *t, double tokens) {
    if (t->n_graphs == 0 || tokens > t->graphs[t->n_graphs - 1]) return tokens;
    double part;
    int32_t at = piece_of(t->graphs, t->n_graphs, tokens, &part);
    if (tokens <= t->graphs[at]) return t->graphs[at];
    return t->graphs[at + 1];
}

// Products, norms and collectives depend on the total number of tokens. Latent attention and state-space layers differ
// between prefills and decodes; each table is weighted by its share of the tokens.
static double tokens_time(const tperf_step_table *t, const tperf_step_work *work) {
    double decodes = (double)work->decode_tokens, prefills = (double)work->prefill_tokens;
    double all = padded(t, decodes + prefills), seconds = 0;
    if (decodes > 0) seconds += decodes * line_at(&t->decode_tokens, all);
    if (prefills > 0) seconds += prefills * line_at(&t->prefill_tokens, all);
    return seconds / (decodes + prefills);
}

// What the longest cache adds when all have the mean length, if caches stay whole: units take the next cache when they
// are free, so that the longest one ends after the others.
static double unevenly(const tperf_step_table *t, const tperf_step_work *work, double even) {
    const tperf_whole_caches *w = &t->whole;
    double longest = (double)work->decode_longest, keys = (double)work->decode_context;
    bool alone = work->prefills == 0 && work->decode_tokens == work->decodes;
    if (w->key <= 0 || (alone && padded(t, (double)work->decodes) < w->from)) return even;
    if (!alone) even = fmax(even, w->each * keys);
    return fmax(even + w->late * w->key * (longest - keys / work->decodes), w->key * longest);
}

// All decodes are one kernel, which balances their keys over the multiprocessors or leaves their caches whole.
static double decodes_time(const tperf_step_table *t, const tperf_step_work *work) {
    double n = (double)work->decodes, seconds = 0;
    if (work->decodes == 0) return 0;
    if (t->decode.nx)
        seconds += unevenly(t, work, grid_at(&t->decode, n, (double)work->decode_context / n));
    if (t->decode_window.nx)
        seconds += grid_at(&t->decode_window, n, (double)work->decode_window / n);
    return seconds;
}

// Attention of a step. All prefills are one kernel: it takes at least as long as the longest chunk by itself, and at
// least the sum of what each adds to a kernel that fills the machine. Decodes run in it too, or before it.
static double attention_time(const tperf_step_table *t, const tperf_step_work *work,
                             const tperf_prefill_chunk *chunks) {
    double decodes = decodes_time(t, work), longest = 0, sum = 0;
    if (t->chunk.nx == 0 || work->prefills == 0) return decodes;
    bool together = work->decodes > 0 && !t->separate;
    for (int32_t i = 0; i < work->prefills; i++) {
        double n = (double)chunks[i].tokens, before = (double)chunks[i].before;
        longest = fmax(longest, grid_at(&t->chunk, n, before));
        if (work->prefills > 1 || together) sum += grid_at(&t->chunk_among, n, before);
    }
    return together ? fmax(longest, decodes + sum) : decodes + fmax(longest, sum);
}

// Encoders beside the prompts run once for each, in the step with its first tokens.
static double encoders_time(const tperf_step_table *t, const tperf_step_work *work,
                            const tperf_prefill_chunk *chunks) {
    if (t->encoders.n == 0) return 0;
    int32_t begun = 0;
    for (int32_t i = 0; i < work->prefills; i++)
        begun += chunks[i].before == 0;
    return begun > 0 ? line_at(&t->encoders, begun) : 0;
}

// A step is no faster than its launches, except under a graph.
static double launch_time(const tperf_step_table *t, const tperf_step_work *work) {
    double most = t->n_graphs > 0 ? t->graphs[t->n_graphs - 1] : 0;
    bool eager = (t->eager_prefills && work->prefills > 0) ||
                 (double)(work->decode_tokens + work->prefill_tokens) > most;
    return eager ? t->launch : 0;
}

// What drafts tokens after a step: it sees the step's own tokens once, as it needs their keys, and gives the first draft
// of every sequence; each further one takes a pass of a token for each. A pass ends in the head.
static double drafting_time(const tperf_step_table *t, const tperf_step_work *work, double layers) {
    double n = (double)(work->decodes + work->prefills);
    if (t->drafts == 0 || n == 0) return 0;
    double keys = (double)work->decode_context / fmax((double)work->decodes, 1);
    double pass = line_at(&t->decode_tokens, padded(t, n));
    if (t->decode.nx) pass += grid_at(&t->decode, n, keys);
    double head = line_at(&t->rows, n);
    return t->draft_part * layers + head + (t->drafts - 1) * (t->draft_part * pass + head);
}

typedef struct parts {
    double layers, rows, host, send;
} parts;

static parts parts_of(const tperf_step_table *t, const tperf_step_work *work,
                      const tperf_prefill_chunk *chunks) {
    double rows = (double)(work->decode_tokens + work->prefills);
    double tokens = (double)(work->decode_tokens + work->prefill_tokens);
    double layers = tokens_time(t, work) + attention_time(t, work, chunks);
    double encoders = encoders_time(t, work, chunks);
    return (parts){
        .layers = encoders + fmax(layers, launch_time(t, work)),
        .rows = line_at(&t->rows, rows) + drafting_time(t, work, layers),
        .host = t->host_step + t->host_request * (double)(work->decodes + work->prefills) +
                t->host_token * tokens,
        .send = t->send + t->send_token * tokens,
    };
}

double tperf_step_table_seconds(const tperf_step_table *t, const tperf_step_work *work,
                                const tperf_prefill_chunk *chunks) {
    parts p = parts_of(t, work, chunks);
    double sends = t->stages > 1 ? (t->stages - 1) * p.send : 0;
    return p.host + p.layers + p.rows + sends;
}

static int64_t ticks_of(const tperf_step_table *t, double seconds) {
    double ticks = t->ticks_per_second * seconds;
    return ticks < 0x1p62 ? (int64_t)(ticks + 0.5) : INT64_MAX;
}

int64_t tperf_step_table_ticks(const void *context, const tperf_step_work *work,
                               const tperf_prefill_chunk *chunks) {
    const tperf_step_table *t = context;
    return ticks_of(t, tperf_step_table_seconds(t, work, chunks));
}

// For the last stage, which has the head besides its layers.
int64_t tperf_step_table_stage_ticks(const void *context, const tperf_step_work *work,
                                     const tperf_prefill_chunk *chunks) {
    const tperf_step_table *t = context;
    parts p = parts_of(t, work, chunks);
    double stages = t->stages > 1 ? t->stages : 1;
    return ticks_of(t, p.host + p.layers / stages + p.rows + (stages > 1 ? p.send : 0));
}
