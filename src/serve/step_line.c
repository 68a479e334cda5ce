// step_line.c: steps whose duration is linear in their work, see tperf/serve.h.
#include "tperf/serve.h"

#define FIELD(...) TPERF_FIELD(tperf_step_line, __VA_ARGS__),
static const tperf_record_field fields[] = {TPERF_STEP_LINE(FIELD){0}};
#undef FIELD
const tperf_record tperf_step_line_record = {"tperf.serve", sizeof(tperf_step_line), fields};

tperf_step_line tperf_step_line_in(const tperf_step_line *seconds, double ticks_per_second) {
    return (tperf_step_line){
#define IN_TICKS(type, member, ...) .member = seconds->member * ticks_per_second,
        TPERF_STEP_LINE(IN_TICKS)
#undef IN_TICKS
    };
}

int64_t tperf_step_line_ticks(const void *line, const tperf_step_work *work,
                              const tperf_prefill_chunk *chunks) {
    (void)chunks;
    const tperf_step_line *l = line;
    double ticks = l->fixed + l->per_token * (double)(work->decode_tokens + work->prefill_tokens) +
                   l->per_context_token * (double)work->decode_context +
                   l->per_prefill_pair * (double)work->prefill_pairs;
    return ticks < 0x1p62 ? (int64_t)(ticks + 0.5) : INT64_MAX;
}
