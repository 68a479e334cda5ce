--- The inputs of tperf.calibrate: tables of measurements (CSV), and logs of nccl-tests as printed.
local check = require "tperf.base.check"
local curves = require "tperf.measured.calibrate.curves"
local lists = require "tperf.base.lists"
local measured = require "tperf.measured"

local sources = {}

--- The cases in a file, the name of the reader that predicts them, and the number of rows left out, by reason.
---@param path string
---@param accept function  case -> true, or false and a reason; for tables
function sources.open(path, accept)
  local rows, reader, is_log = measured.open(path)
  if not lists.has(curves.kinds(), reader.name) then
    check.fail("tperf.calibrate: %s has measurements of '%s', to which no curve is fitted; it takes: %s", path,
      reader.name, table.concat(curves.kinds(), ", "))
  end
  local cases, left = {}, {}
  for _, row in ipairs(rows) do
    local case, reason = reader.case(row)
    local taken = case and is_log
    if case and not is_log then taken, reason = accept(case) end
    if taken then
      cases[#cases + 1] = case
    else
      left[reason] = (left[reason] or 0) + 1
    end
  end
  return cases, reader.name, left
end

return sources
