--- Decode steps of blocks that a script defines, whose counts may be any function of the context: the numbers of keys
--- between which all counts are affine, found by calling the blocks.
local core = require "tperf.core"
local refusal = require "tperf.base.refusal"

local contexts = {}

local RUN <const> = 1024  -- consecutive steps without a bend, before longer intervals are tried
local FEW <const> = 16    -- steps that are all laid out
local MOST <const> = 1 << 15 -- steps that are laid out for one shape

-- Where an interval that is not halved any more is looked at, besides its middle: whatever recurs meets few of these.
local PARTS <const> = { 0.5, 0.25, 0.75, 0.1415926, 0.3819660, 0.6180340, 0.8584073 }

-- Steps by their number of keys, each laid out once.
local function steps_of(step_of, last)
  local made, count = {}, 0
  return setmetatable({}, { __index = function(_, keys)
    if made[keys] then return made[keys] end
    count = count + 1
    if count > MOST then
      refusal.raise("a block's decode steps keep to no straight lines of up to %d tokens, and more than %d steps are "
        .. "not summed one by one: generate fewer tokens, or state the op's counts without jumps", last, MOST)
    end
    made[keys] = step_of(keys)
    return made[keys]
  end })
end

local function on_line(steps, low, high, keys)
  return core.steps_on_line(steps[low], steps[high], (keys - low) / (high - low), steps[keys])
end

local function all_on_line(steps, low, high)
  if not on_line(steps, low, high, (low + high) // 2) then return false end
  for keys = low + 1, high - 1 do
    if not on_line(steps, low, high, keys) then return false end
  end
  return true
end

-- Appends the last of the steps low … high and those between at which a count bends: the longest straight piece begins
-- at low, and so on. Every step is laid out.
local function add_run(list, steps, low, high)
  while low < high do
    local reach, length = low + 1, 2
    while low + length <= high and all_on_line(steps, low, low + length) do
      reach, length = low + length, length * 2
    end
    if reach < high and length > 2 then -- between reach and twice as far
      local beyond = math.min(low + length, high)
      while beyond - reach > 1 do
        local middle = (reach + beyond) // 2
        if all_on_line(steps, low, middle) then reach = middle else beyond = middle end
      end
      if beyond == high and all_on_line(steps, low, high) then reach = high end
    end
    list[#list + 1], low = reach, reach
  end
end

local function is_straight(steps, low, high)
  for _, part in ipairs(PARTS) do
    if not on_line(steps, low, high, low + math.floor(part * (high - low))) then return false end
  end
  return true
end

-- The same of steps that are not all laid out: intervals are halved until they look straight.
local function add_halves(list, steps, low, high)
  if high - low <= FEW then return add_run(list, steps, low, high) end
  if is_straight(steps, low, high) then
    list[#list + 1] = high
    return
  end
  local middle = (low + high) // 2
  add_halves(list, steps, low, middle)
  add_halves(list, steps, middle, high)
end

-- Steps are laid out one by one until so many in a row keep to one line: then nothing recurs within as many.
local function found(steps, first, last)
  local list, low = { first }, first
  while low < last do
    local high, count = math.min(low + RUN, last), #list
    add_run(list, steps, low, high)
    low = high
    if #list == count + 1 and low < last then
      add_halves(list, steps, low, last)
      break
    end
  end
  return list
end

-- Whether what was found for another shape serves for this one, as far as the middles show.
local function serves(steps, list)
  for i = 2, #list do
    local low, high = list[i - 1], list[i]
    if high - low > 1 and not on_line(steps, low, high, (low + high) // 2) then return false end
  end
  return true
end

--- The numbers of keys first … last between which all counts of a step are affine, and the steps.
---@param step_of fun(keys: integer): userdata  a workload
---@param known integer[]?  of another shape
---@return integer[] keys, userdata[] steps
function contexts.of(first, last, step_of, known)
  local steps, list = steps_of(step_of, last), known
  if first == last then return { first }, { steps[first] } end
  if not (list and serves(steps, list)) then list = found(steps, first, last) end
  local made = {}
  for i, keys in ipairs(list) do made[i] = steps[keys] end
  return list, made
end

return contexts
