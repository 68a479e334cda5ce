--- How commands print tables: text, or what --json and --csv ask for.
local at = require "tperf.report.columns".at
local report = require "tperf.report"

local function present(rows, column)
  for _, row in ipairs(rows) do
    if at(row, column.key) ~= nil then return true end
  end
  return #rows == 0
end

--- Prints rows. Columns that no row has are left out; JSON carries every field of the rows.
---@param values table   the command's options (see options.formats)
---@param rows table[]
---@param columns tperf.Column[]
return function(values, rows, columns)
  if values.json then return io.stdout:write(report.json(rows)) end
  local wanted = {}
  for _, column in ipairs(columns) do
    if present(rows, column) then wanted[#wanted + 1] = column end
  end
  if values.csv then return io.stdout:write(report.csv(rows, wanted)) end
  report.print(rows, wanted)
end
