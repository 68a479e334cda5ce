--- Timed kernels that only read and write: columns op, gpu, m, k, elements, bytes_min, time_s (seconds).
local read = require "tperf.measured.read"

local memory = { name = "memory", columns = { "op", "elements", "bytes_min", "time_s" } }

-- Bytes per element of each kernel of an op: 16-bit numbers are quantised to 8 bits, possibly after finding the
-- maximum.
local KERNELS = { scale_matrix = { 3 }, dynamic_quantize = { 2, 0, 3 } }
local NAMES = { scale_matrix = "quantisation, scale given", dynamic_quantize = "quantisation, scale sought" }

--- A case, or nil and why the row is left out.
function memory.case(row)
  local kernels = KERNELS[row.op]
  if not kernels then
    return nil, row.op == "compute_scale" and "a difference of two timings, of no kernel" or "an op that is not known"
  end
  local elements, seconds = read.positive(row.elements), read.positive(row.time_s)
  if not (elements and seconds) then return nil, "elements or time_s is not a positive number" end
  local case = {
    gpu = row.gpu, op = row.op, elements = elements, kernels = kernels, measured = seconds, bytes = 0,
    label = ("%s of %.15g"):format(row.op, elements),
  }
  for _, width in ipairs(kernels) do case.bytes = case.bytes + width * elements end
  case.source = ("%s, %s"):format(NAMES[row.op], case.bytes >= 1e7 and "at least 10 MB" or "less than 10 MB")
  return case
end

--- Seconds predicted. The tables repeat the same numbers, so that data that fits stays in the cache.
function memory.predict(case, machine, system)
  local cache, seconds = system.accelerator.cache, 0
  local warm = cache and 3 * case.elements <= cache.capacity
  for _, width in ipairs(case.kernels) do seconds = seconds + machine:stream(width * case.elements, warm) end
  return seconds
end

return memory
