--- A billion candidates: every choice left open, for a long context on 2^20 GPUs. Run by `make bench`.
-- Time is measured in processor seconds, to exclude other load on the machine: two threads in 20 s have 40.
local peak_memory = require "measure.peak_memory"
local tperf = require "tperf"

local CANDIDATES <const>, SECONDS <const>, MIB <const> = 1e9, 40, 256

local clock = os.clock()
local found = tperf.search {
  model = "llama-3.1-405b", system = "gb200-nvl72", gpus = 2 ^ 20 // 1 | 0, global_batch = 2 ^ 20 // 1 | 0, seq = 32768,
  strategy = "all", schedule = "any", zero = { 0, 1, 2, 3 }, recompute = { "none", "selective", "full" },
  sequence_parallel = { true, false }, cp_kind = { "all_gather", "ring", "all_to_all" }, ulysses = { 1, 2, 4 },
  overlap_tp = { "bulk", "none", "ring", "async" }, threads = 2,
}
local processor = os.clock() - clock
print(("default space: %.1f million candidates, %.1f million feasible"):format(found.candidates / 1e6,
  found.feasible / 1e6))
print(("default space: %.2f s on 2 threads, %.2f s of processor time (target %d), %.1f million candidates/s of it")
  :format(found.seconds, processor, SECONDS, found.candidates / processor / 1e6))
local peak = peak_memory()
print(("default space: %.0f MiB peak (target %d)"):format(peak, MIB))
if found.candidates < CANDIDATES then error("the space has fewer than 10^9 candidates", 0) end
if processor > SECONDS or peak > MIB then error("more than the target", 0) end
