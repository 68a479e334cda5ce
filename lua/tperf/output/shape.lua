--- Rearranges rows for tables and plots: groups and pivots.
local check = require "tperf.base.check"
local columns = require "tperf.output.columns"

local shape = {}

local function getter(what, rows, field)
  if type(field) == "function" then return field end
  if type(field) ~= "string" then
    check.fail("%s: a field's name or a function is needed, got %s", what, check.show(field))
  end
  columns.check_present(what, rows, { key = field, get = function(row) return columns.at(row, field) end })
  return function(row) return columns.at(row, field) end
end

--- Groups rows by the values of some fields: { { rows = …, [field] = value … } … }, in the order of their first rows.
---@param rows table[]
---@param ... string  fields
---@return table[]
function shape.groups(rows, ...)
  columns.check_rows("report.groups", rows)
  local fields, gets = { ... }, {}
  for i, field in ipairs(fields) do gets[i] = getter("report.groups", rows, field) end
  local list, by_key = {}, {}
  for _, row in ipairs(rows) do
    local values = {}
    for i in ipairs(fields) do values[i] = tostring((gets[i](row))) end
    local key = table.concat(values, "\0")
    local group = by_key[key]
    if not group then
      group = { rows = {} }
      for i, field in ipairs(fields) do group[field] = gets[i](row) end
      by_key[key], list[#list + 1] = group, group
    end
    table.insert(group.rows, row)
  end
  return list
end

--- A pivot table: one row for each value of `down`, one column for each value of `across`.
---@param rows table[]
---@param down string|fun(row: table): any
---@param across string|fun(row: table): any
---@param value string|fun(row: table): any
---@param column? table  unit, digits and format of the new columns
---@return table[] rows, tperf.Column[] columns
function shape.pivot(rows, down, across, value, column)
  local what = "report.pivot"
  columns.check_rows(what, rows)
  local at, name_of, value_of = getter(what, rows, down), getter(what, rows, across), getter(what, rows, value)
  local title = type(down) == "string" and down or ""
  local lines, by_key, list, seen = {}, {}, { { key = title, title = title } }, {}
  for _, row in ipairs(rows) do
    local key, name = at(row), tostring((name_of(row)))
    if key == nil or key ~= key then check.fail("%s: a row has no value to go down by", what) end
    if not by_key[key] then
      by_key[key] = { [title] = key }
      lines[#lines + 1] = by_key[key]
    end
    if not seen[name] then
      seen[name] = true
      list[#list + 1] = { key = function(line) return line[name] end, title = name }
      for field, given in pairs(column or {}) do list[#list][field] = given end
    end
    if by_key[key][name] ~= nil then check.fail("%s: two rows are both at %s, %s", what, tostring(key), name) end
    by_key[key][name] = value_of(row)
  end
  return lines, list
end

--- The last part of a name: "A100" of "subramanian2024/A100", "B200" of "my/B200.yaml".
---@param name string
---@return string
function shape.short(name)
  return (tostring(name):gsub("%.%w+$", ""):gsub("^.*/", ""))
end

return shape
