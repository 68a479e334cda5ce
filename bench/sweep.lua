--- A sweep of 100,000 training points that differ in sizes: seconds, and the memory of its rows. Run by `make bench`.
local peak_memory = require "measure.peak_memory"
local tperf = require "tperf"

local POINTS <const>, TARGET <const>, MOST <const> = 100000, 15, 100 -- seconds, MiB

local batches = {}
for i = 1, POINTS // 32 do batches[i] = 1024 * i end
local before, start = peak_memory(), os.clock()
local rows = tperf.sweep {
  run = tperf.train, model = "llama-3.1-70b", system = "h100-sxm", gpus = 1024, recompute = "full",
  tp = tperf.vary { 1, 2, 4, 8 }, pp = tperf.vary { 1, 2, 4, 8 }, zero = tperf.vary { 1, 3 },
  global_batch = tperf.vary(batches), fields = { "time", "memory.total" }, progress = false,
}
local seconds, memory = os.clock() - start, peak_memory()
print(("sweep: %d points in %.1f s of processor time (target %d)"):format(#rows, seconds, TARGET))
print(("sweep: %.0f MiB before, %.0f MiB at most (target %d)"):format(before, memory, MOST))
if seconds > TARGET or memory > MOST then error("slower than the target", 0) end
