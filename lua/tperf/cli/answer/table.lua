--- Prints a command's table: as text, or as --json or --csv.
local data_files = require "tperf.cli.answer.data_files"
local fitted = require "tperf.cli.answer.fitted"
local options = require "tperf.input.options"
local report = require "tperf.report"
local shown = require "tperf.cli.answer.shown"
local subject = require "tperf.cli.answer.subject"
local tell_calibration = require "tperf.cli.answer.calibration"
local say = require "tperf.output.terminal".say

--- Prints rows. Columns that no row has are left out, and in text also those in which every row has the `usual` value
--- and those that exceed 80 columns (see cli/answer/fitted.lua); JSON has every field of the rows.
---@param values table   the command's options (see options.formats)
---@param rows table[]
---@param columns tperf.Column[]  with usual, wide and wrap, and csv: only --csv prints it
return function(values, rows, columns)
  local about = (values.json or values.csv) and subject.into(values, rows) or {}
  if values.json then
    data_files.understood(rows, values.understood)
    return io.stdout:write(report.json(data_files.name(rows)))
  end
  local wanted = shown.columns(rows, options.join(columns, about), values.csv, values.wide)
  if values.csv then return io.stdout:write(report.csv(rows, fitted.plain(wanted))) end
  local left_out = fitted.print(values, rows, wanted)
  if left_out[1] then say(("(--wide also shows %s)"):format(table.concat(left_out, ", "))) end
  tell_calibration(values, rows[1])
end
