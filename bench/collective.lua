--- Collectives per second, called from a script and in the core, and the time of the main script.
local tperf = require "tperf"
local core = require "tperf.core"
local clock = core.search.clock

local RUNS = 7

-- The fastest of several runs of f, in seconds, as other load on the machine only slows runs down.
local function fastest(f)
  local best = math.huge
  for _ = 1, RUNS do
    local start = clock()
    f()
    best = math.min(best, clock() - start)
  end
  return best
end

local COUNT = 20000
local system, rules = tperf.system "h100-sxm", tperf.rules()
local question = { system = system, kind = "all_reduce", gpus = 1024 }
local machine = core.machine(tperf.system "h100-sxm")
print(("collectives, tperf.collective: %.3f million/s"):format(COUNT / 1e6 / fastest(function()
  for bytes = 1, COUNT do
    question.bytes = bytes
    tperf.collective(question)
  end
end)))
print(("collectives, the core with a system read once: %.3f million/s"):format(COUNT / 1e6 / fastest(function()
  for bytes = 1, COUNT do machine:collective(rules, "all_reduce", bytes, 1024, 8) end
end)))

local program = arg[-1] or "./tperf"
local seconds = fastest(function() assert(os.execute(program .. " run scripts/sweep_nvlink.lua > /dev/null 2>&1")) end)
print(("scripts/sweep_nvlink.lua: %.3f s (target 0.5)"):format(seconds))
