// records.c: the settings of a pool of engines, and the numbers of a priced step, as data. See tperf/serve.h.
#include "tperf/serve.h"

_Static_assert(sizeof(tperf_queue_policy) == sizeof(int32_t) &&
                   sizeof(tperf_draft_method) == sizeof(int32_t),
               "enums are read as integers of 32 bits");

#define POOL(...)                 TPERF_FIELD(tperf_serve_pool, __VA_ARGS__),
#define ENGINE(type, member, ...) TPERF_FIELD(tperf_serve_pool, type, engine.member, __VA_ARGS__),
#define DRAFTING(type, member, ...)                                                                \
    TPERF_FIELD(tperf_serve_pool, type, engine.drafting.member, __VA_ARGS__),
#define ESTIMATE(type, member, ...)                                                                \
    TPERF_FIELD(tperf_serve_pool, type, engine.estimate.member, __VA_ARGS__),
#define GROUPS(type, member, ...)                                                                  \
    TPERF_FIELD(tperf_serve_pool, type, engine.pooled.member, __VA_ARGS__),
// clang-format off
static const tperf_record_field pool[] = {
    TPERF_SERVE_POOL(POOL) TPERF_ENGINE(ENGINE) TPERF_ESTIMATE(ESTIMATE) TPERF_DRAFTING(DRAFTING)
    TPERF_POOLED(GROUPS){0}};
// clang-format on
const tperf_record tperf_serve_pool_record = {"tperf.serve", sizeof(tperf_serve_pool), pool};

#define TABLE(...)               TPERF_FIELD(tperf_step_table, __VA_ARGS__),
#define WHOLE(type, member, ...) TPERF_FIELD(tperf_step_table, type, whole.member, __VA_ARGS__),
static const tperf_record_field table[] = {TPERF_STEP_TABLE(TABLE) TPERF_WHOLE_CACHES(WHOLE){0}};
const tperf_record tperf_step_table_record = {"tperf.serve", sizeof(tperf_step_table), table};
