--- The speed of ordering and simulating schedules. Run by `make bench`; arguments: names of schedules to run only
--- those.
local peak_memory = require "measure.peak_memory"
local tperf = require "tperf"

local CASES = { -- schedule, devices, micro-batches, limit in seconds (nil: no target)
  { "1f1b", 8, 64 },
  { "1f1b", 64, 1024, 0.030 }, -- the Python original: 2.5 s
  { "interleaved_1f1b", 64, 1024 },
  { "zb1p", 64, 1024 },
  { "dualpipe", 64, 1024 },
  { "dualpipe_v", 64, 1024 },
  { "zb_h1", 16, 64, 0.0004 }, -- planned by search: at least 8 M ops/s, as those that are only written down
  { "zbv", 16, 64, 0.0008 },
  { "v_half", 16, 64, 0.0008 },
  { "zb_h1", 64, 1024, 0.024 },
  { "zbv", 64, 1024, 0.048 },
  { "v_half", 64, 1024, 0.048 },
  { "v_min", 64, 1024, 0.048 },
  { "1f1b", 512, 8192 },
}

local late = false
print(("%-18s %7s %12s %9s %9s %10s %8s"):format("schedule", "devices", "microbatches", "ops", "ms", "M ops/s", "MiB"))
for _, case in ipairs(CASES) do
  local name, devices, microbatches, target = table.unpack(case)
  local best, ops = math.huge, 0
  for _ = 1, devices * microbatches > 1e6 and 1 or 5 do
    collectgarbage()
    local start = os.clock()
    ops = tperf.schedule { schedule = name, devices = devices, microbatches = microbatches }.ops
    best = math.min(best, os.clock() - start)
  end
  print(("%-18s %7d %12d %9d %9.2f %10.1f %8.0f%s"):format(name, devices, microbatches, ops, best * 1e3,
    ops / best / 1e6, peak_memory() or 0, target and (" target %.3g ms"):format(target * 1e3) or ""))
  late = late or target and best > target
end
if late then error("slower than the target", 0) end
