// records.c: the options of a search as data. See tperf/search.h.
#include "tperf/search.h"

_Static_assert(sizeof(tperf_by_least) == sizeof(int32_t), "enums are read as integers of 32 bits");

#define FIELD(...) TPERF_FIELD(tperf_search_options, __VA_ARGS__),
static const tperf_record_field fields[] = {TPERF_SEARCH(FIELD){0}};
#undef FIELD
const tperf_record tperf_search_record = {"search", sizeof(tperf_search_options), fields};
