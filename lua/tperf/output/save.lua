--- Saves rows to a file in the format of its extension.
local check = require "tperf.base.check"
local columns = require "tperf.output.columns"
local html = require "tperf.output.html"
local output = require "tperf.output.file"
local text = require "tperf.output.text"

local writers = {
  csv = require "tperf.output.csv",
  json = require "tperf.output.json".rows,
  md = require "tperf.output.markdown".table,
  tex = require "tperf.output.latex".table,
  txt = text.table,
  html = function(rows, wanted) return html.page("tperf", html.table(rows, wanted)) end,
}

local save = {}

--- Writes rows into a file: .csv, .json, .md, .tex, .txt or .html.
---@param path string
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
function save.rows(path, rows, wanted)
  local ending = type(path) == "string" and path:match "%.(%w+)$"
  local writer = ending and writers[ending:lower()]
  if not writer then
    check.fail("report.save: %s must be a name that ends in .csv, .json, .md, .tex, .txt or .html", check.show(path))
  end
  output.write(path, writer(rows, wanted))
end

--- The columns in which at least one row has a value.
---@param rows table[]
---@param wanted (string|tperf.Column)[]
---@return (string|tperf.Column)[]
function save.present(rows, wanted)
  columns.check_rows("report.present", rows)
  local list = {}
  for _, column in ipairs(columns.check_wanted("report.present", wanted)) do
    local key = type(column) == "table" and column.key or column
    local present = false
    for _, row in ipairs(rows) do
      local value
      if type(key) == "function" then value = key(row) else value = columns.at(row, key) end
      present = present or value ~= nil
    end
    if present then list[#list + 1] = column end
  end
  return list
end

return save
