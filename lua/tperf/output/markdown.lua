--- Tables as GitHub-flavoured Markdown.
local columns = require "tperf.output.columns"
local format = require "tperf.output.format"
local text = require "tperf.output.text"

local markdown = {}

--- Text with everything Markdown or HTML would take as markup escaped.
---@param plain string
---@return string
function markdown.escape(plain)
  return (plain:gsub("[\\`*_%[%]<>|~#$]", "\\%0"):gsub("&", "&amp;"))
end

local function line(cells)
  return "| " .. table.concat(cells, " | ") .. " |"
end

--- Rows as a Markdown table; its source is aligned too.
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@return string
function markdown.table(rows, wanted)
  columns.check_rows("report.markdown", rows)
  if #rows == 0 and not wanted then return "*(no rows)*\n" end
  local list, cells, aligns = text.cells("report.markdown", rows, wanted)
  local head, rule, widths = {}, {}, {}
  for c, column in ipairs(list) do
    head[c] = markdown.escape(format.printable(column.title))
    widths[c] = math.max(3, format.width(head[c]))
    for r = 1, #rows do
      cells[r][c] = markdown.escape(cells[r][c])
      widths[c] = math.max(widths[c], format.width(cells[r][c]))
    end
    rule[c] = aligns[c] == "right" and ("-"):rep(widths[c] - 1) .. ":" or ("-"):rep(widths[c])
  end
  local function padded(row)
    local out = {}
    for c, cell in ipairs(row) do out[c] = text.pad(cell, widths[c], aligns[c]) end
    return out
  end
  local lines = { line(padded(head)), line(rule) }
  for r = 1, #rows do lines[r + 2] = line(padded(cells[r])) end
  return table.concat(lines, "\n") .. "\n"
end

return markdown
