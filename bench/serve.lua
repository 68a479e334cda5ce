--- The time of serving simulations: 300 requests through one engine, and a million through a thousand. Run by
--- `make bench`.
local tperf = require "tperf"
local core = require "tperf.core"

local STEP = { fixed = 5e-3, per_token = 20e-6, per_context_token = 40e-9, per_prefill_pair = 1e-9 }
local PROMPT, OUTPUT = { lognormal = { median = 500, sigma = 0.8 } }, { exponential = 200 }

local function question(count, rate, engine, more)
  local q = { step_time = STEP, engine = engine, load = { rate = rate }, count = count, prompt = PROMPT,
    output = OUTPUT }
  for name, value in pairs(more or {}) do q[name] = value end
  return q
end

local CACHE = { num_blocks = 20000 }
local CASES = { -- name, question, runs, limit in seconds
  { "300 requests", question(300, 10, CACHE), 20, 5e-3 },
  { "300 requests, priced", { model = "llama-3.1-8b", system = "h100-sxm", load = { rate = 10 }, count = 300,
    prompt = PROMPT, output = OUTPUT }, 20, 5e-3 },
  { "300, no limit of blocks", question(300, 10, {}), 20, 5e-3 },
  { "10^6, 1000 replicas", question(1000000, 10000, CACHE, { replicas = 1000 }), 1, 30 },
}

local late = false
print(("%-26s %10s %10s %14s"):format("simulation", "seconds", "steps", "steps/s"))
for _, case in ipairs(CASES) do
  local name, q, runs, target = table.unpack(case)
  local best, r = math.huge, nil
  for _ = 1, runs do
    local start = core.clock()
    r = tperf.serve(q)
    best = math.min(best, core.clock() - start)
  end
  print(("%-26s %10.4f %10d %14.0f target %g s"):format(name, best, r.step_count, r.step_count / best, target))
  late = late or best > target
end
if late then error("slower than the target", 0) end
