--- Simulates a configuration's iteration pass by pass in a pipeline schedule, with the pass times of the core
-- (src/plan/iteration.c) that the closed form uses. Unlike the closed form it covers stages that differ, replicas that
-- wait for each other while the pipeline fills and drains, and weight gradients that fill bubbles.
local lazy = require "tperf.base.lazy"
local check = require "tperf.base.check"
local core = require "tperf.core"
local proof = lazy.module "tperf.describe.schedule.proof"
local refusal = require "tperf.base.refusal"
local schedule = require "tperf.describe.schedule"
local simulation = lazy.module "tperf.timeline.simulation"

local simulate = {}

local OPTIONS = {
  schedule = check.string { optional = true },
  stages = check.integer { min = 1, optional = true },
  group_size = check.integer { min = 1, optional = true },
  memory_limit = check.number { min = 0, unit = "bytes", optional = true },
  rules = check.string { optional = true },
}

--- The values of `simulate`: true, the name of a schedule, or a table:
--   schedule      its name; by default the configuration's
--   stages        several per GPU if the schedule supports it; layers are dealt out as evenly as they divide
--   group_size, memory_limit (of activations, in bytes), rules   as for tperf.schedule
function simulate.options(value, path)
  if value == nil or value == false then return nil end
  if value == true then value = {} end
  if type(value) == "string" then value = { schedule = value } end
  return check.record_of(OPTIONS)(value, path)
end

--- The arguments by which the configuration that `simulate` names differs from the one that was asked about; nil if it
--- is the same, or if no configuration has such stages. false: an argument that is left out.
---@param o table  checked arguments of tperf.train
---@return table?
function simulate.other(o)
  local wanted = o.simulate
  if not wanted or o.pp == 1 or not (wanted.schedule or wanted.stages) then return nil end
  local name = wanted.schedule or o.schedule
  local definition = schedule.get(name)
  local own = definition.stages_per_device
  local stages = own and own * o.pp or wanted.stages
  local chunks = stages and stages % o.pp == 0 and stages // o.pp or not stages and definition.placement and 2 or 1
  if name == o.schedule and (own or not stages or chunks == (o.virtual_stages or 1)) then return nil end
  if not own and stages and (stages % o.pp > 0 or chunks > 1 and not definition.placement) then return nil end
  return { schedule = name, virtual_stages = not own and chunks > 1 and chunks, pipeline_layout = false }
end

-- The number of stages: the configuration's if the schedule is its own, else the schedule's default.
local function stages_of(c, definition, o)
  if o.stages then return o.stages end
  if not o.schedule or o.schedule == c.schedule then return c.pp * c.virtual_stages end
  return schedule.default_stages(definition, c.pp)
end

-- From 0 until the last device has reduced its gradients, and the optimizer's step.
local function iteration_time(t, after, optimizer)
  local last = 0.0
  for device = 1, t.devices do
    last = math.max(last, t.last_stop[device] + after[device])
  end
  return last + optimizer
end

local HELD <const> = {} -- parts of the memory that are held all the time
for _, part in ipairs(core.memory_parts) do HELD[#HELD + 1] = part.held and part.name or nil end

-- What each device holds all the time: a list of tperf.memory without activations and passing memory, and without what
-- the allocator reserves beyond these: `slack` bytes for each of theirs.
local function kept_by(stages, slack)
  local list = {}
  for _, stage in ipairs(stages) do
    local m = stage.memory
    for _ = 1, stage.repeats do
      local held = { total = 0.0 }
      for _, name in ipairs(HELD) do held[name], held.total = m[name], held.total + m[name] end
      local beyond = slack * (m.activations + m.passing)
      held.runtime, held.total = held.runtime - beyond, held.total - beyond
      list[#list + 1] = held
    end
  end
  return list
end

-- The micro-batches of each stage whose activations a device holds during the pass at a position of its queue.
local function held_at(t, device, position)
  local held = {}
  for i, op in t:queue(device) do
    if op.type == "forward" and (i <= position or i == position + 1 and op.overlapped == "backward") then
      held[op.stage] = (held[op.stage] or 0) + 1
    elseif i < position and t.memory_change[op.type][op.stage] < 0 then
      held[op.stage] = held[op.stage] - 1
    end
    if i > position then break end
  end
  local list = {}
  for stage, count in pairs(held) do
    if count > 0 then list[#list + 1] = { stage = stage, microbatches = count } end
  end
  table.sort(list, function(a, b) return a.stage < b.stage end)
  return list
end

-- Bytes of the passes at a position of a device's queue: of both, if two overlap.
local function passing_at(t, device, position)
  local first = t:queued(device, position)
  local second = first.overlapped and t:queued(device, position + 1)
  return math.max(t:passing_of(first), second and t:passing_of(second) or 0.0), first, second
end

-- The moment at which the fullest device is fullest, and what its memory holds then.
local function peak_of(t)
  local device, most = 1, -1.0
  for d = 1, t.devices do
    local total = t:most_held(d)
    if total > most then device, most = d, total end
  end
  local position = t.fullest_at[device]
  local passing, first, second = passing_at(t, device, position)
  local alive = { activations = t.fullest[device] - passing, passing = passing }
  for _, name in ipairs(HELD) do alive[name] = t.kept[device][name] end
  alive.runtime = alive.runtime + t.slack * t.fullest[device]
  return {
    device = device, time = first.start, total = most,
    moment = {
      pass = second and "overlapped" or first.type, stage = first.stage, microbatch = first.microbatch,
      start = first.start, stop = first.stop,
      backward = second and { stage = second.stage, microbatch = second.microbatch },
    },
    alive = alive,
    held = held_at(t, device, position),
  }
end

local function same_memory(a, b)
  for name, bytes in pairs(a) do
    if b[name] ~= bytes then return false end
  end
  return true
end

-- What a device of a stage holds when it is fullest.
local function simulated_stage(stage, t, device)
  local position, microbatches = t.fullest_at[device], 0
  for _, held in ipairs(held_at(t, device, position)) do microbatches = microbatches + held.microbatches end
  local one, m = {}, {}
  for name, value in pairs(stage) do one[name] = value end
  for name, bytes in pairs(stage.memory) do m[name] = bytes end
  m.passing = (passing_at(t, device, position))
  m.activations, m.runtime = t.fullest[device] - m.passing, t.kept[device].runtime + t.slack * t.fullest[device]
  m.total = t:most_held(device)
  one.device, one.repeats, one.memory = device, 1, m
  one.in_flight = microbatches * t.devices / t.stages
  return one
end

--- The devices of a pipeline whose schedule has no closed form, with what each of them holds in its simulation.
---@param stages tperf.stage[]  with one micro-batch in flight
---@param t tperf.timeline      of simulate.run
---@return tperf.stage[]
function simulate.stages(stages, t)
  local list = {}
  for _, stage in ipairs(stages) do
    for device = stage.device, stage.device + stage.repeats - 1 do
      local one, last = simulated_stage(stage, t, device), list[#list]
      local equal = last and device > stage.device and one.in_flight == last.in_flight
        and same_memory(one.memory, last.memory)
      if equal then last.repeats = last.repeats + 1 else list[#list + 1] = one end
    end
  end
  return list
end

-- Refuses a script's order whose devices run more stages than the weights that were counted for them.
local function check_stages(t, name, definition)
  if definition.placement or not schedule.is_own(name) then return end
  for device = 1, t.devices do
    local seen, count = {}, 0
    for _, op in t:queue(device) do
      if not seen[op.stage] then seen[op.stage], count = true, count + 1 end
    end
    local two = count == 2 and t.stages == t.devices and proof.is_mirrored(name, definition, t.devices)
    if not two and count * t.devices > t.stages then
      refusal.raise("tperf.train: schedule '%s' runs %d of %d stages on device %d of %d, whose weights are not "
        .. "counted; state the stages of each device by its 'placement'", name, count, t.stages, device, t.devices)
    end
  end
end

-- A timeline in seconds and bytes, with iteration_time. c: of the configuration, what `simulate.run` says.
local function timeline_of(c, question, candidate, o)
  -- One stage runs one pass after the other, unless passes overlap to hide the expert all-to-alls.
  local name = o.schedule or c.pp > 1 and c.schedule or question.training.hide_experts and "1f1b_overlap" or "1f1b"
  local definition = schedule.get(name)
  local stages = stages_of(c, definition, o)
  if stages > question.model.layers + (stages > 2 and 2 or 0) then -- the first and last stages need not hold layers
    refusal.raise("tperf.train: %d stages are more than the model's %d layers", stages, question.model.layers)
  end
  local passes = candidate:passes(stages)
  local t = simulation.run {
    schedule = name, devices = c.pp, stages = stages, microbatches = c.microbatches, group_size = o.group_size,
    times = {
      forward = passes.forward, backward = passes.backward, overlapped = passes.overlapped,
      backward_input = passes.backward_input, backward_weight = passes.backward_weight,
    },
    memory = { forward = passes.memory }, memory_limit = o.memory_limit, rules = o.rules, p2p = passes.way,
    passing = { forward = passes.passing_forward, backward = passes.passing_backward }, ready = passes.ready,
  }
  check_stages(t, name, definition)
  t.units = { time = "s", memory = "bytes" }
  t.iteration_time = iteration_time(t, passes.after, c.breakdown.optimizer)
  return t, stages
end

--- Simulates a configuration of tperf.train.
---@param c table         the configuration
---@param question table  of problem.of
---@param candidate userdata  of configuration.candidate
---@param o table         of simulate.options
---@return table timeline in seconds and bytes; with iteration_time, which adds the wait for replicas and the
---  optimizer's step, the tasks of every pass, and peak: the moment at which the fullest GPU is fullest
function simulate.run(c, question, candidate, o)
  local t, stages = timeline_of(c, question, candidate, o)
  t.slack = question.rules.memory_counts_passing and question.training.slack or 0
  t.kept = kept_by(c.stages, t.slack)
  t.peak = peak_of(t)
  t.step = function() return candidate:tasks(stages) end
  return t
end

--- The time of an iteration by the formulas alone, simulated: that of a schedule without a closed form. At most the
--- configuration's own: a stack that was fitted to be faster than these wastes nothing.
---@return number seconds
function simulate.time_without_waste(c, question, candidate, o)
  if not question.software then return c.time end
  local bare = candidate:bare()
  local own = { pp = c.pp, virtual_stages = c.virtual_stages, schedule = c.schedule, microbatches = c.microbatches,
    breakdown = bare:time().breakdown }
  return math.min((timeline_of(own, question, bare, o)).iteration_time, c.time)
end

return simulate
