// dtypes.c: names and sizes of dtypes, see tperf/efficiency.h.
#include "tperf/efficiency.h"

const char *const tperf_dtype_names[TPERF_DTYPE_COUNT] = {"fp64", "fp32", "tf32", "fp16",
                                                          "bf16", "fp8",  "int8", "fp4"};

double tperf_dtype_bytes(tperf_dtype dtype) {
    static const double bytes[TPERF_DTYPE_COUNT + 1] = {
        [TPERF_FP64] = 8, [TPERF_FP32] = 4, [TPERF_TF32] = 4, [TPERF_FP16] = 2,
        [TPERF_BF16] = 2, [TPERF_FP8] = 1,  [TPERF_INT8] = 1, [TPERF_FP4] = 0.5,
    };
    return bytes[dtype];
}
