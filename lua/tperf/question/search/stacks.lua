--- The layouts that other stacks would choose, where a search names none.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local lists = require "tperf.base.lists"

local stacks = {}

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
  for name, value in pairs(given) do
    if question[name] == nil and name ~= "progress" then question[name] = value end
  end
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
  local several = type(given.gpus) == "table" and given.gpus[2]
  if given.software ~= nil or given.where or given.strategy or several then return list end
  local search = require "tperf.question.search"
  for _, other in ipairs(first.software == "megatron-core-2026" and OTHERS or {}) do
    local question = changed(given, other)
    local ok, found = check.attempt(search.within, question or {})
    local results = question and ok and (found.candidates and { found } or found)
    local c = results and results[1][1]
    if c and layout(c) ~= layout(first) then list[#list + 1] = c end
  end
  return list
end

--- The fastest configuration of which all of the memory's interval fits.
---@param given table  the question, of one system and one number of GPUs
---@return tperf.configuration? c  nil: none fits so, or it is not known
function stacks.surely(given)
  if given.where or given.minimize or type(given.gpus) == "table" and given.gpus[2] then return nil end
  local question = { top = 1, where = function(c) return c.fit == "fits" end }
  for name, value in pairs(given) do
    if question[name] == nil and name ~= "progress" then question[name] = value end
  end
  local found = require "tperf.question.search".within(question)
  return (found.candidates and found or found[1])[1]
end

return stacks
