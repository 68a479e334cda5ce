--- Several strategies at once, as searches take them.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local order = require "tperf.describe.strategy.order"
local strategy = require "tperf.describe.strategy"

--- A name, a list of names, or "all", as a list of strategies without repetition.
---@param value any
---@param able "trains"|"serves"|nil  what all of them do ("trains")
---@return table[]
return function(value, able)
  local is_list = type(value) == "table" and value.name == nil
  local list, seen = {}, {}
  if value == "all" or is_list and rawlen(value) == 1 and value[1] == "all" then
    for _, s in ipairs(order) do list[#list + 1] = s[able or "trains"] and strategy.of(s) or nil end
    return list
  end
  if not is_list then return { strategy.of(value) } end
  argument.list("the list of strategies", "strategy", value)
  for i, item in ipairs(value) do
    list[i] = strategy.of(item)
    if seen[list[i]] then check.fail("strategy '%s' is named twice", list[i].name) end
    seen[list[i]] = true
  end
  if #list == 0 then check.fail("'strategy' is an empty list") end
  return list
end
