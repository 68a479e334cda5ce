--- Reports: tables from plain rows, and whole documents of text, tables and figures.
local check = require "tperf.base.check"
local lazy = require "tperf.base.lazy"
local html = lazy.module "tperf.output.html"
local terminal = require "tperf.output.terminal"
local text = require "tperf.output.text"

local stdout = io.output -- scripts may be denied io, but reports still print to standard output

local report = lazy.from({ text = text.table }, {
  csv = "tperf.output.csv",
  json = "tperf.output.json rows",
  latex = "tperf.output.latex table",
  launch = "tperf.export.launch text",
  markdown = "tperf.output.markdown table",
  new = "tperf.output.document",
  configurations = "tperf.report.cut columns",
  layout = "tperf.report.cut sizes",
  placement = "tperf.report.cut placement",
  software = "tperf.report.cut software",
  save = "tperf.output.save rows",
  present = "tperf.output.save present",
  query = "tperf.report.query",
  groups = "tperf.output.shape groups",
  pivot = "tperf.output.shape pivot",
  short = "tperf.output.shape short",
})

local HTML <const> = { title = check.string { default = "tperf" } }

--- Rows as one self-contained HTML page.
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@param options? table
---  title  of the page ("tperf")
---@return string
function report.html(rows, wanted, options)
  local o = check.record("report.html", options or {}, HTML)
  return html.page(o.title, html.table(rows, wanted))
end

--- Prints rows as a table, in colour if standard output is a terminal and NO_COLOR is not set.
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@param options? table  as for report.text
function report.print(rows, wanted, options)
  stdout():write(text.table(rows, wanted, terminal.options(options)))
end

return report
