// rules.h: the core's optional modelling assumptions. A set of rules is data. lua/tperf/describe/rules.lua names the
// sets ("default", "subramanian2024"), holds the assumptions that only the layout of a layer needs, and documents every
// field with its source. Numbers Qn are those of docs/model.md. Unless a field says otherwise, false is what the
// published solver of arXiv 2410.00273 computes and true is the corrected form.
#ifndef TPERF_RULES_H
#define TPERF_RULES_H

#include "tperf/record.h"

// A row for each (tperf/record.h).
// clang-format off
#define TPERF_RULE(FIELD, member, doc) FIELD(FLAG, member, #member, NULL, TPERF_REQUIRED, 0, 1, doc)
#define TPERF_RULES(FIELD)                                                                         \
    TPERF_RULE(FIELD, all_reduce_is_two_passes, "Q4: everywhere, not only across domains; for the latency too") \
    TPERF_RULE(FIELD, lone_gpus_use_all_nics, "Q5: a GPU alone in its domain has nics_per_gpu NICs, not one") \
    TPERF_RULE(FIELD, slow_pipeline_links_cost, "Q3: pipeline links between domains take time")    \
    TPERF_RULE(FIELD, flops_without_equivalents, "Q6: reported FLOPs count vector work as it is")  \
    TPERF_RULE(FIELD, panels_overlap_exactly, "Q7: n panels of communication, not n + 1")          \
    TPERF_RULE(FIELD, launch_outside_roofline, "Q13: launch + max(compute, memory)")               \
    TPERF_RULE(FIELD, data_overlap_excludes_comm, "Q15: links carry one collective at a time")     \
    TPERF_RULE(FIELD, placements_may_underfill, "Q16: a placement may leave GPUs of a domain unused") \
    TPERF_RULE(FIELD, recompute_counts_everywhere, "Q17: in FLOPs and in the time's parts too")    \
    TPERF_RULE(FIELD, memory_counts_passing, "S7: memory live during one pass, and buffers, count")
// clang-format on

typedef struct tperf_rules {
    TPERF_RULES(TPERF_MEMBER)
} tperf_rules;
extern const tperf_record tperf_rules_record;
extern const tperf_rules tperf_rules_default; // every rule holds

#endif
