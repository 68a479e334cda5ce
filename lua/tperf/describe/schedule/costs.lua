--- Times and memory by pass and stage: expands the forms that users may write for the simulator.
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"

local costs = {}

local PASSES = { "forward", "backward", "backward_input", "backward_weight" }

--- A checker for a number, or for a list or map of numbers by 1-based stage (or device).
function costs.by_stage(options)
  local number = check.number(options)
  return function(value, path)
    if type(value) ~= "table" then
      if value == nil then return nil end
      return number(value, path)
    end
    local copy = {}
    for stage, item in next, value do
      local index = math.tointeger(stage)
      if not index or index < 1 then
        return nil, ("'%s' is by stage: the key %s is not one"):format(path, check.show(stage)), path
      end
      local result, message, where = number(item, ("%s[%d]"):format(path, index))
      if message then return nil, message, where end
      copy[index] = result
    end
    return copy
  end
end

local function refuse(format, ...) check.fail("tperf.schedule: " .. format, ...) end

--- A list with one number per stage. `missing` fills the gaps of a map (false: no value; nil: raises). A map of the
--- wrong length is refused: schedules that are compared may differ in their stages.
function costs.expand(value, name, count, what, missing)
  local list = {}
  if type(value) ~= "table" then
    for i = 1, count do list[i] = value end
    return list
  end
  for index in pairs(value) do
    if index > count then
      refusal.raise("tperf.schedule: '%s[%d]': there are only %d %ss", name, index, count, what)
    end
  end
  for i = 1, count do
    local item = value[i]
    if item == nil then item = missing end
    if item == nil then refusal.raise("tperf.schedule: '%s' has no value for %s %d of %d", name, what, i, count) end
    list[i] = item
  end
  return list
end

-- Completes a backward pass's total and its two halves from those that are given.
local function complete_backward(given, stage, default)
  local whole, input, weight = given.backward, given.backward_input, given.backward_weight
  whole, input, weight = whole and whole[stage], input and input[stage], weight and weight[stage]
  if not whole and not input and not weight then
    whole, input, weight = default.backward, default.backward_input, default.backward_weight
  end
  if not whole and not (input and weight) then
    refuse("'times.%s' is missing: give both halves of the backward, or the whole",
      input and "backward_weight" or "backward_input")
  end
  whole = whole or input + weight
  if not input and not weight then
    input, weight = whole / 2, whole / 2
  elseif not input or not weight then
    local rest = whole - (input or weight)
    if rest < 0 then refuse("'times.%s' is longer than 'times.backward' at stage %d",
        input and "backward_input" or "backward_weight", stage) end
    input, weight = input or rest, weight or rest
  end
  return whole, input, weight
end

--- The time of every pass on every stage, and of overlapped pairs if given.
---@param times table  pass -> number or map by stage
---@param stages integer
---@param rules table
function costs.times(times, stages, rules)
  local default, given, out = rules.times, {}, {}
  for _, pass in ipairs(PASSES) do
    local value, name = times[pass], "times." .. pass
    if rules.independent_times then
      if value == nil then value = default[pass] end
      out[pass] = costs.expand(value, name, stages, "stage", default[pass])
    elseif value ~= nil then
      given[pass] = costs.expand(value, name, stages, "stage")
    end
  end
  if times.overlapped ~= nil then
    local missing = rules.independent_times and false -- else nil: refused
    out.overlapped = costs.expand(times.overlapped, "times.overlapped", stages, "stage", missing)
  end
  if rules.independent_times then return out end
  out.forward = given.forward or costs.expand(default.forward, "times.forward", stages, "stage")
  out.backward, out.backward_input, out.backward_weight = {}, {}, {}
  for s = 1, stages do
    out.backward[s], out.backward_input[s], out.backward_weight[s] = complete_backward(given, s, default)
  end
  return out
end

--- The change of a device's memory after each pass on each stage. Default: one unit from a forward until the whole
-- backward or the weight gradient.
---@param memory table|nil  pass -> number or map by stage; forward >= 0, the others <= 0, their sum 0
---@param stages integer
function costs.memory(memory, stages)
  memory = memory or {}
  local out = { backward = {}, backward_weight = {} }
  out.forward = costs.expand(memory.forward or 1.0, "memory.forward", stages, "stage")
  out.backward_input = costs.expand(memory.backward_input or 0.0, "memory.backward_input", stages, "stage")
  local weight = memory.backward_weight and
    costs.expand(memory.backward_weight, "memory.backward_weight", stages, "stage")
  for s = 1, stages do
    local taken, freed = out.forward[s], out.backward_input[s]
    out.backward[s] = -taken
    out.backward_weight[s] = weight and weight[s] or -taken - freed
    local left = taken + freed + out.backward_weight[s]
    if math.abs(left) > 1e-9 * taken then
      refuse("'memory' must add up to 0 at stage %d: forward %.15g and backward %.15g leave %.15g", s, taken,
        freed + out.backward_weight[s], left)
    end
    if out.backward_weight[s] > 0 then
      refuse("'memory.backward_input' frees more than 'memory.forward' takes at stage %d", s)
    end
  end
  return out
end

--- Transient memory while a pass runs, by pass and stage; each half of a backward pass takes as much as the whole.
---@param passing table|nil  forward, backward: number or map by stage
---@param stages integer
function costs.passing(passing, stages)
  if not passing then return nil end
  local function expand(name) return costs.expand(passing[name] or 0.0, "passing." .. name, stages, "stage") end
  local backward = expand "backward"
  return { forward = expand "forward", backward = backward, backward_input = backward, backward_weight = backward }
end

local SCALED <const> = { memory = true }
for _, pass in ipairs(PASSES) do SCALED[pass] = true end

-- A list of one positive number for each micro-batch or device.
local function factors(value, name, count, what)
  if #value ~= count then
    refuse("'%s' has %d numbers, and there are %d %s", name, #value, count, what)
  end
  for i, number in ipairs(value) do
    if type(number) ~= "number" or not (number > 0) or number == math.huge then
      refuse("'%s[%d]' must be a number above 0, got %s", name, i, check.show(number))
    end
  end
  return value
end

--- The factors of passes' times and of memory by micro-batch: a list for all, or lists by pass and of memory, of
--- which those of backward hold for its halves.
---@param given table
---@param microbatches integer
---@return table { scale = lists by pass, memory = list or nil }
function costs.scales(given, microbatches)
  local name = "microbatch_scale"
  if given[1] ~= nil then
    local list = factors(given, name, microbatches, "micro-batches")
    return { scale = { forward = list, backward = list, backward_input = list, backward_weight = list }, memory = list }
  end
  local scale, memory = {}, nil
  for key, value in pairs(given) do
    if not SCALED[key] then
      refuse("unknown field '%s.%s'%s", name, tostring(key), check.suggest(key, check.names(SCALED)))
    end
    if type(value) ~= "table" then refuse("'%s.%s' must be a list, got %s", name, key, check.show(value)) end
    local list = factors(value, name .. "." .. key, microbatches, "micro-batches")
    if key == "memory" then memory = list else scale[key] = list end
  end
  scale.backward_input = scale.backward_input or scale.backward
  scale.backward_weight = scale.backward_weight or scale.backward
  return { scale = scale, memory = memory }
end

--- The speeds of devices.
function costs.speeds(given, devices) return factors(given, "speed", devices, "devices") end

local function link(value, name)
  if type(value) ~= "number" or not (value >= 0) or value == math.huge then
    refuse("'%s' must be a number of at least 0, got %s", name, check.show(value))
  end
  return value
end

--- Times by link: of neighbouring devices (the i-th of i and i + 1, the last one of the last and the first), or by both
--- devices. Returns a list by (from - 1) * devices + to, false where none is given, and the mean.
---@param given table
---@param devices integer
---@return (number|false)[] links
---@return number mean
function costs.links(given, devices)
  local links, sum, count = {}, 0, 0
  for i = 1, devices * devices do links[i] = false end
  local function set(from, to, value)
    links[(from - 1) * devices + to], sum, count = value, sum + value, count + 1
  end
  if #given > devices then refuse("'p2p[%d]': there are only %d devices", #given, devices) end
  for i, value in pairs(given) do
    if math.type(i) ~= "integer" or i < 1 or i > devices then
      refuse("'p2p' is by device: the key %s is not one of %d", check.show(i), devices)
    end
    if type(value) == "table" then
      for to, time in pairs(value) do
        if math.type(to) ~= "integer" or to < 1 or to > devices then
          refuse("'p2p[%d]' is by device: the key %s is not one of %d", i, check.show(to), devices)
        end
        if to ~= i then set(i, to, link(time, ("p2p[%d][%d]"):format(i, to))) end
      end
    else
      local other = i % devices + 1
      link(value, ("p2p[%d]"):format(i))
      if other ~= i then set(i, other, value) end
      if other ~= i and not (devices == 2 and i == 2) then set(other, i, value) end
    end
  end
  return links, count > 0 and sum / count or 0.0
end

--- The maximum of a list of any length.
function costs.most(list)
  local most = list[1]
  for _, value in ipairs(list) do most = math.max(most, value) end
  return most
end

return costs
