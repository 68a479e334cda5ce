--- Tables of functions that refuse names they lack, as scripts' undeclared globals are refused.
local check = require "tperf.base.check"

--- Makes the table refuse names that it lacks, with the nearest that it has.
---@param what string  its own name: "tperf.plot"
---@param map table<string, any>
---@param meta table?  a metatable for it, in place of its own
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
