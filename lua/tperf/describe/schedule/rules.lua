--- The assumptions of a schedule's simulation, as data. A set is a table of the fields below.
--
--   latency_within_device    p2p is charged between neighbouring stages even if one device holds both
--   latency_before_weight    a weight gradient waits p2p after its own input gradient (not on the last stage)
--   blocking_send            a device that sends a result waits p2p before it starts another pass of the same
--                            kind (forward or backward) on the same stage, unless a pair is involved
--   pair_by_forward_stage    the time of an overlapped pair depends only on its forward's stage, even if its
--                            backward is of another stage
--   backward_before_forward  interleaved orders on one device run one forward ahead, whatever the number of chunks,
--                            so that a backward may precede its own forward; false: that is refused
--   ideal_by_whole_backward  the ideal time counts whole backwards, even if the schedule splits them
--   independent_times        times not given, or missing from a map by stage, default to `times` one by one; false:
--                            backward is the sum of its halves, and a map must name every stage
--   refuse_short_batches     refuse fewer micro-batches than fill the pipeline; false: shorten the warm-up
--   interleave_one_chunk     interleaved orders with one stage per device keep their double warm-up; false:
--                            they are 1f1b
--   unchecked_memory         a memory limit only guides the order; false: a schedule above it is refused
--   overlap_ignores_group    interleaved_1f1b_overlap ignores group_size
--   bubble                   "ideal": bubble_rate = (makespan - ideal) / ideal;
--                            "longest_stage": (longest - busiest) / longest, where longest is the longest time
--                            from a device's first start to its last stop: a late start costs nothing
--   times, p2p               defaults of the caller's arguments
return {
  -- The public default.
  ["default"] = {
    bubble = "ideal",
    times = { forward = 1.0, backward = 2.0 },
    p2p = 0.0,
  },
  -- Victarry/PP-Schedule-Visualization 1dd92bf8, to the last digit.
  ["pp-visualization"] = {
    latency_within_device = true,
    latency_before_weight = true,
    blocking_send = true,
    pair_by_forward_stage = true,
    backward_before_forward = true,
    ideal_by_whole_backward = true,
    unchecked_memory = true,
    independent_times = true,
    refuse_short_batches = true,
    interleave_one_chunk = true,
    overlap_ignores_group = true,
    bubble = "ideal",
    times = { forward = 1.0, backward = 2.0, backward_input = 1.0, backward_weight = 1.0 },
    p2p = 0.0,
  },
  -- sail-sg/zero-bubble-pipeline-parallelism 39f2c186.
  ["zero-bubble"] = {
    unchecked_memory = true,
    bubble = "longest_stage",
    times = { forward = 1000.0, backward_input = 1000.0, backward_weight = 1000.0 },
    p2p = 1.0,
  },
}
