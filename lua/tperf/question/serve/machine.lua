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

--- What differs where blocks of experts run in fused kernels: the curve of their products in these dtypes, and routing.
---@param fused table     accelerator.fused_experts
---@param dtypes string[]
---@return table experts  for accelerator.compute_efficiency
---@return table routing  for accelerator
function machine.fused(fused, dtypes)
  local curve, by_dtype = {}, {}
  for name, value in pairs(fused) do curve[name] = value end
  curve.routing, curve.pair = nil, nil
  for _, dtype in ipairs(dtypes) do by_dtype[dtype] = curve end
  return by_dtype, { setup = fused.routing, pair = fused.pair }
end

local ALL <const> = { "bf16", "fp8", "fp4" }

local function dtypes_of(engine, experts)
  return experts == "fused" and ALL or experts == "grouped" and {} or engine.fused_experts
end

local function own_experts(accelerator, dtypes)
  local fused = accelerator.fused_experts
  if fused and #dtypes > 0 then return machine.fused(fused, dtypes) end
end

-- What tells apart the systems made of one.
local function key_of(engine, dtypes)
  return table.concat({ tostring(engine.experts_setup), table.concat(engine.fused_casts, " "),
    table.concat(engine.whole_caches, " "), table.concat(dtypes, " ") }, ";")
end

--- The system on which an engine's steps are priced.
---@param system table   of tperf.system
---@param profile table  of tperf.software, with an engine
---@param kernels string?  of experts: "fused" or "grouped"; nil: the engine's default
---@return table system
function machine.of(system, profile, kernels)
  local compute, engine = system.accelerator.compute_efficiency, profile.engine
  if type(compute) ~= "table" then return system end
  local decode, experts4 = own_decode(compute, engine, system), own_setup(compute, engine)
  local dtypes = dtypes_of(engine, kernels)
  local experts, routing = own_experts(system.accelerator, dtypes)
  if not (decode or experts4 or experts) then return system end
  local key = key_of(engine, dtypes)
  made[system] = made[system] or {}
  made[system][key] = made[system][key] or system:with { accelerator = {
    compute_efficiency = { decode = decode, experts4 = experts4, experts = experts }, routing = routing,
  } }
  return made[system][key]
end

return machine
