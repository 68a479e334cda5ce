// records.c: the fields of tperf_training and tperf_pipeline as data. See tperf/plan.h.
#include "tperf/plan.h"

#define FIELD(...) TPERF_FIELD(tperf_training, __VA_ARGS__),
static const tperf_record_field training[] = {TPERF_TRAINING(FIELD){0}};
#undef FIELD
const tperf_record tperf_training_record = {"training", sizeof(tperf_training), training};

#define FIELD(...) TPERF_FIELD(tperf_pipeline, __VA_ARGS__),
static const tperf_record_field pipeline[] = {TPERF_PIPELINE(FIELD){0}};
#undef FIELD
const tperf_record tperf_pipeline_record = {"pipeline", sizeof(tperf_pipeline), pipeline};
