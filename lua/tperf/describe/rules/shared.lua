--- tperf.rules for the library's own questions, which ask for the same names often: caches one set per name.
local rules = require "tperf.describe.rules"
local core = require "tperf.core"

local snapshot, unchanged = core.resource.snapshot, core.resource.unchanged
local shared, pristine = {}, {} -- name -> set; name -> snapshot of it
local unseen = {} -- name -> set

---@param value string|table|nil  as for tperf.rules
---@param hidden boolean?  no script, and no function of one, gets to see the set of a name: nothing can change it
---@return table set
return function(value, hidden)
  value = value == nil and "default" or value
  if hidden and type(value) == "string" then
    unseen[value] = rules.of(unseen[value] or value)
    return unseen[value]
  end
  local set = type(value) == "string" and shared[value]
  if set and unchanged(pristine[value], set) then return rules.of(set) end
  set = rules.of(value)
  if type(value) == "string" then shared[value], pristine[value] = set, snapshot(set) end
  return set
end
