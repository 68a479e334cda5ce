-- All axes at once: a mixture of experts on a machine of many domains, with every way to gather keys, to spread
-- experts, to shard and to order the passes left open.
local tperf = require "tperf"

local clock = os.clock()
local found = tperf.search {
  model = "deepseek-v3", system = "gb200-nvl72", gpus = 2304, global_batch = 2304, micro_batch = { 1, 2 },
  strategy = "context", cp_kind = { "all_gather", "ring", "all_to_all" }, ulysses = { 1, 2, 4 }, zero = { 0, 1, 2, 3 },
  schedule = "any",
}
print(("all axes: %.1f million candidates, %.1f million feasible"):format(found.candidates / 1e6, found.feasible / 1e6))
print(("all axes: %.2f s on %d threads, %.2f s of processor time"):format(found.seconds,
  require "tperf.core".search.threads(), os.clock() - clock))
