--- Candidates per second of a search with every knob open, every candidate timed (no pruning), and what pruning gains.
-- Targets are per thread: 10 million tensor candidates, 4 million of the other strategies. One thread is measured in
-- processor time, which others' work does not touch; several in wall time, the median of some runs.
local tperf = require "tperf"
local threads = require "tperf.core".search.threads()

local RUNS = 3
local CASES = { -- strategy, target, GPUs: enough of them for some million candidates
  { "tensor", 10e6, { 6144, 12288, 24576, 49152 } }, { "summa", 4e6, { 49152 } }, { "context", 4e6, { 49152 } },
}

local question = {
  model = "gpt3-175b", system = "h100-sxm", global_batch = 49152, schedule = "any",
  zero = { 0, 1, 2, 3 }, recompute = { "none", "full" }, sequence_parallel = { true, false },
}

-- Seconds of the median run, and candidates.
local function median(strategy, count, prune)
  local seconds, candidates = {}, 0
  question.strategy, question.threads, question.prune = strategy, count, prune
  for i = 1, RUNS + 1 do -- the first lays out shapes
    local start = os.clock()
    local found = tperf.search(question)
    seconds[i] = count == 1 and os.clock() - start or found[1].seconds
    candidates = 0
    for _, result in ipairs(found) do candidates = candidates + result.candidates end
  end
  table.remove(seconds, 1)
  table.sort(seconds)
  return seconds[(RUNS + 1) // 2], candidates
end

local late = {}
for _, case in ipairs(CASES) do
  local strategy, target = case[1], case[2]
  question.gpus = case[3]
  local one, candidates = median(strategy, 1, false)
  local all, pruned = median(strategy, threads, false), median(strategy, 1, true)
  print(("search %s, 1 thread: %.1f million candidates/s (of %.1f million; target %.0f)"):format(strategy,
    candidates / one / 1e6, candidates / 1e6, target / 1e6))
  print(("search %s, %d threads: %.1f million candidates/s"):format(strategy, threads, candidates / all / 1e6))
  print(("search %s, pruning: %.1f times as fast"):format(strategy, one / pruned))
  if candidates / one < target then late[#late + 1] = strategy end
end
if #late > 0 then error("slower than the target: " .. table.concat(late, ", "), 0) end
