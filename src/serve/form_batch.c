// form_batch.c: which scheduler forms the batches of an engine, see tperf/serve.h and batch.h.
#include <string.h>

#include "serve/batch.h"

const tperf_scheduler *tperf_scheduler_of(const tperf_engine *engine) {
    return engine->scheduler ? engine->scheduler : &tperf_scheduler_vllm_v1;
}

const tperf_scheduler *tperf_scheduler_named(const char *name) {
    for (const tperf_scheduler *const *s = tperf_schedulers; *s; s++)
        if (strcmp((*s)->name, name) == 0) return *s;
    return NULL;
}

tperf_status tperf_schedule(tperf_replica *replica, int32_t *preempted, tperf_error *error) {
    const tperf_engine *engine = replica->engine;
    tperf_draft_method method = engine->drafting.method;
    bool looks_ahead = method == TPERF_DRAFT_MODEL || method == TPERF_DRAFT_EAGLE;
    tperf_batch b = {
        .replica = replica,
        .engine = engine,
        .budget = engine->max_num_batched_tokens,
        .lookahead = looks_ahead ? engine->drafting.tokens : 0,
        .error = error,
    };
    tperf_status status = tperf_scheduler_of(engine)->schedule(&b);
    *preempted = b.preempted;
    return status;
}
