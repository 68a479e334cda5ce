--- What scripts see of the library: the documented modules, each as a copy. Functions are the library's own, tables are
-- not, so that nothing a script does to them reaches the library.
local closed = require "tperf.base.closed"

local modules = {}

local DOCUMENTED = { tperf = true, ["tperf.compat.llm_analysis"] = true }

-- A table of the library as scripts see it; `views` has those that are made already. Objects stay what they are.
local function view_of(value, views)
  if type(value) ~= "table" then return value end
  if views[value] then return views[value] end
  local meta = getmetatable(value)
  if meta and not (meta.__call or meta.closed) then return value end
  local view = {}
  views[value] = view
  for name, member in next, value do view[name] = view_of(member, views) end
  if not meta then return view end
  local own = { __metatable = false, __call = meta.__call and function(_, ...) return value(...) end }
  return meta.closed and closed(meta.closed, view, own) or setmetatable(view, own)
end

--- A function that gives a module by its name: the documented ones, and those that are fields of tperf as
--- "tperf.FIELD"; nil for any other.
---@return fun(name: string): any
function modules.finder()
  local views = {}
  return function(name)
    if DOCUMENTED[name] then return view_of(require(name), views) end
    local field = name:match "^tperf%.([%w_]+)$"
    local value = field and rawget(view_of(require "tperf", views), field)
    return type(value) == "table" and value or nil
  end
end

return modules
