--- Simulates a pipeline schedule with given times and memory.
local check = require "tperf.base.check"
local costs = require "tperf.describe.schedule.costs"
local refusal = require "tperf.base.refusal"
local rule_sets = require "tperf.describe.schedule.rules"
local schedules = require "tperf.describe.schedule"
local simulated = require "tperf.describe.schedule.simulated"
local timeline = require "tperf.timeline"

local simulation = {}

local optional_number = check.number { min = 0, optional = true }

local function number_or_table(value, path)
  if type(value) == "table" then return value end
  return optional_number(value, path)
end

local function optional_table(value, path)
  if value == nil or type(value) == "table" then return value end
  return nil, ("'%s' must be a table, got %s"):format(path, check.show(value)), path
end

local SCHEMA = {
  times = check.record_of({
    forward = costs.by_stage { min = 0 },
    backward = costs.by_stage { min = 0 },
    backward_input = costs.by_stage { min = 0 },
    backward_weight = costs.by_stage { min = 0 },
    overlapped = costs.by_stage { min = 0 },
  }, { default = {} }),
  p2p = number_or_table,
  microbatch_scale = optional_table,
  speed = optional_table,
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
  s.rules = rule_sets[s.rules]
  local functions, summary = simulated(s, schedules.get(s.schedule))
  check_memory(s, summary)
  return timeline.new(s, functions, summary)
end

return simulation
