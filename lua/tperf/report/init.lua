--- Reports: tables from plain rows, and whole documents of text, tables and figures.
local html = require "tperf.output.html"
local json = require "tperf.output.json"
local layout = require "tperf.report.cut"
local markdown = require "tperf.output.markdown"
local save = require "tperf.output.save"
local shape = require "tperf.output.shape"
local terminal = require "tperf.output.terminal"
local text = require "tperf.output.text"

local stdout = io.output -- scripts may be denied io, but reports still print to standard output

local report = {
  text = text.table,
  csv = require "tperf.output.csv",
  json = json.rows,
  launch = require "tperf.export.launch".text,
  markdown = markdown.table,
  new = require "tperf.output.document",
  configurations = layout.columns,
  layout = layout.sizes,
  placement = layout.placement,
  software = layout.software,
  save = save.rows,
  present = save.present,
  query = require "tperf.report.query",
  groups = shape.groups,
  pivot = shape.pivot,
  short = shape.short,
}

--- Rows as one self-contained HTML page.
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@param options? { title: string }
---@return string
function report.html(rows, wanted, options)
  return html.page(options and options.title or "tperf", html.table(rows, wanted))
end

--- Prints rows as a table, in colour if standard output is a terminal and NO_COLOR is not set.
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@param options? table  as for report.text
function report.print(rows, wanted, options)
  local o = {}
  for name, value in pairs(options or {}) do o[name] = value end
  if o.color == nil then o.color = terminal.color() end
  if o.ascii == nil then o.ascii = terminal.ascii() end
  stdout():write(text.table(rows, wanted, o))
end

return report
