--- Fills the queues of a schedule, and simulates them.
local check = require "tperf.base.check"
local core = require "tperf.core"
local costs = require "tperf.describe.schedule.costs"
local lazy = require "tperf.base.lazy"
local own = lazy.module "tperf.describe.schedule.own"
local placements = require "tperf.describe.schedule.placement"
local refusal = require "tperf.base.refusal"
local shape = require "tperf.describe.schedule.shape"

local function refuse(format, ...) refusal.raise("tperf.schedule: " .. format, ...) end

-- Prepares s for an order function: adds the core's functions and expands costs by stage. Returns all of the core's
-- functions.
local function prepare(s, definition)
  shape.check(s, definition)
  local functions, message = core.schedule(s.devices, s.stages, s.microbatches)
  if not functions then refuse("%s", message) end
  s.times = costs.times(s.times, s.stages, s.rules)
  s.memory, s.passing = costs.memory(s.memory, s.stages), costs.passing(s.passing, s.stages)
  s.factors = s.microbatch_scale and costs.scales(s.microbatch_scale, s.microbatches) or {}
  s.factors.speed = s.speed and costs.speeds(s.speed, s.devices)
  if type(s.p2p) == "table" then s.factors.links, s.p2p = costs.links(s.p2p, s.devices) end
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
  if definition.order then
    if not definition.own_passes then return definition.order(s) end
    s.own_passes = own(s, functions)
    return definition.order(s)
  end
  local limits = s.memory_limit or definition.limits and definition.limits(s)
  local done, message = functions.plan(s.times, s.memory, s.p2p, definition.planner, limits)
  if not done then check.fail("tperf.schedule: %s", message) end
end

--- Simulates a schedule.
---@param s table  as tperf.schedule takes it without a model, checked; rules: the set itself. Its costs are expanded
---@param definition table
---@return table functions  the core's
---@return table summary    of the core's simulation
return function(s, definition)
  local functions = prepare(s, definition)
  fill(s, definition, functions)
  local summary, message = functions.simulate(s.times, s.memory, s.p2p, s.rules, s.passing, s.factors)
  if not summary then
    local remedy = definition.remedy and message:find "^deadlock" and "; " .. definition.remedy(s) or ""
    refuse("%s: %s%s", s.schedule, message, remedy)
  end
  for i, pass in ipairs(s.own_passes or {}) do pass.start, pass.stop = functions.own_times(i) end
  return functions, summary
end
