--- How commands print tables: text, or what --json and --csv ask for.
local report = require "tperf.report"
local shown = require "tperf.cli.shown"
local tell_calibration = require "tperf.cli.calibration"

--- Prints rows. Columns that no row has are left out, for people also those where every row has the `usual` value; JSON
--- carries every field of the rows.
---@param values table   the command's options (see options.formats)
---@param rows table[]
---@param columns tperf.Column[]  with usual, and csv: only --csv prints it
return function(values, rows, columns)
  if values.json then return io.stdout:write(report.json(rows)) end
  local wanted = shown.columns(rows, columns, values.csv)
  if values.csv then return io.stdout:write(report.csv(rows, wanted)) end
  report.print(rows, wanted)
  tell_calibration(values)
end
