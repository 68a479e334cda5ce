--- The inputs of tperf.calibrate: tables of measurements (CSV), and logs of nccl-tests as printed.
local measured = require "tperf.measured"
local nccl_tests = require "tperf.import.nccl_tests"
local text_file = require "tperf.input.text"

local sources = {}

-- A log's measurements as the cases of tperf.measured.kernel.collective.
local function cases_of_log(text, path)
  local cases = {}
  for i, row in ipairs(nccl_tests.parse(text, path)) do
    cases[i] = {
      gpu = "", kind = row.kind, gpus = row.gpus, nodes = row.nodes, bytes = row.bytes, measured = row.seconds,
      inter = "", intra = "", source = path, label = ("%s %d GPUs %d B"):format(row.kind, row.gpus, row.bytes),
    }
  end
  return cases
end

--- The cases in a file, the name of the reader that predicts them, and the number of rows left out, by reason.
---@param path string
---@param accept function  case -> true, or false and a reason; for tables
function sources.open(path, accept)
  local text = text_file.read(path)
  if text:find "^#" or text:find "\n#%s+out%-of%-place" or text:find "\n#%s+size%s+count" then
    return cases_of_log(text, path), "collective", {}
  end
  local rows, reader = measured.open(path)
  local cases, left = {}, {}
  for _, row in ipairs(rows) do
    local case, reason = reader.case(row)
    local taken
    if case then taken, reason = accept(case) end
    if taken then
      cases[#cases + 1] = case
    else
      left[reason] = (left[reason] or 0) + 1
    end
  end
  return cases, reader.name, left
end

return sources
