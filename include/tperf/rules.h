// rules.h: the core's optional modelling assumptions. A set of rules is data. lua/tperf/describe/rules.lua names the
// sets ("default", "subramanian2024"), holds the assumptions that only the layout of a layer needs, and documents every
// field with its source. Numbers Qn are those of docs/model.md. Unless a field says otherwise, false is what the
// published solver of arXiv 2410.00273 computes and true is the corrected form.
#ifndef TPERF_RULES_H
#define TPERF_RULES_H

#include <stdbool.h>

typedef struct tperf_rules {
    bool all_reduce_is_two_passes;   // Q4: everywhere, not only across domains; for the latency too
    bool lone_gpus_use_all_nics;     // Q5: a GPU alone in its domain has nics_per_gpu NICs, not one
    bool slow_pipeline_links_cost;   // Q3: pipeline links between domains take time
    bool flops_without_equivalents;  // Q6: reported FLOPs count vector work as it is
    bool panels_overlap_exactly;     // Q7: n panels of communication, not n + 1
    bool launch_outside_roofline;    // Q13: launch + max(compute, memory)
    bool data_overlap_excludes_comm; // Q15: links carry one collective at a time
    bool placements_may_underfill;   // Q16: a placement may leave GPUs of a domain unused
    bool recompute_counts_everywhere; // Q17: in FLOPs and in the time's parts too
    bool memory_counts_passing;       // S7: memory live during one pass, and buffers, count
} tperf_rules;

#endif
