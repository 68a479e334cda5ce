--- How commands print tables: text, or what --json and --csv ask for.
local at = require "tperf.report.columns".at
local report = require "tperf.report"
local tell_calibration = require "tperf.cli.calibration"

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

local function plain(column)
  local copy = {}
  for name, value in pairs(column) do copy[name] = value end
  copy.usual, copy.csv = nil, nil
  return copy
end

--- Prints rows. Columns that no row has are left out, for people also those where every row has the `usual` value; JSON
--- carries every field of the rows.
---@param values table   the command's options (see options.formats)
---@param rows table[]
---@param columns tperf.Column[]  with usual, and csv: only --csv prints it
return function(values, rows, columns)
  if values.json then return io.stdout:write(report.json(rows)) end
  local wanted = {}
  for _, column in ipairs(columns) do
    local some, unusual = present(rows, column)
    if some and (values.csv or unusual and not column.csv) then wanted[#wanted + 1] = plain(column) end
  end
  if values.csv then return io.stdout:write(report.csv(rows, wanted)) end
  report.print(rows, wanted)
  tell_calibration(values)
end
