--- The memory-limited zero-bubble scheduler of Qi et al. 2024 (arXiv 2401.10241), planned in
-- src/schedule/zero_bubble.c. ZB-H1 and ZB-H2 limit memory to P and 2P micro-batches.

-- held: function(s) -> the default memory limit of a device, in micro-batches.
local function definition(summary, held)
  return {
    summary = summary, stages_per_device = 1, placement = "block", planner = "zero_bubble",
    limits = function(s)
      local limits, most = {}, held(s)
      for d = 1, s.devices do limits[d] = most * s.memory.forward[d] end
      return limits
    end,
  }
end

return {
  definitions = {
    zb_auto = definition("zero bubble within a memory limit", function(s) return 3 * s.microbatches end),
    zb_h1 = definition("zb_auto at 1f1b's memory", function(s) return s.devices end),
    zb_h2 = definition("zb_auto at twice 1f1b's memory", function(s) return 2 * s.devices end),
  },
}
