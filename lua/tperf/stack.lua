--- A software profile turns the parts of a configuration's time into what a step takes:
--   work      compute x C + attention x A + memory x M + comm x T: the time of attention's kernels and of all others,
--             exposed memory time and tensor-parallel communication of one device, as slow beside each other as the
--             stack makes them; at least host x kernels, as the host launches them one by one
--   bubble    in proportion to the work
--   pipeline  what stages send each other and do not hide, as predicted
--   data      the part of the data-parallel traffic that is not hidden, 1 - overlap
--   optimizer reads and writes every parameter's state (38 bytes with Adam: gradient twice, master copy, moments,
--             weight, norm) at 0.7 of the HBM's bandwidth
local stack = {}

local ADAM_BYTES <const> = 12      -- of optimizer state per parameter, see tperf.training
local GRADIENT_BYTES <const> = 4   -- of a parameter's gradient, where the optimizer keeps it too
local OPTIMIZER_TRAFFIC <const> = 38 -- bytes read and written per parameter and step
local OPTIMIZER_PART <const> = 0.7   -- of the HBM's bandwidth that its many small kernels reach; an assumption

-- Kernels that one device launches in an iteration: forward, twice as many backward, and again when recomputed.
local function kernels_of(c)
  local per_layer = 0
  for _, kind in ipairs(c.kinds) do per_layer = per_layer + kind.count * #kind.ops end
  local passes = c.recompute == "full" and 4 or 3
  return c.microbatches * passes * (per_layer / c.pp + #c.first + #c.last)
end

local ATTENTION = { attention = true, logits = true, softmax = true, dropout = true, attend = true }

-- Which part of the layers' compute time is attention's kernels.
local function attention_part(c)
  local attention, all = 0, 0
  for _, kind in ipairs(c.kinds) do
    for _, op in ipairs(kind.ops) do
      local time = kind.count * (op.forward.compute_time + op.backward.compute_time)
      all = all + time
      if ATTENTION[op.name] then attention = attention + time end
    end
  end
  return all > 0 and attention / all or 0
end

local machines = setmetatable({}, { __mode = "k" }) -- by system and, as it is one, by machine

--- A system as training finds it: kernels follow each other for hours, so that its clock is the sustained one however
--- short each of them is.
---@param system table  as tperf.system returns it
function stack.machine(system)
  local compute = system.accelerator.compute_efficiency
  if type(compute) ~= "table" then return system end
  if machines[system] then return machines[system] end
  local change = {}
  for _, kind in ipairs { "gemm", "attention" } do
    change[kind] = {}
    for dtype in pairs(compute[kind] or {}) do change[kind][dtype] = { sustained_after = 1e-12 } end
  end
  local machine = system:with { accelerator = { compute_efficiency = change } }
  machines[system], machines[machine] = machine, machine
  return machine
end

--- What of a configuration a profile works on: seconds and counts.
---@param c table        a configuration of tperf.train, none of its data-parallel traffic hidden
---@param system table
---@param profile table  whose gradient_shard c's memory has
function stack.parts(c, system, profile)
  local b, hbm = c.breakdown, system.accelerator.hbm
  local work = b.compute + b.memory + b.tensor_comm
  local attention = attention_part(c) * b.compute
  local state = ADAM_BYTES + (profile.gradient_shard and GRADIENT_BYTES or 0)
  return {
    compute = b.compute - attention, attention = attention, memory = b.memory,
    comm = b.tensor_comm, pipeline = b.pipeline_comm,
    data = b.data_comm, kernels = kernels_of(c),
    bubble = work > 0 and b.bubble / work or 0,
    optimizer = c.memory.optimizer / state * OPTIMIZER_TRAFFIC
      / (hbm.bandwidth * OPTIMIZER_PART),
  }
end

local function split(parts, profile)
  local compute = profile.compute * parts.compute + profile.attention * parts.attention
  local work = compute + profile.memory * parts.memory + profile.comm * parts.comm
  local host = math.max(profile.host * parts.kernels - work, 0)
  return compute, work, host, parts.bubble * (work + host), (1 - profile.overlap) * parts.data
end

--- Seconds of a step.
---@param parts table    of stack.parts
---@param profile table  the six numbers suffice
function stack.seconds(parts, profile)
  local _, work, host, bubble, data = split(parts, profile)
  return work + host + bubble + parts.pipeline + data + parts.optimizer
end

-- What a step takes, part by part.
local function breakdown(parts, profile)
  local compute, _, host, bubble, data = split(parts, profile)
  return {
    compute = compute, memory = profile.memory * parts.memory, tensor_comm = profile.comm * parts.comm, host = host,
    bubble = bubble, pipeline_comm = parts.pipeline, data_comm = data, optimizer = parts.optimizer,
  }
end

local function outside(value, range)
  return range and value and (value < range[1] or value > range[2])
end

-- What of a configuration no run of the stack resembled.
local function warnings_of(profile, c, question)
  local list = {}
  local function warn(...) list[#list + 1] = string.format(...) end
  if not profile.error90 then warn("no run of %s was ever compared with a prediction", profile.name) end
  local known = #profile.systems == 0
  for _, name in ipairs(profile.systems) do known = known or name == question.system.name end
  if not known then warn("no run of %s on %s was compared", profile.name, question.system.name) end
  local function range(what, value, known_span)
    if not outside(value, known_span) then return end
    local low, high = known_span[1], known_span[2]
    local compared = low == high and ("not the %d"):format(low) or ("outside the %d to %d"):format(low, high)
    warn("%s %d is %s of the runs compared", what, value, compared)
  end
  range("gpus", c.gpus, profile.gpus)
  range("hidden", question.model.hidden, profile.hidden)
  range("seq", question.model.seq, profile.seq)
  return list
end

--- Makes of a configuration's time what a step takes: time, its parts, the interval in which nine tenths of the like
--- runs lie, and what no run resembled.
---@param c table         a configuration of tperf.train, changed in place
---@param profile table
---@param question table  { model, system }
function stack.apply(c, profile, question)
  local before = c.time
  local parts = stack.parts(c, question.system, profile)
  c.time, c.breakdown = stack.seconds(parts, profile), breakdown(parts, profile)
  c.software, c.warnings = profile.name, warnings_of(profile, c, question)
  local part = before / c.time
  for _, rate in ipairs { "throughput", "tokens_per_second", "mfu", "mfu_all_pairs" } do c[rate] = c[rate] * part end
  if profile.error90 then
    local error = math.min(profile.error90, 0.9)
    c.interval = { low = c.time / (1 + error), high = c.time / (1 - error) }
  end
end

return stack
