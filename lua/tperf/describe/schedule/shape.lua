--- Which shapes a schedule supports: devices, stages, micro-batches.
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local refusal = require "tperf.base.refusal"

local shape = {}

local function refuse(format, ...) refusal.raise("tperf.schedule: " .. format, ...) end

--- The default number of stages of a schedule: two per device if it takes any number.
---@param definition table
---@param devices integer
---@return integer
function shape.default_stages(definition, devices)
  definition = frozen.plain(definition)
  local each = type(definition) == "table" and (definition.stages_per_device or 1)
  if math.type(each) ~= "integer" then
    check.fail("tperf.schedule.default_stages needs a definition of tperf.schedule.get, got %s", check.show(definition))
  end
  if math.type(devices) ~= "integer" then
    check.fail("tperf.schedule.default_stages: 'devices' must be an integer, got %s", check.show(devices))
  end
  return devices * (definition.stages_per_device or definition.placement and 2 or 1)
end

--- Fills in the default number of stages, and raises for shapes that the schedule does not support.
---@param s table  schedule, devices, stages, microbatches, group_size and, as a table, rules
---@param definition table
function shape.check(s, definition)
  local each = definition.stages_per_device
  s.stages = s.stages or shape.default_stages(definition, s.devices)
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

return shape
