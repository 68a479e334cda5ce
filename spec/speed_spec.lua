-- What questions cost beside the core: instructions of Lua, which the machine and its load do not change. Each limit is
-- a tenth to two fifths above what was counted when it was set; lower it with what makes a question cheaper.
local tperf = require "tperf"

local EVERY <const> = 100

-- Instructions of a call, once what can be remembered is.
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
    costs(700, function() tperf.collective { system = "h100-sxm", kind = "all_reduce", bytes = 1e9, gpus = 64 } end)
  end)

  it("is short in a configuration, its placement open or given", function()
    costs(6500, training())
    costs(6500, training { fast = { tp = 8, pp = 1, dp = 1 } })
  end)

  it("is bounded in a configuration that does not fit, whose remedies are looked for", function()
    costs(100000, training { tp = 1, dp = 256, recompute = "none" })
  end)

  it("is short in inference", function()
    costs(3900, function()
      tperf.infer { model = "llama-3.1-70b", system = "h100-sxm", tp = 8, prompt = 1024, generate = 256, batch = 16 }
    end)
  end)

  it("is bounded in a search that was asked before", function()
    costs(55000, function()
      tperf.search { model = "llama-3.1-70b", system = "h100-sxm", gpus = 1024, global_batch = 1024, threads = 1 }
    end)
  end)

  it("does not lay out again what experts do not change", function()
    local batch = 1024 -- other micro-batches each time, so that no shape is known
    costs(4400000, function()
      batch = batch * 3 // 2
      tperf.search {
        model = "mixtral-8x7b", system = "h100-sxm", gpus = 64, global_batch = batch, micro_batch = batch // 64,
        strategy = "context", pp = 1, threads = 1, infeasible = true,
      }
    end)
  end)
end)
