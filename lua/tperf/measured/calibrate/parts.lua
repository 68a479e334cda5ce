--- What several curves have in common.
local parts = {}

--- Parameters of a clock that falls under a long load: include/tperf/efficiency.h.
parts.SUSTAINED = { name = "sustained", start = 0.85, low = 0.4, high = 1 }
parts.SUSTAINED_AFTER = { name = "sustained_after", start = 2e-3, low = 1e-4, high = 2e-2 }

--- The curves of a system's kernels, in place of a constant if it has one.
---@param system table  a plain copy
---@return table
function parts.compute_of(system)
  local accelerator = system.accelerator
  if type(accelerator.compute_efficiency) ~= "table" then
    accelerator.compute_efficiency = { other = accelerator.compute_efficiency or 0.8 }
  end
  return accelerator.compute_efficiency
end

return parts
