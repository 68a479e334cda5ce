-- Experiments with searches, costs and serving, against brute force over single questions, closed forms and queueing
-- theory.
local tperf = require "tperf"
local near = tperf.check.near

local question = { model = "gpt2", system = "h100-sxm", gpus = 8, global_batch = 64, recompute = "none", zero = 1,
  schedule = "1f1b", strategy = "tensor", sequence_parallel = true }

-- All layouts of 8 GPUs that fit, one question each.
local function every()
  local list = {}
  for _, tp in ipairs { 1, 2, 4, 8 } do
    for _, pp in ipairs { 1, 2, 4, 8 } do
      local dp = 8 // (tp * pp)
      for _, micro_batch in ipairs { 1, 2, 4, 8, 16, 32, 64 } do
        local q = { tp = tp, pp = pp, dp = dp, micro_batch = micro_batch }
        for name, value in pairs(question) do q[name] = value end
        q.gpus, q.strategy = nil, "tensor"
        local ok, c = pcall(tperf.train, q)
        if dp >= 1 and ok and c.feasible then list[#list + 1] = c end
      end
    end
  end
  return list
end
local all = every()
assert(#all > 20)

local function least(of, where)
  local best
  for _, c in ipairs(all) do
    if not where or where(c) then best = math.min(best or math.huge, of(c)) end
  end
  return best
end

local function search(more)
  local q = { top = 1 }
  for name, value in pairs(question) do q[name] = value end
  for name, value in pairs(more) do q[name] = value end
  return tperf.search(q)[1]
end

-- 25. The fastest of all; of some; and by other figures.
near(search {}.time, least(function(c) return c.time end), 1e-12)
local function deep(c) return c.pp >= 2 and c.tp == 1 end
near(search { where = deep }.time, least(function(c) return c.time end, deep), 1e-12)

-- 26. By memory, and by a figure of one's own.
near(search { minimize = "memory" }.memory.total, least(function(c) return c.memory.total end), 1e-12)
local function product(c) return c.time * c.memory.total end
near(product(search { minimize = product }), least(product), 1e-12)

-- 27. MFU is the model's FLOPs, as Megatron-LM's log counts them, over what the GPUs could do.
do
  local c, m = all[1], tperf.model "gpt2"
  local flops = m:flops_per_token({ convention = "megatron" }).total * 64 * m.seq
  near(c.mfu, flops / (c.time * 8 * 989.4e12), 1e-3)
end

-- 28. The fewest GPUs that hold a model: no layout of half as many does.
do
  local fewest = tperf.fewest { model = "llama-2-7b", system = "h100-sxm" }
  assert(fewest.gpus >= 2)
  local found = tperf.search { model = "llama-2-7b", system = "h100-sxm", gpus = fewest.gpus // 2, global_batch = 64,
    top = 1 }
  assert(#found == 0 or fewest.gpus == 1)
end

-- 29. The cost of a run: tokens over tokens a second, times GPUs and price.
do
  local c = search {}
  local cost = tperf.cost(c, { tokens = 3e11, price = 2.5 })
  local hours = 3e11 / c.tokens_per_second / 3600 * 8
  near({ cost.gpu_hours, cost.dollars, cost.days }, { hours, 2.5 * hours, hours / 8 / 24 }, 1e-9)
end

-- 30. The best interval between checkpoints is Young's, sqrt(2 x cost x time between failures), where failures are
-- rare.
do
  local c = search {}
  local cost = tperf.cost(c, { tokens = 1e12, mtbf = { gpu = "50000 h" }, checkpoint = { write = 30 },
    restart = 600 })
  local mean = 50000 * 3600 / 8
  near(cost.checkpoint.young, (2 * 30 * mean) ^ 0.5, 1e-9)
  near(cost.checkpoint.best, (2 * 30 * mean) ^ 0.5, 0.02)
end

-- 31. One request at a time with fixed work is M/D/1: the mean wait is rho s / (2 (1 - rho)).
do
  local s, rate = 0.05, 12
  local r = tperf.serve { step_time = { fixed = s, per_token = 0 }, load = { rate = rate }, count = 40000, prompt = 1,
    output = 1,
    engine = { max_num_seqs = 1 } }
  local rho = rate * s
  near(r.ttft.mean, s + rho * s / (2 * (1 - rho)), 0.03)
end

-- The engine's settings are a record of their own, and a message says so.
tperf.check.raises("unknown field 'max_num_seqs' (there is 'engine.max_num_seqs')", tperf.serve,
  { step_time = { fixed = 1 }, load = { rate = 1 }, prompt = 1, output = 1, max_num_seqs = 1 })

-- 32. Little's law: requests in the system are the rate times the time in it.
do
  local r = tperf.serve { step_time = { fixed = 5e-3, per_token = 20e-6 }, load = { rate = 20 }, count = 5000,
    prompt = 200, output = 100,
    keep = "steps" }
  assert(r.finished == 5000)
  near(r.e2e.mean, r.ttft.mean + 99 * r.tpot.mean, 0.01)
  local inside = 0 -- requests times seconds, step by step
  for _, s in ipairs(r.steps) do inside = inside + (s.running + s.waiting) * s.duration end
  near(inside / r.duration, 5000 / r.duration * r.whole.e2e.mean, 0.02)
end

-- 33. A decode step of one request without other costs reads the weights: bytes over bandwidth bound it from below.
do
  local m = tperf.model "llama-3.1-8b"
  local r = tperf.infer { model = "llama-3.1-8b", system = "h100-sxm", batch = 1, prompt = 128, generate = 32 }
  local bytes = 2 * (m:parameters().total - m:parameters().embedding)
  assert(r.tpot > bytes / 3.35e12 and r.tpot < 1.5 * bytes / 3.35e12)
end

-- 34. Data parallelism without messages scales: twice the GPUs and the batch, the same time.
do
  local free = tperf.system "h100-sxm":with { network = { fast = { domain = 4096 } } }
  local function time(dp)
    return tperf.train { model = "gpt2", system = free, global_batch = 8 * dp, dp = dp, micro_batch = 8,
      software = "none", zero = 0 }
  end
  near(time(1).breakdown.compute, time(16).breakdown.compute, 1e-12)
end
