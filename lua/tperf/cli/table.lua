--- How commands print tables: text, or what --json and --csv ask for.
local at = require "tperf.report.columns".at
local fitted = require "tperf.cli.fitted"
local report = require "tperf.report"

-- Whether any row has something in that column, and something unusual.
local function present(rows, column)
  local some, unusual = #rows == 0, #rows == 0 or column.usual == nil
  for _, row in ipairs(rows) do
    local value = type(column.key) ~= "function" and at(row, column.key)
    if type(column.key) == "function" then value = column.key(row) end
    some = some or value ~= nil
    unusual = unusual or value ~= nil and value ~= column.usual
  end
  return some, unusual
end

--- Prints rows. Columns that no row has are left out, for people also those where every row has the `usual` value, and
--- those that make it wider than 80 columns (see cli/fitted.lua); JSON carries every field of the rows.
---@param values table   the command's options (see options.formats)
---@param rows table[]
---@param columns tperf.Column[]  with usual, wide and wrap, and csv: only --csv prints it
return function(values, rows, columns)
  if values.json then return io.stdout:write(report.json(rows)) end
  local wanted = {}
  for _, column in ipairs(columns) do
    local some, unusual = present(rows, column)
    local for_people = (unusual or values.wide) and not column.csv
    if some and (values.csv or for_people) then wanted[#wanted + 1] = column end
  end
  if values.csv then return io.stdout:write(report.csv(rows, fitted.plain(wanted))) end
  local left_out = fitted.print(values, rows, wanted)
  if left_out[1] then print(("(--wide also shows %s)"):format(table.concat(left_out, ", "))) end
end
