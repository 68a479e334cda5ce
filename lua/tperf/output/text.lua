--- Tables as aligned text, with short numbers and units.
local check = require "tperf.base.check"
local columns = require "tperf.output.columns"
local format = require "tperf.output.format"
local terminal = require "tperf.output.terminal"

local text = {}

local GAP <const> = "  " -- between two columns

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

--- A table before it is written: the texts of its columns, and how wide each is in terminal cells.
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@return table draft
function text.draft(rows, wanted)
  local list, cells, aligns = text.cells("report.text", rows, wanted)
  local draft = { titles = {}, widths = {}, cells = cells, aligns = aligns }
  for c, column in ipairs(list) do
    local title = format.printable(column.title)
    local width = format.width(title)
    for r = 1, #cells do width = math.max(width, format.width(cells[r][c])) end
    draft.titles[c], draft.widths[c] = title, width
  end
  return draft
end

--- The width of the table, in terminal cells.
---@param draft table
---@return integer
function text.width(draft)
  local sum = #GAP * (#draft.widths - 1)
  for _, width in ipairs(draft.widths) do sum = sum + width end
  return sum
end

--- Leaves out the c-th column.
function text.leave_out(draft, c)
  for _, name in ipairs { "titles", "widths", "aligns" } do table.remove(draft[name], c) end
  for _, cells in ipairs(draft.cells) do table.remove(cells, c) end
end

local function write(draft, o)
  local titles, widths, aligns, rules = draft.titles, draft.widths, draft.aligns, {}
  for c, width in ipairs(widths) do rules[c] = (o.ascii and "-" or "─"):rep(width) end
  local lines = {}
  if o.title then lines[1], lines[2] = terminal.bold(format.printable(o.title), o.color), "" end
  lines[#lines + 1] = terminal.bold(line(titles, widths, aligns), o.color)
  lines[#lines + 1] = terminal.dim(table.concat(rules, GAP), o.color)
  for _, cells in ipairs(draft.cells) do lines[#lines + 1] = line(cells, widths, aligns) end
  if #draft.cells == 0 then lines[#lines + 1] = o.empty end
  return table.concat(lines, "\n") .. "\n"
end

--- A draft as text.
---@param draft table
---@param options? table  as for text.table
---@return string
function text.write(draft, options) return write(draft, check.record("report.text", options or {}, options_schema)) end

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
  return write(text.draft(rows, wanted), o)
end

return text
