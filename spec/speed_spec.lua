-- The overhead of questions outside the core: Lua instructions, independent of the machine and its load. Each limit was
-- set a tenth to two fifths above the count; lower it when a question becomes cheaper.
local tperf = require "tperf"

local EVERY <const> = 100

-- The instructions of a call, with caches warm.
local function instructions(f)
  for _ = 1, 2 do f() end
  local count = 0
  debug.sethook(function() count = count + EVERY end, "", EVERY)
  f()
  debug.sethook()
  return count
end

local function costs(limit, f)
  local count = instructions(f)
  assert.truthy(count <= limit, ("%d instructions of Lua, more than %d"):format(count, limit))
end

local function training(change)
  local o = { model = "llama-3.1-70b", system = "h100-sxm", global_batch = 1024, tp = 8, pp = 4, dp = 32,
    recompute = "full" }
  for name, value in pairs(change or {}) do o[name] = value end
  return function() return tperf.train(o) end
end

describe("the Lua of a question", function()
  it("is short in a collective", function()
    costs(600, function() tperf.collective { system = "h100-sxm", kind = "all_reduce", bytes = 1e9, gpus = 64 } end)
  end)

  it("is short in a configuration, its placement open or given", function()
    costs(4300, training())
    costs(4300, training { fast = { tp = 8, pp = 1, dp = 1 } })
  end)

  it("is short in a model's groups, however many layers it has", function()
    local models = {}
    for i = 1, 3 do
      models[i] = tperf.model { name = "m", layers = 300 * i, hidden = 512, heads = 8, seq = 64, vocab = 9 }
    end
    for _, m in ipairs(models) do costs(300, function() m:groups() end) end
  end)

  it("is short in a configuration that does not fit", function()
    costs(4500, training { tp = 1, dp = 256, recompute = "none" })
  end)

  it("is bounded while remedies are searched for", function()
    local ask = training { tp = 1, dp = 256, recompute = "none" }
    costs(115000, function() return ask().reason end)
  end)

  it("is short in inference", function()
    costs(1900, function()
      tperf.infer { model = "llama-3.1-70b", system = "h100-sxm", tp = 8, prompt = 1024, generate = 256, batch = 16 }
    end)
  end)

  it("is bounded in a search with known shapes: repeated, or with other prices", function()
    local bandwidth = 100e9
    costs(13000, function()
      tperf.search { model = "llama-3.1-70b", system = "h100-sxm", gpus = 1024, global_batch = 1024, threads = 1 }
    end)
    costs(38000, function()
      bandwidth = bandwidth / 2
      local system = tperf.system("h100-sxm"):with { network = { slow = { bandwidth = bandwidth } } }
      tperf.search { model = "llama-3.1-70b", system = system, gpus = 1024, global_batch = 1024, threads = 1 }
    end)
  end)

  it("does not grow with the passes of a schedule that the core plans", function()
    for _, name in ipairs { "zb_auto", "zb_h1", "zbv", "v_half", "v_min" } do
      local function plan() tperf.schedule { schedule = name, devices = 8, microbatches = 256 } end
      costs(2500, plan) -- of 6,144 passes and more
    end
  end)

  it("does not read every pass of a simulated step", function()
    costs(20000, training { simulate = "zbv", pp = 8, dp = 16, global_batch = 16384 }) -- 24,576 passes
  end)

  it("is a few instructions per pass in a custom order", function()
    tperf.schedule.define("own_order", function(s)
      for d = 1, s.devices do
        for m = 1, s.microbatches do
          s:forward(d, d, m)
          s:backward(d, d, m)
        end
      end
    end)
    costs(6 * 2 * 8 * 256 + 2500, function() -- a call each: the method, its four arguments, a share of the loops
      tperf.schedule { schedule = "own_order", devices = 8, microbatches = 256 }
    end)
  end)

  it("does not lay out again the ops that experts do not change", function()
    local batch = 1024 -- other micro-batches each time, so that no shape is known
    costs(2000000, function()
      batch = batch * 3 // 2
      tperf.search {
        model = "mixtral-8x7b", system = "h100-sxm", gpus = 64, global_batch = batch, micro_batch = batch // 64,
        strategy = "context", pp = 1, threads = 1, infeasible = true,
      }
    end)
  end)

  it("is bounded in the first search of a mixture of experts", function()
    local number, original = 0, tperf.model "deepseek-v3"
    costs(4300000, function()
      number = number + 1
      local model = original:with { name = "model-" .. number } -- of which nothing is known
      tperf.search { model = model, system = "h100-sxm", gpus = 1024, global_batch = 1024, threads = 1 }
    end)
  end)

  it("does not lay out again what another precision, or another loss, does not change", function()
    local function ask(change)
      local o = { model = "deepseek-v3", system = "h100-sxm", gpus = 1024, global_batch = 1024, threads = 1 }
      for name, value in pairs(change) do o[name] = value end
      return function() tperf.search(o) end
    end
    ask {} ()
    local losses, recipes = { "in-place", "copied", "pytorch" }, { "fp8-current", "fp8-delayed", "fp8-block" }
    local number = 0
    costs(2500000, function()
      number = number + 1
      ask { loss = losses[number] } ()
    end)
    costs(6500000, function()
      number = number - 1
      ask { precision = recipes[number + 1] } ()
    end)
  end)

  it("lays out a mixture of experts once for all batches, and remembers it", function()
    local batch = 384
    local function ask()
      tperf.search { model = "deepseek-v3", system = "h100-sxm", gpus = 1024, global_batch = batch, threads = 1 }
    end
    costs(1300000, function()
      batch = batch * 2
      ask()
    end)
    costs(350000, ask)
  end)
end)
