--- The inputs of tperf.calibrate: tables of measurements (CSV), logs of nccl-tests as printed, and networks of other
--- tools.
local check = require "tperf.base.check"
local curves = require "tperf.measured.calibrate.curves"
local lists = require "tperf.base.lists"
local measured = require "tperf.measured"
local nccl_tests = require "tperf.import.nccl_tests"
local network = require "tperf.import.network"
local text_file = require "tperf.input.text"

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

--- The network that a file describes, as tperf.import.network reads it; nil if it holds measurements.
---@param path string
---@return table?
function sources.network(path)
  local text = not path:find "%.csv$" and text_file.read(path)
  return text and not nccl_tests.recognise(text) and network.parse(text, path) or nil
end

return sources
