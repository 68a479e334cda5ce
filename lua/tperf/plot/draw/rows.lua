--- Reads rows for plots: checked numbers, gaps for missing values, series in a stable order.
local check = require "tperf.base.check"
local columns = require "tperf.output.columns"
local units = require "tperf.base.units"

local rows = {}

-- A field of a plot: its name, a path to it, a function of the row, or a column record with a title.
local column_schema = {
  key = check.one_of(check.string {}, check.func {}),
  title = check.string { optional = true },
  unit = check.string { optional = true },
}
rows.field = check.one_of(check.string {}, check.func {}, check.record_of(column_schema))
rows.optional_field = check.one_of(check.string { optional = true }, check.func {}, check.record_of(column_schema))

-- The unit of a column whose strings are all quantities of that unit ("40 GB") and whose other values are numbers;
-- else nil.
local function unit_of_texts(column, given)
  local unit
  for _, row in ipairs(given) do
    local value = column.get(row)
    if type(value) == "string" then
      local _, own = units.read(value)
      if not own or own ~= (unit or own) then return nil end
      unit = own
    elseif value ~= nil and type(value) ~= "number" then
      return nil
    end
  end
  return unit
end

-- Calls a user's function once per row, as a second call may return something else.
local function once(f)
  local values, known = {}, {}
  return function(row)
    if not known[row] then values[row], known[row] = f(row), true end
    return values[row]
  end
end

--- Describes a field: get(row), title, unit, and whether its strings are quantities such as "40 GB", which count as
--- numbers.
---@param what string  prefix of messages
---@param given table[]
---@param field any    as rows.field accepts it
---@param unit? string
---@return table
function rows.column(what, given, field, unit)
  local column = type(field) == "table" and field or { key = field }
  column = { key = column.key, title = column.title, unit = column.unit or unit }
  local key = column.key
  if type(key) == "function" then
    column.get = once(key)
  else
    column.get = function(row) return columns.at(row, key) end
    column.title = column.title or rows.title(key)
    columns.check_present(what, given, column, true)
    column.unit = column.unit or type(given.units) == "table" and given.units[key] or nil
  end
  local of_texts = unit_of_texts(column, given)
  column.quantities = of_texts ~= nil and of_texts == (column.unit or of_texts)
  column.unit = column.unit or of_texts
  return column
end

--- The title of a field: "memory per stage" for "memory.per_stage".
function rows.title(path) return (path:gsub("[_.]", " ")) end

--- Shortens the titles of fields drawn in one figure to their last parts if those differ: "bubble" for
--- "breakdown.bubble".
---@param list table[]  columns
function rows.shorten(list)
  local seen, distinct = {}, #list > 1
  for _, column in ipairs(list) do
    local last = type(column.key) == "string" and column.key:match "[^.]+$"
    distinct = distinct and (not last or not seen[last])
    if last then seen[last] = true end
  end
  for _, column in ipairs(distinct and list or {}) do
    if type(column.key) == "string" and column.title == rows.title(column.key) then
      column.title = rows.title(column.key:match "[^.]+$")
    end
  end
end

--- Raises unless there are rows.
function rows.check(what, given)
  columns.check_rows(what, given)
  if #given == 0 then check.fail("%s has no rows to draw", what) end
end

--- A number of a row, or nil for a gap (nil or NaN). Infinity is refused, and so is zero on a log axis.
---@param what string
---@param column table
---@param given table[]
---@param r integer   the row's number
---@param log? boolean
---@return number?
function rows.number(what, column, given, r, log)
  local value = column.get(given[r])
  local name = column.title and "'" .. column.title .. "'" or "a value"
  if value == nil or value ~= value then return nil end
  if column.quantities and type(value) == "string" then value = units.parse(value, column.unit) end
  if type(value) ~= "number" then
    check.fail("%s: row %d: %s must be a number%s, got %s", what, r, name, type(value) == "string"
      and (" or a quantity" .. (column.unit and " in " .. column.unit or "")) or "", check.show(value))
  end
  if value == math.huge or value == -math.huge then
    check.fail("%s: row %d: %s is infinite; leave the row out, or make it nil for a gap", what, r, name)
  end
  if log and value <= 0 then
    check.fail("%s: row %d: %s is %s, which a log axis cannot show; leave the row out, make it nil for a gap, or use a "
      .. "linear axis", what, r, name, check.show(value))
  end
  return value + 0.0
end

--- The name in a row, as text.
function rows.name(what, column, given, r)
  local value = column.get(given[r])
  if value == nil then check.fail("%s: row %d has no %s", what, r, column.title or "name") end
  local kind = type(value)
  if kind ~= "string" and kind ~= "boolean" and (kind ~= "number" or value - value ~= 0) then
    check.fail("%s: row %d: '%s' must be a name or a number, got %s", what, r, column.title or "name",
      check.show(value))
  end
  if math.type(value) == "float" and value == math.floor(value) and math.abs(value) < 1e15 then
    value = string.format("%.0f", value)
  end
  return tostring(value)
end

--- The low and the high end of a row's interval, or nil if either is missing.
---@param what string
---@param low table?   columns
---@param high table?
---@param given table[]
---@param r integer
---@param log? boolean
---@return number? low, number? high
function rows.interval(what, low, high, given, r, log)
  if not low then return nil end
  local from, to = rows.number(what, low, given, r, log), rows.number(what, high, given, r, log)
  if not from or not to then return nil end
  if from > to then
    check.fail("%s: row %d: '%s' is %s, above '%s', %s", what, r, low.title or "low", check.show(from),
      high.title or "high", check.show(to))
  end
  return from, to
end

--- Groups rows by the value of a field, in order of first appearance, or as given.series_order (plot.facets).
---@return { name: string, rows: integer[] }[]
function rows.groups(what, given, column)
  if not column then
    local all = {}
    for r = 1, #given do all[r] = r end
    return { { rows = all } }
  end
  local list, by_name = {}, {}
  for _, name in ipairs(given.series_order or {}) do
    local group = { name = name, rows = {} }
    by_name[name], list[#list + 1] = group, group
  end
  for r = 1, #given do
    local name = rows.name(what, column, given, r)
    local group = by_name[name]
    if not group then
      group = { name = name, rows = {} }
      by_name[name], list[#list + 1] = group, group
    end
    group.rows[#group.rows + 1] = r
  end
  return list
end

--- The smallest and the largest of numbers; nil if there are none.
---@return number? lo, number? hi
function rows.range(values, lo, hi)
  for _, value in ipairs(values) do
    lo = lo and math.min(lo, value) or value
    hi = hi and math.max(hi, value) or value
  end
  return lo, hi
end

return rows
