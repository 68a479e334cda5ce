--- Closed tables: reading a name that they lack is an error, as reading an undeclared global is.
local check = require "tperf.base.check"
local lazy = require "tperf.base.lazy"

-- The names that a table has, those that wait to be found among them.
local function names_in(map)
  local names = lazy.waiting(map, {})
  for name in next, map do names[name] = true end
  return check.names(names)
end

--- Closes a table. The error suggests the nearest name. Fields may wait (base/lazy.lua).
---@param what string  the table's name: "tperf.plot"
---@param map table<string, any>
---@param meta table?  replaces the table's metatable
---@return table map
return function(what, map, meta)
  local own = getmetatable(map)
  meta = meta or own ~= lazy.reader and own or {}
  meta.closed = what
  if meta.__index then return setmetatable(map, meta) end
  for event, how in next, lazy.reader do meta[event] = meta[event] or how end
  meta[lazy.SETTLE] = lazy.settle
  function meta.__index(_, name)
    local value = lazy.reader.__index(map, name)
    if value ~= nil or type(name) ~= "string" then return value end
    check.fail("%s has no '%s'%s", what, name, check.suggest(name, names_in(map)))
  end
  return setmetatable(map, meta)
end
