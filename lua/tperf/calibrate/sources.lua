--- What tperf.calibrate reads: tables of measurements (CSV), and logs of nccl-tests as printed.
local check = require "tperf.check"
local measured = require "tperf.measured"
local nccl_tests = require "tperf.import.nccl_tests"

local sources = {}

local function slurp(path)
  local file, message = io.open(path, "rb")
  if not file then check.fail("%s", message) end
  local text = file:read "a"
  file:close()
  return text
end

-- A log's measurements as the cases of tperf.measured.collective.
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

--- The cases in a file, and the name of the reader that predicts them.
---@param path string
---@param accept function  which cases of a table to take
function sources.open(path, accept)
  local text = slurp(path)
  if text:find "^#" or text:find "\n#%s+out%-of%-place" or text:find "\n#%s+size%s+count" then
    return cases_of_log(text, path), "collective"
  end
  local rows, reader = measured.open(path)
  local cases = {}
  for _, row in ipairs(rows) do
    local case = reader.case(row)
    if case and accept(case) then cases[#cases + 1] = case end
  end
  return cases, reader.name
end

return sources
