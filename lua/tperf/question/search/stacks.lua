--- The layouts that other stacks would choose, where a search names none.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local lists = require "tperf.base.lists"

local stacks = {}

-- A question with other arguments.
local function with(given, changes)
  for name, value in pairs(given) do
    if changes[name] == nil and name ~= "progress" then changes[name] = value end
  end
  return changes
end

-- Whether a question is about several numbers of GPUs.
local function has_several(given) return type(given.gpus) == "table" and given.gpus[2] ~= nil end

-- The best configuration of a question about one number of GPUs; nil: there is none.
local function best_of(question)
  local found = require "tperf.question.search".within(question)
  return (found.candidates and found or found[1] or {})[1]
end

-- How many GPUs each axis has, and the stage of ZeRO.
local function layout(c)
  local sizes = { c.pp, c.dp, c.zero }
  for _, name in ipairs(axes.asked(c).axis_names) do sizes[#sizes + 1] = c[name] or 1 end
  return table.concat(sizes, " ")
end

-- Stacks beside Megatron-Core that train large models, and what they may choose: the layers stay whole, and ZeRO shards
-- what it can. The arguments that a question leaves open become these; where it fixes one otherwise, the stack has no
-- such layout.
local OTHERS <const> = {
  { software = "fsdp2-2026", zero = { 3 } },
  { software = "deepspeed-2026", zero = { 1, 2 } },
}

-- The part of a list, or of one value, that a stack may choose; nil: none.
local function common(given, own)
  if given == nil then return own end
  local kept = {}
  for _, value in ipairs(type(given) == "table" and given or { given }) do
    if lists.has(own, value) then kept[#kept + 1] = value end
  end
  return kept[1] and kept or nil
end

-- A question as another stack takes it; nil: it has no such layout.
local function changed(given, other)
  local question = { top = 1, software = other.software, zero = common(given.zero, other.zero) }
  if not question.zero then return nil end
  with(given, question)
  question.pp = common(given.pp, { 1 })
  local may = question.pp ~= nil
  for _, axis in ipairs(axes.asked(given).axes) do
    if not axes.cuts(axis, "state") then
      question[axis.name] = common(given[axis.name], { 1 })
      may = may and question[axis.name] ~= nil
    end
  end
  return may and question or nil
end

--- The best configuration of each other stack that could run what a search asks, if it cuts the model otherwise than
--- the search's first.
---@param given table  the question, which names no software; of one system and one number of GPUs
---@param first table  the best configuration of its answer
---@return table[] configurations
function stacks.others(given, first)
  local list = {}
  if given.software ~= nil or given.where or given.strategy or has_several(given) then return list end
  for _, other in ipairs(first.software == "megatron-core-2026" and OTHERS or {}) do
    local question = changed(given, other)
    local ok, c = false, nil
    if question then ok, c = check.attempt(best_of, question) end
    if ok and c and layout(c) ~= layout(first) then list[#list + 1] = c end
  end
  return list
end

--- The fastest configuration of which all of the memory's interval fits. All of a search have intervals as wide for
--- their memory, so it is the fastest that keeps as much free as the interval's high end is above the prediction.
---@param given table  the question, of one system and one number of GPUs
---@param found table[]  its best configurations, the fastest first, with intervals
---@return tperf.configuration? c  nil: none fits so, or it is not known
function stacks.surely(given, found)
  if given.where or given.minimize or has_several(given) then return nil end
  for _, c in ipairs(found) do
    if c.fit == "fits" then return c end
  end
  local first = found[1]
  local part = (1 - (given.reserve or 0)) * first.memory.total / first.intervals.memory.high
  return best_of(with(given, { top = 1, reserve = 1 - part }))
end

return stacks
