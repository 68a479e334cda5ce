--- Candidates evaluated per second, on one thread and on all, if nothing is skipped, and the speed-up from skipping
-- candidates that do not fit or cannot be among the best. Run by `make bench`.
-- One thread is measured in processor seconds, to exclude other load on the machine; all threads in wall seconds.
local peak_memory = require "measure.peak_memory"
local tperf = require "tperf"
local core = require "tperf.core".search

local GPUS = 2 ^ 9 * 3 ^ 3 * 5 // 1 | 0 -- 69,120

local function machine(name)
  return tperf.system("subramanian2024/" .. name):with { network = { fast = { domain = 72 } } }
end

-- The machine (of three) and the number of GPUs are open. The model's sizes have many divisors, so there is much to
-- choose from.
local function question(strategy, seq, change)
  local request = {
    model = { name = "bench", layers = 720, hidden = 61440, heads = 480, ffn = 245760, seq = seq },
    system = { machine "A100", machine "H200", machine "B200" },
    gpus = { GPUS // 8, GPUS // 4, GPUS // 2, GPUS, 2 * GPUS, 4 * GPUS }, global_batch = GPUS, strategy = strategy,
  }
  for field, value in pairs(change) do request[field] = value end
  return request
end

local function count(answers, field)
  local sum = 0
  for _, answer in ipairs(answers) do sum = sum + answer[field] end
  return sum
end

-- Processor and wall seconds of a search, the best of `times` runs, and its answers.
local function measure(request, times)
  local processor, wall, answers = math.huge, math.huge, nil
  for _ = 1, times do
    collectgarbage()
    local from, start = os.clock(), core.clock()
    answers = tperf.search(request)
    processor, wall = math.min(processor, os.clock() - from), math.min(wall, core.clock() - start)
  end
  return processor, wall, answers
end

-- Strategy, sequence length, minimum million candidates per second on one thread by rules, how often to measure, which
-- machines. SUMMA has so many candidates that one machine's take long enough.
local CASES = {
  { "tensor", 2048, { default = 20, subramanian2024 = 18 }, 3 },
  { "context", 1024, { default = 20, subramanian2024 = 12 }, 3 },
  { "summa", 1024, { default = 30, subramanian2024 = 15 }, 1, { machine "B200" } },
}

local late = false
local all = core.threads()
local ASKED = { -- with software, each op's factors count, too; the published model has none
  { "default", "none" }, { "default", "typical" }, { "subramanian2024", "none" },
}
local LEAST_WITH <const> = 0.7 -- relative to the speed without software

print(("%-10s %12s %14s %16s %10s %8s"):format("strategy", "candidates", "M/s, 1 thread",
  ("M/s, %d threads"):format(all), "pruning", "target"))
for _, case in ipairs(CASES) do
  local strategy, seq, targets, times, machines = table.unpack(case)
  local without
  for _, asked in ipairs(ASKED) do
    local rules, software = table.unpack(asked)
    local target = targets[rules]
    local function run(change)
      change.rules, change.software, change.system = rules, software, machines
      return measure(question(strategy, seq, change), times)
    end
    local one, _, answers = run { threads = 1, prune = false, infeasible = true }
    local _, many = run { prune = false, infeasible = true }
    local pruned = run { threads = 1 }
    local evaluated = count(answers, "evaluated")
    local speed = evaluated / one / 1e6
    print(("%-10s %12d %14.1f %16.1f %9.1fx %8s  rules %s, software %s"):format(strategy, evaluated, speed,
      evaluated / many / 1e6, one / pruned, software == "none" and target or ("%.1f x"):format(LEAST_WITH), rules,
      software))
    if software == "none" then
      late, without = late or speed < target, speed
    else
      late = late or speed < LEAST_WITH * without
    end
  end
end

print(("peak memory: %.0f MiB"):format(peak_memory() or 0))

if late then error("slower than the target", 0) end
