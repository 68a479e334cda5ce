--- Tables that scripts may read and must not change: what was made of them would no longer fit.
local check = require "tperf.base.check"
local resource = require "tperf.core".resource

local snapshot, unchanged = resource.snapshot, resource.unchanged

local sealed = {}

-- table -> { what =, remedy =, and once scripts have seen it: content = a snapshot, fields = of fields_in }
local known = setmetatable({}, { __mode = "k" })

-- The fields of a table and of the tables in it: table -> a copy of its fields.
local function fields_in(table, found)
  if found[table] then return found end
  local fields = {}
  found[table] = fields
  for name, value in next, table do
    fields[name] = value
    if type(value) == "table" then fields_in(value, found) end
  end
  return found
end

-- Whether tables have the fields that they had, in any order: a field that was removed and put back may have moved.
local function restored(found)
  for table, fields in next, found do
    for name, value in next, fields do
      if not rawequal(rawget(table, name), value) then return false end
    end
    for name in next, table do
      if fields[name] == nil then return false end
    end
  end
  return true
end

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
  if not one.content then one.content, one.fields = snapshot(table), fields_in(table, {}) end
  return table
end

--- Raises if somebody has changed a table that was kept. Returns its argument, whatever that is.
---@param table any
---@return any table
function sealed.check(table)
  local one = table ~= nil and known[table]
  if one and one.content and not unchanged(one.content, table) then
    if not restored(one.fields) then
      check.fail("%s was changed in place after it was defined; undo that, and %s", one.what, one.remedy)
    end
    one.content = snapshot(table)
  end
  return table
end

return sealed
