--- Tables in 80 columns: the least important columns are left out, or the last one wrapped, unless --wide is given.
local format = require "tperf.output.format"
local report = require "tperf.report"
local tables = require "tperf.output.text"
local terminal = require "tperf.output.terminal"
local wrap = require "tperf.base.lazy".module "tperf.base.wrap"

local fitted = {}

local WIDTH <const> = 80

local OF_TABLES <const> = { usual = true, csv = true, wide = true, wrap = true } -- keys unknown to reports

--- The columns without the keys that reports do not know.
---@return tperf.Column[]
function fitted.plain(columns)
  local list = {}
  for i, column in ipairs(columns) do
    list[i] = {}
    for name, value in pairs(column) do
      if not OF_TABLES[name] then list[i][name] = value end
    end
  end
  return list
end

-- The highest `wide` of the columns; nil if none has any.
local function widest_of(columns)
  local widest
  for _, column in ipairs(columns) do
    if column.wide and (not widest or column.wide > widest) then widest = column.wide end
  end
  return widest
end

-- Leaves out the columns with this `wide`, and adds their titles to a list.
local function leave_out(columns, draft, widest, titles)
  for i = #columns, 1, -1 do
    if columns[i].wide == widest then
      local column = table.remove(columns, i)
      tables.leave_out(draft, i)
      table.insert(titles, #titles + 1, column.title or column.key)
    end
  end
end

local function copy_with(row, key, value)
  local copy = {}
  for name, own in pairs(row) do copy[name] = own end
  copy[key] = value
  return copy
end

local LEAST_WRAPPED <const> = 20 -- characters: narrower is unreadable

-- The rows of a table of this width with the last column's text wrapped onto further rows, if the table then fits.
local function wrapped(rows, columns, width)
  local last = columns[#columns]
  if not last.wrap then return rows end
  local widest = 0
  for _, row in ipairs(rows) do widest = math.max(widest, format.width(tostring(row[last.key] or ""))) end
  local most = math.max(widest - (width - WIDTH), LEAST_WRAPPED)
  local list = {}
  for _, row in ipairs(rows) do
    for i, line in ipairs(wrap(tostring(row[last.key] or ""), most)) do
      list[#list + 1] = i == 1 and copy_with(row, last.key, line) or { [last.key] = line }
    end
  end
  return list
end

--- Prints a table.
---@param values table     the command's options: wide
---@param rows table[]
---@param columns tperf.Column[]  with wide: the highest is left out first, equal ones together; the last with wrap: may
---  be wrapped
---@return string[] left_out  the titles of the columns left out
function fitted.print(values, rows, columns)
  local left_out, draft = {}, tables.draft(rows, fitted.plain(columns))
  columns = table.move(columns, 1, #columns, 1, {})
  while not values.wide and tables.width(draft) > WIDTH do
    local widest = widest_of(columns)
    if not widest then
      report.print(wrapped(rows, columns, tables.width(draft)), fitted.plain(columns))
      return left_out
    end
    leave_out(columns, draft, widest, left_out)
  end
  io.output():write(tables.write(draft, terminal.options()))
  return left_out
end

return fitted
