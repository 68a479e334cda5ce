--- Copies of models with a few fields changed, made once each, so that cached results of a copy (its parameters, its
--- layouts) are found again when a question repeats the change.
local same = require "tperf.core".resource.same

local last = setmetatable({}, { __mode = "k" }) -- model -> { the changes, the copy }

local function copy_of(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, one in next, value do copy[key] = copy_of(one) end
  return copy
end

--- Returns m:with(changes), from the cache if the changes are the same as last time.
---@param m table        a model
---@param changes table
return function(m, changes)
  local known = last[m]
  if known and same(known[1], changes) then return known[2] end
  local made = m:with(changes)
  last[m] = { copy_of(changes), made }
  return made
end
