--- All-reduces of serving engines, timed within one node: columns gpu, kernel_source, num_gpus, size_bytes, busbw_GBps,
--- time_s (seconds).
local read = require "tperf.measured.read"

local direct = { name = "direct", columns = { "num_gpus", "size_bytes", "busbw_GBps", "time_s" } }

--- A case, or nil and why the row is left out.
function direct.case(row)
  if read.text(row.kernel_source):find "eager" then return nil, "launched one by one, as fast as the host is" end
  local gpus, bytes, seconds = read.count(row.num_gpus), read.positive(row.size_bytes), read.positive(row.time_s)
  if not (gpus and bytes and seconds) or gpus < 2 then return nil, "num_gpus, size_bytes or time_s is not given" end
  return {
    gpu = row.gpu, gpus = gpus, bytes = bytes, measured = seconds,
    source = "all-reduce of serving engines, " .. (bytes >= 1 << 20 and "at least 1 MiB" or "less than 1 MiB"),
    label = ("%d GPUs %.15g B"):format(gpus, bytes),
  }
end

--- Seconds predicted; nil and a reason if the system does not support the case.
function direct.predict(case, machine, system, rules)
  if case.gpus > system.network.fast.domain then return nil, "more GPUs in a fast domain than the system has" end
  local curves = system.network.fast.efficiency
  if type(curves) ~= "table" or not curves.direct then return nil, "the system has no curve for these all-reduces" end
  return machine:collective(rules, "all_reduce", case.bytes, case.gpus, case.gpus, true)
end

return direct
