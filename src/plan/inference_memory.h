// inference_memory.h: the memory of one replica that serves. Private to src/plan.
#ifndef TPERF_PLAN_INFERENCE_MEMORY_H
#define TPERF_PLAN_INFERENCE_MEMORY_H

#include "tperf/inference.h"

// Fills in the memory of the fullest GPU, a sequence's cache and the largest batch.
void tperf_inference_hold(const tperf_inference *serving, tperf_inference_result *out);

#endif
