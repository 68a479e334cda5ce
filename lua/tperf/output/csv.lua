--- CSV (RFC 4180, except that lines end in LF, as files in git do; newline = "\r\n" follows the RFC).
local check = require "tperf.base.check"
local columns = require "tperf.output.columns"
local number = require "tperf.output.number"

local options_schema = {
  newline = check.choice { { "\n", "\r\n" }, default = "\n" },
  header = check.boolean { default = true },
}

local function field(value, column, row)
  if value == nil then return "" end
  local kind = type(value)
  if kind == "number" then return number.text(value) end
  if kind == "boolean" then return tostring(value) end
  if kind ~= "string" then
    check.fail("report.csv: row %d: column '%s' holds %s: name one of its fields, as in '%s.field'", row, column.name,
      check.show(value), column.name)
  end
  -- An empty string is quoted to tell it from nil.
  if value == "" or value:find "[\",\r\n]" or value:find "^%s" or value:find "%s$" then
    return '"' .. value:gsub('"', '""') .. '"'
  end
  return value
end

--- Rows as CSV. The heading is the column's key, or its title if the key is a function. Numbers are in SI units, with
--- enough digits to read back unchanged; nil is an empty field. Without columns, every field that is no list is one,
--- those of records within rows by their paths ("memory.total").
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@param options? table
---  newline  "\n" (default) or "\r\n"
---  header   false: no line of headings
---@return string
return function(rows, wanted, options)
  local list = columns.resolve("report.csv", rows, wanted, true)
  local o = check.record("report.csv", options or {}, options_schema)
  local lines, cells = {}, {}
  if o.header then
    for i, column in ipairs(list) do cells[i] = field(column.name, column, 0) end
    lines[1] = table.concat(cells, ",")
  end
  for r = 1, #rows do
    for i, column in ipairs(list) do cells[i] = field(column.get(rows[r]), column, r) end
    lines[#lines + 1] = table.concat(cells, ",")
  end
  lines[#lines + 1] = ""
  return table.concat(lines, o.newline)
end
