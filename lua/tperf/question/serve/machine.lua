--- A system as an engine's own kernels have it, where they differ from those that its curves were timed with.
local has = require "tperf.base.lists".has

local machine = {}

local made = setmetatable({}, { __mode = "k" }) -- by the system that they were made of, and by what differs

-- Decode of 8-bit caches takes what that of 16-bit caches of as many bytes takes; caches stay whole.
local function own_decode(compute, engine, system)
  local known, changed, any = compute.decode or {}, {}, false
  if known.fp8 and known.bf16 and has(engine.fused_casts, system.generation) then
    changed.fp8, any = known.bf16, true
  end
  if has(engine.whole_caches, system.generation) or has(engine.whole_caches, system.name) then
    for dtype, curve in pairs(known) do
      local mine = {}
      for name, value in pairs(changed[dtype] or curve) do mine[name] = value end
      changed[dtype], mine.whole, any = mine, 1, true
    end
  end
  return any and changed or nil
end

-- Experts whose weights are widened to 16 bits start as the engine's kernels do.
local function own_setup(compute, engine)
  local experts = compute.experts4
  return experts and experts.bf16 and engine.experts_setup and { bf16 = { setup = engine.experts_setup } } or nil
end

--- The system on which an engine's steps are priced.
---@param system table   of tperf.system
---@param profile table  of tperf.software, with an engine
---@return table system
function machine.of(system, profile)
  local compute, engine = system.accelerator.compute_efficiency, profile.engine
  if type(compute) ~= "table" then return system end
  local decode, experts4 = own_decode(compute, engine, system), own_setup(compute, engine)
  if not (decode or experts4) then return system end
  local key = table.concat({ tostring(experts4 and engine.experts_setup), table.concat(engine.fused_casts, " "),
    table.concat(engine.whole_caches, " ") }, ";")
  made[system] = made[system] or {}
  made[system][key] = made[system][key]
    or system:with { accelerator = { compute_efficiency = { decode = decode, experts4 = experts4 } } }
  return made[system][key]
end

return machine
