// service.h: the memory of one replica that serves. Private to src/plan.
#ifndef TPERF_PLAN_SERVICE_H
#define TPERF_PLAN_SERVICE_H

#include "tperf/inference.h"

// Fills in the memory of the fullest GPU, a sequence's cache and the largest batch.
void tperf_service_hold(const tperf_serving *serving, tperf_service *out);

#endif
