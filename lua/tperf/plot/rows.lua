--- From rows to what a plot draws: checked numbers, gaps where there are none, series in a stable order.
local check = require "tperf.check"
local columns = require "tperf.report.columns"

local rows = {}

-- What plots take for a field: its name, or the path to it, or a function of the row, or a column record with a title.
local column_schema = {
  key = check.one_of(check.string {}, check.func {}),
  title = check.string { optional = true },
  unit = check.string { optional = true },
}
rows.field = check.one_of(check.string {}, check.func {}, check.record_of(column_schema))
rows.optional_field = check.one_of(check.string { optional = true }, check.func {}, check.record_of(column_schema))

--- A field with what is known of it: get(row), title, unit.
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
    column.get = key
  else
    column.get = function(row) return columns.at(row, key) end
    column.title = column.title or (key:gsub("_", " "))
    columns.check_present(what, given, column)
  end
  return column
end

--- Checks that there are rows at all.
function rows.check(what, given)
  columns.check_rows(what, given)
  if #given == 0 then check.fail("%s has no rows to draw", what) end
end

--- A number of a row, or nil for a gap (nil or NaN). Infinity has no place on paper, nor zero on a log axis.
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
  if type(value) ~= "number" then
    check.fail("%s: row %d: %s must be a number, got %s", what, r, name, check.show(value))
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

--- A name of a row, as text.
function rows.name(what, column, given, r)
  local value = column.get(given[r])
  if value == nil then check.fail("%s: row %d has no %s", what, r, column.title or "name") end
  if type(value) == "table" then
    check.fail("%s: row %d: '%s' must be a name or a number, got a table", what, r, column.title or "name")
  end
  if math.type(value) == "float" and value == math.floor(value) and math.abs(value) < 1e15 then
    value = string.format("%.0f", value)
  end
  return tostring(value)
end

--- Splits rows by the value of a field: groups in the order in which they first appear.
---@return { name: string, rows: integer[] }[]
function rows.groups(what, given, column)
  if not column then
    local all = {}
    for r = 1, #given do all[r] = r end
    return { { rows = all } }
  end
  local list, by_name = {}, {}
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

--- Smallest and largest of numbers, nil when there are none.
---@return number? lo, number? hi
function rows.range(values, lo, hi)
  for _, value in ipairs(values) do
    lo = lo and math.min(lo, value) or value
    hi = hi and math.max(hi, value) or value
  end
  return lo, hi
end

return rows
