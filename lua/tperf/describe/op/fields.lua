--- The fields of constructors whose values the core checks.
local check = require "tperf.base.check"

local fields = {}

--- A set of the names in a list, and `name`, which all constructors have.
---@param list string  separated by spaces
---@return table<string, true>
function fields.set(list)
  local set = { name = true }
  for name in list:gmatch "%S+" do set[name] = true end
  return set
end

--- Raises for fields that a constructor does not have.
---@param what string  the constructor
---@param o any        what it was given
---@param names table<string, true>
function fields.check(what, o, names)
  if type(o) ~= "table" then check.fail("%s needs a table of fields, got %s", what, check.show(o)) end
  for key in next, o do
    if not names[key] then
      check.fail("%s: unknown field %s%s; it has %s", what, check.show(key), check.suggest(key, check.names(names)),
        table.concat(check.names(names), ", "))
    end
  end
end

return fields
