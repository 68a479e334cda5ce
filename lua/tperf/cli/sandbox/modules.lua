--- The modules that scripts can require: the documented ones, as copies. Functions are the library's own, tables are
-- copied, so nothing a script does to them reaches the library.
local closed = require "tperf.base.closed"
local lazy = require "tperf.base.lazy"

local modules = {}

local DOCUMENTED = { tperf = true, ["tperf.compat.llm_analysis"] = true }

-- A copy of a library table, whose fields wait where the library's do; `views` maps tables to copies made so far.
-- Objects are not copied.
local function view_of(value, views)
  if type(value) ~= "table" then return value end
  if views[value] then return views[value] end
  local meta = getmetatable(value)
  if meta and not (meta.__call or meta.closed) then return value end
  local view = {}
  views[value] = view
  for name, member in next, value do view[name] = view_of(member, views) end
  for name in next, lazy.waiting(value, {}) do
    lazy.add(view, { [name] = true }, function() return { [name] = view_of(value[name], views) } end)
  end
  if not meta then return view end
  local own = { __metatable = false, __call = meta.__call and function(_, ...) return value(...) end }
  return meta.closed and closed(meta.closed, view, own) or setmetatable(view, own)
end

--- Returns a function from a name to a module: the documented ones, and the fields of tperf as "tperf.FIELD"; nil for
--- any other name.
---@return fun(name: string): any
function modules.finder()
  local views = {}
  return function(name)
    if DOCUMENTED[name] then return view_of(require(name), views) end
    local field = name:match "^tperf%.([%w_]+)$"
    local tperf = require "tperf"
    local value = field and (rawget(tperf, field) ~= nil or lazy.waiting(tperf, {})[field])
      and view_of(tperf, views)[field]
    return type(value) == "table" and value or nil
  end
end

return modules
