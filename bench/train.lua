--- Configurations evaluated per second on one thread: the same question again, and questions with sizes that were never
--- asked before. Run by `make bench`.
local tperf = require "tperf"

local CASES = { -- name, change, minimum per second when asked again and when new; nil: no target
  { "placement open", {}, 10000 },
  { "placement given", { fast = { tp = 8, pp = 1, dp = 1 } }, 20000 },
  { "infeasible", { tp = 1, dp = 256, recompute = "none" }, 10000 },
}
local SECONDS <const>, ROUNDS <const> = 0.1, 5

local function question(change)
  local o = { model = "llama-3.1-70b", system = "h100-sxm", global_batch = 1024, tp = 8, pp = 4, dp = 32,
    recompute = "full" }
  for name, value in pairs(change) do o[name] = value end
  return o
end

-- Calls per second of processor time, the most of several rounds.
local function speed(ask)
  local best = 0
  for _ = 1, ROUNDS do
    local count, start = 0, os.clock()
    repeat
      for _ = 1, 50 do ask() end
      count = count + 50
    until os.clock() - start > SECONDS
    best = math.max(best, count / (os.clock() - start))
  end
  return best
end

local late = false
print(("%-18s %12s %12s"):format("tperf.train", "again/s", "new/s"))
for _, case in ipairs(CASES) do
  local name, change, target = table.unpack(case)
  local o = question(change)
  local again = speed(function() tperf.train(o) end)
  local fresh = speed(function()
    o.global_batch = o.global_batch + 256
    tperf.train(o)
  end)
  print(("%-18s %12.0f %12.0f target %d"):format(name, again, fresh, target))
  late = late or again < target
end
if late then error("slower than the target", 0) end
