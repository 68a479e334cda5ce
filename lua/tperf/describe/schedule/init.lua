--- tperf.schedule { … }: the timeline of a pipeline schedule; tperf.schedule.define adds one's own.
local check = require "tperf.base.check"
local checked = require "tperf.describe.schedule.checked"
local refusal = require "tperf.base.refusal"
local core = require "tperf.core"
local costs = require "tperf.describe.schedule.costs"
local placements = require "tperf.describe.schedule.placement"
local rule_sets = require "tperf.describe.schedule.rules"
local timeline = require "tperf.timeline"

local schedule = {}

-- What `require` gives for a built-in schedule, by its public name.
local definitions = {
  gpipe = require "tperf.describe.schedule.order.gpipe",
  ["1f1b"] = require "tperf.describe.schedule.order.one_f_one_b",
  ["1f1b_overlap"] = require "tperf.describe.schedule.order.one_f_one_b_overlap",
  interleaved_1f1b = require "tperf.describe.schedule.order.interleaved".definition,
  interleaved_1f1b_overlap = require "tperf.describe.schedule.order.interleaved_overlap",
  zb1p = require "tperf.describe.schedule.order.zb1p",
  dualpipe = require "tperf.describe.schedule.order.dualpipe".definition,
  dualpipe_v = require "tperf.describe.schedule.order.dualpipe_v",
  zb_auto = require "tperf.describe.schedule.order.zb_auto".unlimited,
  zb_h1 = require "tperf.describe.schedule.order.zb_auto".h1,
  zb_h2 = require "tperf.describe.schedule.order.zb_auto".h2,
  zbv = require "tperf.describe.schedule.order.v".zbv,
  v_half = require "tperf.describe.schedule.order.v".half,
  v_min = require "tperf.describe.schedule.order.v".min,
}
local built_in = {}
for name in pairs(definitions) do built_in[name] = true end

--- The names of all schedules, sorted.
---@return string[]
function schedule.names()
  return check.names(definitions)
end

local function choice(value, names, what)
  for _, name in ipairs(names) do
    if value == name then return value end
  end
  return nil, ("'%s' must be one of %s, got %s%s"):format(what, table.concat(names, ", "), check.show(value),
    check.suggest(value, names))
end

--- The definition of a schedule: its order, placement, closed form.
---@param name string
---@return table
function schedule.get(name)
  local definition = type(name) == "string" and definitions[name]
  if not definition then check.fail("tperf.schedule: %s", select(2, choice(name, schedule.names(), "schedule"))) end
  return definition
end

local DEFINITION = {
  order = check.func(),
  summary = check.string { optional = true },
  stages_per_device = check.integer { min = 1, optional = true },
  placement = check.choice { check.names(placements), optional = true },
  refuse = check.func { optional = true },
  least_microbatches = check.func { optional = true },
  remedy = check.func { optional = true },
  grouped = check.boolean { optional = true },
  closed_form = check.func { optional = true },
  in_flight = check.func { optional = true },
}

--- Adds a schedule: a function(s) that fills the queues in order, or a table with that function as `order`. It calls
--    s:forward(device, stage, microbatch), s:backward(…), s:backward_input(…), s:backward_weight(…),
--    s:overlapped(device, forward_stage, forward_microbatch, backward_stage, backward_microbatch);
--    s:hold(device, stage) declares where a stage may run (default: anywhere);
-- and reads
--    s.devices, s.stages, s.microbatches, s.group_size, s.times, s.p2p, s.memory, s.memory_limit, s.rules
---@param name string
---@param definition function|table
--  order               function(s), as above
--  summary             one line for lists
--  stages_per_device   refuse any other number
--  placement           "block", "round_robin" or "mirrored": which stages a device holds
--  refuse              function(s): why a shape is impossible ("needs …"), or nil
--  remedy              function(s): what to do about a deadlock
--  least_microbatches  function(s): refuse fewer where the rules say so
--  grouped             takes group_size
--  closed_form         function(p), see tperf.schedule.closed_form
--  in_flight           function(p, device), see tperf.schedule.in_flight
function schedule.define(name, definition)
  if type(name) ~= "string" or not name:find "^[%w_%-]+$" then
    check.fail("tperf.schedule.define: the name must be letters, digits, _ and -, got %s", check.show(name))
  end
  if built_in[name] then check.fail("tperf.schedule.define: '%s' is built in; choose another name", name) end
  if type(definition) == "function" then definition = { order = definition, grouped = true } end
  definitions[name] = checked(name, check.record("tperf.schedule.define", definition, DEFINITION))
end

local MOST = (1 << 31) - 1 -- of anything counted: the core counts in int

local SCHEMA = {
  schedule = check.any(),
  devices = check.integer { min = 1, max = MOST },
  stages = check.integer { min = 1, max = MOST, optional = true },
  microbatches = check.integer { min = 1, max = MOST },
  group_size = check.integer { min = 1, max = MOST, optional = true },
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
  rules = function(value, path) return choice(value or "default", check.names(rule_sets), path) end,
}

-- Of a configuration's arguments those for the schedule; the rest are tperf.train's.
local OF_SCHEDULE = { "schedule", "stages", "group_size", "memory_limit" }

-- The schedule of a modelled configuration, in seconds and bytes.
local function of_model(arguments)
  local given, options = {}, {}
  for name, value in pairs(arguments) do given[name] = value end
  for _, name in ipairs(OF_SCHEDULE) do options[name], given[name] = given[name], nil end
  if rule_sets[given.rules] and given.rules ~= "default" then options.rules, given.rules = given.rules, nil end
  given.simulate = options
  local configuration, t = require "tperf.question.train".run(given) -- which needs this module itself
  t.configuration = configuration
  return t
end

local function refuse(format, ...) refusal.raise("tperf.schedule: " .. format, ...) end

--- How many stages a schedule has on so many devices when nobody says: two on each where it takes any number.
---@param definition table
---@param devices integer
---@return integer
function schedule.default_stages(definition, devices)
  return devices * (definition.stages_per_device or definition.placement and 2 or 1)
end

-- Stages per device fit the schedule; fills in the default.
local function check_shape(s, definition)
  local each = definition.stages_per_device
  s.stages = s.stages or schedule.default_stages(definition, s.devices)
  if each and s.stages ~= s.devices * each then
    refuse("%s has %s per device: %d devices need %d stages, not %d", s.schedule,
      each == 1 and "one stage" or each .. " stages", s.devices, s.devices * each, s.stages)
  end
  if definition.placement and s.stages % s.devices ~= 0 then
    refuse("%d stages can't be divided evenly among %d devices", s.stages, s.devices)
  end
  if s.group_size and not definition.grouped then refuse("%s takes no 'group_size'", s.schedule) end
  local message = definition.refuse and definition.refuse(s)
  if message then refuse("%s %s", s.schedule, message) end
  local least = s.rules.refuse_short_batches and definition.least_microbatches and definition.least_microbatches(s)
  if least and s.microbatches < least then
    refuse("%s on %d devices needs at least %d micro-batches, not %d", s.schedule, s.devices, least, s.microbatches)
  end
end

-- Makes s what an order function fills: the core's functions, what the caller asked for, costs spelled out.
-- Returns the rest of the core's functions.
local function prepare(s, definition)
  s.rules = rule_sets[s.rules]
  check_shape(s, definition)
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

-- Fills the queues by the definition's own function, or by one of the core's planners.
local function fill(s, definition, functions)
  if definition.order then return definition.order(s) end
  local limits = s.memory_limit or definition.limits and definition.limits(s)
  local done, message = functions.plan(s.times, s.memory, s.p2p, definition.planner, limits)
  if not done then check.fail("tperf.schedule: %s", message) end
end

-- A schedule that needs more than the caller allowed is none.
local function check_memory(s, summary)
  if not s.memory_limit or s.rules.unchecked_memory then return end
  for d, limit in ipairs(s.memory_limit) do
    if summary.peak_memory[d] > limit then
      refuse("%s needs %.15g of memory on device %d, over its 'memory_limit' of %.15g", s.schedule,
        summary.peak_memory[d], d, limit)
    end
  end
end

--- Simulates a schedule.
---@param arguments table
--   schedule      name
--   devices       in the pipeline
--   stages        of the model; by default what the schedule has per device
--   microbatches  of an iteration
--   group_size    micro-batches of a group, for schedules that interleave
--   times         { forward=, backward=, backward_input=, backward_weight=, overlapped= }: each a number, or a
--                 list or map by stage; any unit
--   p2p           time between the end of a pass and its neighbour's start
--   memory        { forward >= 0, backward_input <= 0, backward_weight <= 0 }: what a pass leaves behind, by default
--                 1 from a forward to its (weight) backward
--   passing       { forward, backward }: what lives on the device while such a pass runs, and no longer
--   memory_limit  of every device, or a list by device
--   ready         when devices can begin (0), or a list by device
--   rules         "default", "pp-visualization" or "zero-bubble"
-- or, for the times and memory of a model: schedule, stages, group_size, memory_limit, and a configuration as
-- tperf.train takes it (rules may be of either kind); the timeline then has iteration_time and configuration.
---@return tperf.timeline
function schedule.simulate(arguments)
  if type(arguments) == "table" and arguments.model ~= nil then return of_model(arguments) end
  local s = check.record("tperf.schedule", arguments, SCHEMA)
  local definition = schedule.get(s.schedule)
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

local SHAPE = { device = check.integer { min = 1, optional = true } }
for _, name in ipairs { "schedule", "devices", "stages", "microbatches", "group_size" } do
  SHAPE[name] = SCHEMA[name]
end

local function shape(arguments, what)
  local p = check.record("tperf.schedule." .. what, arguments, SHAPE)
  local definition = schedule.get(p.schedule)
  p.rules = rule_sets.default
  check_shape(p, definition)
  return p, definition
end

--- The makespan as a sum of times of one stage, { F=, B=, D=, W=, O=, p2p= }, by the default rules: exact where all
-- stages are alike, no input or weight gradient takes longer than a forward, no weight gradient longer than an input
-- gradient, and an overlapped pair no less than either half nor more than both. Without a coefficient for p2p only
-- where p2p is 0. Nil where there is no such form for the shape.
---@param arguments table
--  schedule, devices, stages, microbatches, group_size   as for tperf.schedule
--  device   not used here
---@return table|nil
function schedule.closed_form(arguments)
  local p, definition = shape(arguments, "closed_form")
  return definition.closed_form and definition.closed_form(p) or nil
end

--- The most micro-batches of one stage whose activations a device holds at once, or nil where no formula says.
---@param arguments table
--  schedule, devices, stages, microbatches, group_size   as for tperf.schedule
--  device   which, from 1
---@return integer|nil
function schedule.in_flight(arguments)
  local p, definition = shape(arguments, "in_flight")
  if not p.device or p.device > p.devices then refuse("'device' must be from 1 to %d", p.devices) end
  return definition.in_flight and definition.in_flight(p, p.device) or nil
end

return setmetatable(schedule, { __call = function(_, arguments) return schedule.simulate(arguments) end })
