// rules.c: the core's rules as data. See tperf/rules.h.
#include "tperf/rules.h"

#define FIELD(...) TPERF_FIELD(tperf_rules, __VA_ARGS__),
static const tperf_record_field fields[] = {TPERF_RULES(FIELD){0}};
const tperf_record tperf_rules_record = {"rules", sizeof(tperf_rules), fields};

#define HOLDS(type, member, ...) .member = true,
const tperf_rules tperf_rules_default = {TPERF_RULES(HOLDS)};
