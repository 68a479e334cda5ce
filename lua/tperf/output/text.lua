--- Tables as aligned text, with short numbers and units.
local check = require "tperf.base.check"
local columns = require "tperf.output.columns"
local format = require "tperf.output.format"
local terminal = require "tperf.output.terminal"

local text = {}

local GAP <const> = "  "

text.gap = #GAP -- between two columns

local options_schema = {
  color = check.boolean { optional = true },
  ascii = check.boolean { optional = true },
  title = check.string { optional = true },
  empty = check.string { default = "(no rows)" },
}

-- Numbers are aligned right, everything else left.
local function alignment(column, rows)
  if column.align then return column.align end
  local numbers = 0
  for r = 1, #rows do
    local value = column.get(rows[r])
    if type(value) == "number" then numbers = numbers + 1 elseif value ~= nil then return "left" end
  end
  return numbers > 0 and "right" or "left"
end

--- The cells of a table as text, for this writer and those of Markdown and HTML.
---@return table[] columns, string[][] cells, string[] aligns
function text.cells(what, rows, wanted)
  local list = columns.resolve(what, rows, wanted)
  local cells, aligns = {}, {}
  for c, column in ipairs(list) do aligns[c] = alignment(column, rows) end
  for r = 1, #rows do
    cells[r] = {}
    for c, column in ipairs(list) do cells[r][c] = format.cell(column.get(rows[r]), column) end
  end
  return list, cells, aligns
end

--- A cell padded with blanks.
function text.pad(cell, width, align)
  local fill = (" "):rep(width - format.width(cell))
  return align == "right" and fill .. cell or cell .. fill
end

local function line(cells, widths, aligns)
  local padded = {}
  for c, cell in ipairs(cells) do padded[c] = text.pad(cell, widths[c], aligns[c]) end
  return table.concat(padded, GAP):match "^.*%S" or "" -- not gsub "%s+$", which is quadratic in a wide column
end

-- The titles of columns, and how wide each column is with its title and cells.
local function measured(list, cells, rows)
  local titles, widths = {}, {}
  for c, column in ipairs(list) do
    titles[c] = format.printable(column.title)
    widths[c] = format.width(titles[c])
    for r = 1, #rows do widths[c] = math.max(widths[c], format.width(cells[r][c])) end
  end
  return titles, widths
end

--- The width of each column of a table in terminal cells.
---@param rows table[]
---@param wanted (string|tperf.Column)[]
---@return integer[]
function text.widths(rows, wanted)
  local list, cells = text.cells("report.text", rows, wanted)
  return (select(2, measured(list, cells, rows)))
end

--- Rows as an aligned table with a rule under the headings.
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@param options? table
---  title  a line above
---  color  bold headings; off by default (report.print turns it on for terminals)
---  ascii  no "─"
---  empty  printed instead of a table without rows
---@return string
function text.table(rows, wanted, options)
  local o = check.record("report.text", options or {}, options_schema)
  columns.check_rows("report.text", rows)
  if #rows == 0 and not wanted then return (o.title and o.title .. "\n\n" or "") .. o.empty .. "\n" end
  local list, cells, aligns = text.cells("report.text", rows, wanted)
  local titles, widths = measured(list, cells, rows)
  local rules = {}
  for c, width in ipairs(widths) do rules[c] = (o.ascii and "-" or "─"):rep(width) end
  local lines = {}
  if o.title then lines[1], lines[2] = terminal.bold(format.printable(o.title), o.color), "" end
  lines[#lines + 1] = terminal.bold(line(titles, widths, aligns), o.color)
  lines[#lines + 1] = terminal.dim(table.concat(rules, GAP), o.color)
  for r = 1, #rows do lines[#lines + 1] = line(cells[r], widths, aligns) end
  if #rows == 0 then lines[#lines + 1] = o.empty end
  return table.concat(lines, "\n") .. "\n"
end

return text
