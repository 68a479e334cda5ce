--- A system as an engine's own kernels have it, where they differ from those that its curves were timed with.
local has = require "tperf.base.lists".has

local machine = {}

local made = setmetatable({}, { __mode = "k" }) -- by the system that they were made of, and by what differs

-- Decode of 8-bit caches takes what that of 16-bit caches of as many bytes takes; 16-bit caches stay whole.
local function own_decode(compute, engine, system)
  local known, changed, any = compute.decode or {}, {}, false
  local whole = system.accelerator.whole_caches
  if known.fp8 and known.bf16 and has(engine.fused_casts, system.generation) then
    changed.fp8, any = known.bf16, true
  end
  local listed = has(engine.whole_caches, system.generation) or has(engine.whole_caches, system.name)
  if whole.bandwidth and listed and known.bf16 then
    local mine = {}
    for name, value in pairs(known.bf16) do mine[name] = value end
    changed.bf16, mine.whole, any = mine, whole.bandwidth, true
  end
  return any and changed or nil
end

-- Experts whose weights are widened to 16 bits start as the engine's kernels do.
local function own_setup(compute, engine)
  local experts = compute.experts4
  return experts and experts.bf16 and engine.experts_setup and { bf16 = { setup = engine.experts_setup } } or nil
end

--- What differs where blocks of experts run in kernels of their own: the curve of their products, and routing.
---@param kernels table  accelerator.fused_experts or portable_experts
---@param dtype string   of the products
---@return table experts  for accelerator.compute_efficiency
---@return table routing  for accelerator
function machine.experts(kernels, dtype)
  local curve = {}
  for name, value in pairs(kernels) do curve[name] = value end
  curve.routing, curve.pair = nil, nil
  return { [dtype] = curve }, { setup = kernels.routing, pair = kernels.pair }
end

--- What differs where attention runs in kernels of its own.
---@param kernels table  accelerator.portable_attention
---@return table attention, table? decode  for accelerator.compute_efficiency
function machine.attention(kernels) return { attention = kernels.attention, decode = kernels.decode } end

-- Routing that takes `step` seconds longer.
local function slower(routing, step)
  routing = routing or {}
  return { setup = (routing.setup or 0) + step, pair = routing.pair or 0 }
end

-- What tells apart the systems made of one.
local function key_of(engine, kernels, dtype, attention)
  return table.concat({ tostring(engine.experts_setup), tostring(engine.experts_step[dtype:match "^%w+"]),
    table.concat(engine.fused_casts, " "), table.concat(engine.whole_caches, " "), tostring(kernels), dtype,
    tostring(attention ~= nil) }, ";")
end

local UNFUSED <const> = { bf16 = true, fp8 = true } -- dtypes in which families have portable kernels

-- The kernels that blocks of experts run in; nil: those of the system's other curves.
local function kernels_of(engine, experts)
  if experts.kernels then return experts.kernels end
  if has(engine.portable_families, experts.family) and UNFUSED[experts.dtype] then return "portable" end
  return has(engine.fused_experts, experts.dtype) and "fused" or has(engine.portable_experts, experts.dtype)
    and "portable" or nil
end

--- The system on which an engine's steps are priced.
---@param system table   of tperf.system
---@param profile table  of tperf.software, with an engine
---@param asked table    of experts: the model's family, dtype of their products, kernels = "fused", "portable" or
---   "grouped" (nil: the engine's choice), attention = accelerator.portable_attention (nil: fused kernels)
---@return table system
function machine.of(system, profile, asked)
  local compute, engine, attention = system.accelerator.compute_efficiency, profile.engine, asked.attention
  if type(compute) ~= "table" then return system end
  local decode, experts4 = own_decode(compute, engine, system), own_setup(compute, engine)
  if attention then decode = attention.decode end
  local kernels, experts, routing = kernels_of(engine, asked), nil, nil
  local own = kernels and system.accelerator[kernels .. "_experts"]
  if own then experts, routing = machine.experts(own, asked.dtype) end
  local step = not asked.narrow and engine.experts_step[asked.dtype] or 0
  if step > 0 then
    routing = slower(routing or system.accelerator.routing, step)
  end
  if not (decode or experts4 or experts or routing or attention) then return system end
  local key = key_of(engine, own and kernels, asked.dtype .. (asked.narrow and " narrow" or ""), attention)
  made[system] = made[system] or {}
  made[system][key] = made[system][key] or system:with { accelerator = {
    compute_efficiency = {
      attention = attention and attention.attention, decode = decode, experts4 = experts4, experts = experts,
    }, routing = routing,
  } }
  return made[system][key]
end

return machine
