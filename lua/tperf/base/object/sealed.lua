--- Tables that scripts may read and must not change: what was made of them would no longer fit.
local check = require "tperf.base.check"
local resource = require "tperf.core".resource

local snapshot, unchanged = resource.snapshot, resource.unchanged

local sealed = {}

local known = setmetatable({}, { __mode = "k" }) -- table -> { what =, remedy =, content = once scripts have seen it }

--- Notes a table.
---@param table table
---@param what string    its name in messages: "strategy 'tensor'"
---@param remedy string  what to do in place of changing it
---@return table table
function sealed.keep(table, what, remedy)
  known[table] = { what = what, remedy = remedy }
  return table
end

--- Notes what a table holds that a script, or a function of one, is about to get.
---@param table table  of sealed.keep
---@return table table
function sealed.show(table)
  local one = known[table]
  one.content = one.content or snapshot(table)
  return table
end

--- Raises if somebody has changed a table that was kept. Returns its argument, whatever that is.
---@param table any
---@return any table
function sealed.check(table)
  local one = table ~= nil and known[table]
  if one and one.content and not unchanged(one.content, table) then
    check.fail("%s was changed in place after it was defined; undo that, and %s", one.what, one.remedy)
  end
  return table
end

return sealed
