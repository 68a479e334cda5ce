--- The strategies that a search of deployments tries, each with the arguments as they are for it.
local axes = require "tperf.describe.strategy.axes"
local problem = require "tperf.question.problem"
local refusal = require "tperf.base.refusal"
local several = require "tperf.describe.strategy.several"

-- The arguments for one strategy of several: without options that it lacks; nil: it lacks an axis.
local function arguments_of(s, given)
  local other_axes, other_options = axes.strangers(s)
  local own = {}
  for name, value in next, given do own[name] = value end
  for _, name in ipairs(other_axes) do
    if own[name] ~= nil then return nil end
  end
  for _, name in ipairs(other_options) do own[name] = nil end
  own.strategy = s
  return own
end

--- The strategies that arguments ask for, by default the first that has the axes given; of several, those that have all
--- of these.
---@param what string  the function's name
---@param given any    its arguments
---@return { strategy: table, given: table }[]
return function(what, given)
  local named = type(given) == "table" and given.strategy
  local list = named and several(named, "serves") or { axes.asked(given, true) }
  problem.refuse_axes(what, given, list)
  if not list[2] then return { { strategy = list[1], given = given } } end
  local able, names = {}, {}
  for i, s in ipairs(list) do
    local own = arguments_of(s, given)
    if own then able[#able + 1] = { strategy = s, given = own } end
    names[i] = s.name
  end
  if not able[1] then
    refusal.raise("%s: none of the strategies %s has all the axes that are given", what, table.concat(names, ", "))
  end
  return able
end
