// records.c: the records of this room as data. See tperf/plan.h and tperf/inference.h.
#include "tperf/inference.h"

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
    .context_bytes = 3 << 29,
    .slack = 0.05,
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

#define FIELD(...) TPERF_FIELD(tperf_cache, __VA_ARGS__),
static const tperf_record_field cache[] = {TPERF_CACHE(FIELD){0}};
#undef FIELD
const tperf_record tperf_cache_record = {"cache", sizeof(tperf_cache), cache};

#define FIELD(...) TPERF_FIELD(tperf_inference, __VA_ARGS__),
static const tperf_record_field inference[] = {TPERF_INFERENCE(FIELD){0}};
#undef FIELD
const tperf_record tperf_inference_record = {"infer", sizeof(tperf_inference), inference};

#define FIELD(...) TPERF_FIELD(tperf_phase, __VA_ARGS__),
static const tperf_record_field phase[] = {TPERF_PHASE(FIELD){0}};
#undef FIELD
const tperf_record tperf_phase_record = {"phase", sizeof(tperf_phase), phase};

#define FIELD(...) TPERF_FIELD(tperf_inference_bytes, __VA_ARGS__),
static const tperf_record_field bytes[] = {TPERF_INFERENCE_BYTES(FIELD){0}};
#undef FIELD
const tperf_record tperf_inference_bytes_record = {"bytes", sizeof(tperf_inference_bytes), bytes};

#define FIELD(...) TPERF_FIELD(tperf_stage_time, __VA_ARGS__),
static const tperf_record_field stage_time[] = {TPERF_STAGE_TIME(FIELD){0}};
#undef FIELD
const tperf_record tperf_stage_time_record = {"passes", sizeof(tperf_stage_time), stage_time};

#define FIELD(...) TPERF_FIELD(tperf_iteration, __VA_ARGS__),
static const tperf_record_field details[] = {TPERF_ITERATION_DETAILS(FIELD){0}};
#undef FIELD
const tperf_record tperf_iteration_record = {"iteration", sizeof(tperf_iteration), details};

#define FIELD(...) TPERF_FIELD(tperf_host_update, __VA_ARGS__),
static const tperf_record_field host_update[] = {TPERF_HOST_UPDATE(FIELD){0}};
#undef FIELD
const tperf_record tperf_host_update_record = {"host_update", sizeof(tperf_host_update),
                                               host_update};

#define FIELD(...) TPERF_FIELD(tperf_orthogonal, __VA_ARGS__),
static const tperf_record_field orthogonal[] = {TPERF_ORTHOGONAL(FIELD){0}};
#undef FIELD
const tperf_record tperf_orthogonal_record = {"update", sizeof(tperf_orthogonal), orthogonal};
