--- Simulates a pipeline schedule with given times and memory.
local check = require "tperf.base.check"
local core = require "tperf.core"
local costs = require "tperf.describe.schedule.costs"
local placements = require "tperf.describe.schedule.placement"
local refusal = require "tperf.base.refusal"
local rule_sets = require "tperf.describe.schedule.rules"
local schedules = require "tperf.describe.schedule"
local timeline = require "tperf.timeline"

local simulation = {}

local SCHEMA = {
  times = check.record_of({
    forward = costs.by_stage { min = 0 },
    backward = costs.by_stage { min = 0 },
    backward_input = costs.by_stage { min = 0 },
    backward_weight = costs.by_stage { min = 0 },
    overlapped = costs.by_stage { min = 0 },
  }, { default = {} }),
  p2p = check.number { min = 0, optional = true },
  memory = check.record_of({
    forward = costs.by_stage { min = 0 },
    backward_input = costs.by_stage { max = 0 },
    backward_weight = costs.by_stage { max = 0 },
  }, { optional = true }),
  passing = check.record_of({ forward = costs.by_stage { min = 0 }, backward = costs.by_stage { min = 0 } },
    { optional = true }),
  memory_limit = costs.by_stage { min = 0 },
  ready = costs.by_stage { min = 0 },
  rules = check.choice { check.names(rule_sets), default = "default" },
}

for name, checker in pairs(schedules.shape) do SCHEMA[name] = checker end

local function refuse(format, ...) refusal.raise("tperf.schedule: " .. format, ...) end

-- Prepares s for an order function: adds the core's functions and expands costs by stage. Returns all of the core's
-- functions.
local function prepare(s, definition)
  s.rules = rule_sets[s.rules]
  schedules.check_shape(s, definition)
  local functions, message = core.schedule(s.devices, s.stages, s.microbatches)
  if not functions then refuse("%s", message) end
  s.times = costs.times(s.times, s.stages, s.rules)
  s.memory, s.passing = costs.memory(s.memory, s.stages), costs.passing(s.passing, s.stages)
  s.p2p = s.p2p or s.rules.p2p
  s.times.ready = s.ready and costs.expand(s.ready, "ready", s.devices, "device")
  if s.memory_limit then s.memory_limit = costs.expand(s.memory_limit, "memory_limit", s.devices, "device") end
  for _, name in ipairs { "hold", "forward", "backward", "backward_input", "backward_weight", "overlapped" } do
    s[name] = functions[name]
  end
  if definition.placement then
    for d = 1, s.devices do
      for _, stage in ipairs(placements[definition.placement](d, s.devices, s.stages)) do s:hold(d, stage) end
    end
  end
  return functions
end

-- Fills the queues, by the schedule's own order function or by one of the core's planners.
local function fill(s, definition, functions)
  if definition.order then return definition.order(s) end
  local limits = s.memory_limit or definition.limits and definition.limits(s)
  local done, message = functions.plan(s.times, s.memory, s.p2p, definition.planner, limits)
  if not done then check.fail("tperf.schedule: %s", message) end
end

local ROUNDING <const> = 1 + 1e-9 -- as the core's planners allow for, src/schedule/queue.h

-- Refuses a schedule that exceeds the caller's memory limit.
local function check_memory(s, summary)
  if not s.memory_limit or s.rules.unchecked_memory then return end
  for d, limit in ipairs(s.memory_limit) do
    if summary.peak_memory[d] > limit * ROUNDING then
      refuse("%s needs %.15g of memory on device %d, over its 'memory_limit' of %.15g", s.schedule,
        summary.peak_memory[d], d, limit)
    end
  end
end

--- Simulates a schedule and returns its timeline; arguments as for tperf.schedule without a model.
---@param arguments table
---@return tperf.timeline
function simulation.run(arguments)
  local s = check.record("tperf.schedule", arguments, SCHEMA)
  local definition = schedules.get(s.schedule)
  local functions = prepare(s, definition)
  fill(s, definition, functions)
  local summary, message = functions.simulate(s.times, s.memory, s.p2p, s.rules, s.passing)
  if not summary then
    local remedy = definition.remedy and message:find "^deadlock" and "; " .. definition.remedy(s) or ""
    refuse("%s: %s%s", s.schedule, message, remedy)
  end
  check_memory(s, summary)
  return timeline.new(s, functions, summary)
end

return simulation
