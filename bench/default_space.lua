-- Ten million candidates: every choice left open, for one model and machine.
local tperf = require "tperf"

local function peak_memory() -- MiB, of this process
  for line in io.lines "/proc/self/status" do
    local kib = line:match "^VmHWM:%s+(%d+)"
    if kib then return tonumber(kib) / 1024 end
  end
end

local function search(prune)
  return tperf.search {
    model = "gpt3-175b", system = "h100-sxm", gpus = 49152, global_batch = 49152, strategy = "all", schedule = "any",
    zero = { 1, 2, 3 }, recompute = { "none", "full" }, sequence_parallel = { true, false }, prune = prune,
  }
end

local found = search(true)
print(("default space: %.1f million candidates, %.1f million feasible"):format(found.candidates / 1e6,
  found.feasible / 1e6))
print(("default space: %.2f s on %d threads, %.1f million candidates/s"):format(found.seconds,
  require "tperf.core".search.threads(), found.candidates / found.seconds / 1e6))
print(("default space: %.0f MiB peak"):format(peak_memory()))
