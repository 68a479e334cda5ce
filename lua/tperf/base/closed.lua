--- Closed tables: reading a name that they lack is an error, as reading an undeclared global is.
local check = require "tperf.base.check"

--- Closes a table. The error suggests the nearest name.
---@param what string  the table's name: "tperf.plot"
---@param map table<string, any>
---@param meta table?  replaces the table's metatable
---@return table map
return function(what, map, meta)
  meta = meta or getmetatable(map) or {}
  meta.closed = what
  meta.__index = meta.__index or function(_, name)
    if type(name) ~= "string" then return nil end
    check.fail("%s has no '%s'%s", what, name, check.suggest(name, check.names(map)))
  end
  return setmetatable(map, meta)
end
