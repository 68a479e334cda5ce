--- The walk of a space in which nothing is skipped, on one thread: bench/record.sh counts its instructions.
local tperf = require "tperf"

local GPUS <const> = 8640
local found = tperf.search {
  model = { name = "bench", layers = 720, hidden = 61440, heads = 480, ffn = 245760, seq = 2048 }, system = "h100-sxm",
  gpus = { GPUS, 2 * GPUS, 4 * GPUS }, global_batch = GPUS, software = "none", threads = 1, prune = false,
  infeasible = true,
}
local evaluated = 0
for _, answer in ipairs(found) do evaluated = evaluated + answer.evaluated end
print(("walk: %d candidates, %.2f s"):format(evaluated, found[1].seconds))
