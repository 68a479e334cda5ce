--- Lists of a sweep's points, and their combinations: plain data, from which any process makes the points that it
-- needs. A list is a plain list of points, { path = value … } each; or of arguments that vary together, { n, columns =
-- { path = values } }; or a part of one, { n, from, columns } or { n, from, part }: it begins after the list's first
-- `from` points, and goes on with the list's first after its last.
local check = require "tperf.base.check"

local lists = {}

local made_of = setmetatable({}, { __mode = "k" }) -- points of lists.combinations -> their lists

local function count_of(list) return list.n or #list end

--- The paths that a list varies.
---@param list table
---@return string[]  sorted
function lists.paths(list)
  if list.columns then return check.names(list.columns) end
  local seen = {}
  for _, point in ipairs(list) do
    for path in pairs(point) do seen[path] = true end
  end
  return check.names(seen)
end

--- The values of a path in a list, some of which may be nil, and their number.
---@param list table
---@param path string
---@return any[] values, integer count
function lists.column(list, path)
  if list.columns then return list.columns[path] or {}, count_of(list) end
  local values = {}
  for i, point in ipairs(list) do values[i] = point[path] end
  return values, #list
end

-- The i-th point of the combinations.
local function combine(all, i)
  local point, left = {}, i - 1
  for k = #all, 1, -1 do
    local list = all[k]
    local n, columns = count_of(list), list.columns
    local at = (left - (list.from or 0)) % n + 1
    if columns then
      for path, values in next, columns do point[path] = values[at] end
    else
      for path, value in next, (list.part or list)[at] do point[path] = value end
    end
    left = left // n
  end
  return point
end

--- All combinations of lists; the first list varies slowest. Each point is made when it is indexed.
---@param all table[]
---@return table[] points
function lists.combinations(all)
  local count = 1
  for _, list in ipairs(all) do count = count * count_of(list) end
  local function at(_, i)
    if math.type(i) == "integer" and i >= 1 and i <= count then return combine(all, i) end
  end
  local points = setmetatable({}, { __len = function() return count end, __index = at })
  made_of[points] = all
  return points
end

--- The lists that lists.combinations combined into `points`; nil for other points.
---@param points table[]
---@return table[]?
function lists.of(points) return made_of[points] end

-- `count` values of a list of n, after the first `from`; its first one follows its last.
local function slice(values, n, from, count)
  local before = math.min(count, n - from)
  local part = table.move(values, from + 1, from + before, 1, {})
  return table.move(values, 1, count - before, before + 1, part)
end

--- The parts of the lists that consecutive combinations need.
---@param points table[]   of lists.combinations
---@param first integer
---@param last integer
---@param longest integer  lists up to this length are left out
---@return table<integer, table> parts  by the number of the list
function lists.parts(points, first, last, longest)
  local parts, step, all = {}, 1, made_of[points]
  for k = #all, 1, -1 do
    local list = all[k]
    local n = count_of(list)
    local from = (first - 1) // step % n
    local count = math.min(n, (last - 1) // step - (first - 1) // step + 1)
    if n > longest then
      local part = { n = n, from = from }
      if list.columns then
        part.columns = {}
        for path, values in pairs(list.columns) do part.columns[path] = slice(values, n, from, count) end
      else
        part.part = slice(list, n, from, count)
      end
      parts[k] = part
    end
    step = step * n
  end
  return parts
end

return lists
