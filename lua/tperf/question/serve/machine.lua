--- A system as an engine's own kernels have it, where they differ from those that its curves were timed with.
local machine = {}

local fused = setmetatable({}, { __mode = "k" }) -- by the system that they were made of

-- Decode of 8-bit caches takes what that of 16-bit caches of as many bytes takes.
local function with_fused_casts(system)
  if not fused[system] then
    local wide = system.accelerator.compute_efficiency.decode.bf16
    fused[system] = system:with { accelerator = { compute_efficiency = { decode = { fp8 = wide } } } }
  end
  return fused[system]
end

local function has(list, value)
  for _, item in ipairs(list) do
    if item == value then return true end
  end
  return false
end

--- The system on which an engine's steps are priced.
---@param system table   of tperf.system
---@param profile table  of tperf.software, with an engine
---@return table system
function machine.of(system, profile)
  local compute = system.accelerator.compute_efficiency
  local decode = type(compute) == "table" and compute.decode
  if not (decode and decode.fp8 and decode.bf16) then return system end
  return has(profile.engine.fused_casts, system.generation) and with_fused_casts(system) or system
end

return machine
