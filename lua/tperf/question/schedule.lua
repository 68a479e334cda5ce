--- tperf.schedule { … }: the timeline of a pipeline schedule; tperf.schedule.define adds a custom schedule.
local rule_sets = require "tperf.describe.schedule.rules"
local schedules = require "tperf.describe.schedule"
local frozen = require "tperf.base.object.frozen"
local simulation = require "tperf.timeline.simulation"
local train = require "tperf.question.train"

local schedule = {
  names = schedules.names, define = schedules.define, default_stages = schedules.default_stages,
  closed_form = schedules.closed_form, in_flight = schedules.in_flight,
}

--- The definition of a schedule: its order, placement, closed form. It cannot be changed.
---@param name string
---@return table
function schedule.get(name) return frozen.show(schedules.get(name)) end

-- The arguments that go to the simulation; all others are tperf.train's.
local OF_SIMULATION = { "stages", "group_size", "memory_limit" }

-- Simulates the schedule of a modelled configuration, in seconds and bytes.
local function of_model(arguments)
  local given, options = {}, {}
  for name, value in pairs(arguments) do given[name] = value end
  for _, name in ipairs(OF_SIMULATION) do options[name], given[name] = given[name], nil end
  -- several stages per device are chunks of the configuration
  local definition = schedules.has(given.schedule) and schedules.get(given.schedule)
  local chunks = definition and math.type(options.stages) == "integer" and math.type(given.pp) == "integer"
    and given.pp > 0 and options.stages / given.pp
  if chunks and chunks > 1 and chunks % 1 == 0 and definition.placement and not definition.stages_per_device
    and given.virtual_stages == nil then
    given.virtual_stages, options.stages = math.tointeger(chunks), nil
  end
  if rule_sets[given.rules] and given.rules ~= "default" then options.rules, given.rules = given.rules, nil end
  given.simulate = options
  local configuration, t = train.run(given)
  t.configuration = configuration
  return t
end

--- Simulates a schedule.
---@param arguments table
--   schedule      name
--   devices       devices in the pipeline
--   stages        stages of the model; by default as many per device as the schedule uses
--   microbatches  micro-batches of an iteration
--   group_size    micro-batches of a group, for schedules that interleave
--   times         { forward=, backward=, backward_input=, backward_weight=, overlapped= }: each a number, or a
--                 list or map by stage; any unit
--   p2p           time between the end of a pass and its neighbour's start; by link: a list of those of neighbouring
--                 devices (the i-th of i and i + 1, the last of the last and the first device), or p2p[from][to]. An
--                 order then sees the mean
--   microbatch_scale  factors of times and memory by micro-batch, for unequal micro-batches and slices of sequences: a
--                 list, or { forward=, backward=, backward_input=, backward_weight=, memory= } of lists
--   speed         factors of the devices' speed, a list; 0.5: its passes take twice as long. The orders that are
--                 planned (zb_auto, zbv …) are planned for equal micro-batches and devices
--   memory        { forward >= 0, backward_input <= 0, backward_weight <= 0 }: the change that a pass leaves behind; by
--                 default 1 from a forward pass to its (weight) backward pass
--   passing       { forward, backward }: memory that lives on the device only while the pass runs
--   memory_limit  limit of every device, or a list by device
--   ready         time at which devices can begin (0), or a list by device
--   rules         "default", "pp-visualization" or "zero-bubble"
-- or, with the times and memory of a model: model, system and the other arguments of tperf.train, with the schedule
-- that the configuration is priced for (its weights and exchanges are those of the stages that a device holds), and
-- stages, group_size, memory_limit (bytes of activations) as above; rules may be either function's. The timeline is
-- then in seconds and bytes, and has iteration_time and configuration.
---@return tperf.timeline
function schedule.simulate(arguments)
  if type(arguments) == "table" and arguments.model ~= nil then return of_model(arguments) end
  return simulation.run(arguments)
end

return setmetatable(schedule, { __call = function(_, arguments) return schedule.simulate(arguments) end })
