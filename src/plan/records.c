// records.c: the fields of tperf_training and tperf_pipeline as data. See tperf/plan.h.
#include "tperf/plan.h"

#define FIELD(...) TPERF_FIELD(tperf_choice, __VA_ARGS__),
static const tperf_record_field choice[] = {TPERF_CHOICE(FIELD){0}};
#undef FIELD

#define FIELD(...) TPERF_FIELD(tperf_training, __VA_ARGS__),
static const tperf_record_field training[] = {TPERF_TRAINING(FIELD){0}};
#undef FIELD
const tperf_record tperf_choice_record = {"job:candidate", sizeof(tperf_choice), choice};

const tperf_training tperf_training_adam = {
    .gradient_bytes = 4,
    .optimizer_bytes = 8,
    .end_optimizer_bytes = 8,
    .narrow_bytes = 4,
    .recompute_layers = 1,
    .workspace_bytes = 64 << 20,
    .communicator_bytes = 128 << 20,
    .data_overlap = 1,
    .gather_overlap = -1,
    .reduce_overlap = -1,
    .overlap_p2p = true,
    .reshards = 1,
};
const tperf_record tperf_training_record = {"training", sizeof(tperf_training), training};

#define FIELD(...) TPERF_FIELD(tperf_pipeline, __VA_ARGS__),
static const tperf_record_field pipeline[] = {TPERF_PIPELINE(FIELD){0}};
#undef FIELD
const tperf_record tperf_pipeline_record = {"pipeline", sizeof(tperf_pipeline), pipeline};
