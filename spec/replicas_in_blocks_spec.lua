-- Blocks that know the number of replicas and communicate among them (replicas = true of an architecture), against the
-- same blocks under a strategy with an axis of its own that cuts the batch, tperf.collective, and hand counts.
local cases = require "cases"
local tperf = require "tperf"
local op = tperf.op

local WIDTH <const>, FP32 <const> = 512, 4

local tensor = tperf.strategy.of "tensor"
tperf.strategy.define {
  name = "batches", extends = "tensor", summary = "replicas as an axis of the strategy",
  axes = { tensor.axes[1], { name = "data", cuts = { "batch" }, admits = function() return true end } },
}

-- A model whose layers add up statistics over an axis and whose loss compares the samples of all its GPUs.
local function model_over(axis, replicas, layers)
  local layer = tperf.block("layer", function(m, p)
    return {
      p:norm { name = "norm", width = m.hidden }, p:column { name = "up", n_in = m.hidden, n_out = 4 * m.hidden },
      p:row { name = "down", n_in = 4 * m.hidden, n_out = m.hidden },
      op.collective { name = "statistics", kind = "all_reduce", axis = axis, bytes = 2 * FP32 * m.hidden },
    }
  end)
  local loss = tperf.block("loss", function(_, p)
    return {
      op.collective { name = "gather", kind = "all_gather", axis = axis, bytes = FP32 * p.micro_batch * WIDTH,
        share = true },
      op.linear { name = "logits", tokens = p.micro_batch, n_in = WIDTH, n_out = p[axis] * p.micro_batch },
    }
  end)
  return tperf.model { name = "pairs", layers = layers or 4, hidden = 512, seq = 128, vocab = 1000,
    architecture = tperf.architecture { name = axis, layer = { layer }, first = {}, last = { loss },
      replicas = replicas } }
end

local inside, outside = model_over("dp", true), model_over("data", false)

local function asked(model, more)
  local q = { model = model, system = "h100-sxm", global_batch = 128, software = "none" }
  for name, value in pairs(more) do q[name] = value end
  return q
end

describe("blocks that know the replicas", function()
  it("gather what tperf.collective says, and do the work of all of them", function()
    local c = tperf.train(asked(inside, { dp = 16, micro_batch = 4 }))
    local gather, logits = c.last[1], c.last[2]
    assert.equal(16, gather.forward.comms[1].gpus)
    assert.equal(tperf.collective { system = "h100-sxm", kind = "all_gather", gpus = 16, fast = 8,
      bytes = 16 * 4 * FP32 * WIDTH }, gather.forward.time)
    assert.equal(4 * (16 * 4) * (2 * WIDTH - 1), logits.forward.tensor_flops) -- as many products of WIDTH numbers
    assert.equal("all_reduce", c.layers[4].forward.comms[1].kind)
  end)

  local LAYOUTS <const> = {
    { dp = 16, micro_batch = 4 }, { dp = 8, tp = 2, zero = 3 }, { dp = 8, pp = 2, micro_batch = 2 },
    { dp = 4, tp = 4, pp = 2, recompute = "full" }, { dp = 1, tp = 2 }, { dp = 16, tp = 2, placement = "best" },
    { dp = 8, tp = 2, software = "typical" },
  }
  for i, more in ipairs(LAYOUTS) do
    it("cost what they cost along an axis of the strategy " .. i, function()
      local a = tperf.train(asked(inside, more))
      local other = { strategy = "batches", data = more.dp }
      for name, value in pairs(more) do other[name] = other[name] or name ~= "dp" and value or nil end
      local b = tperf.train(asked(outside, other))
      assert.near(1, b.time / a.time, 1e-12)
      assert.equal(b.memory.total, a.memory.total)
    end)
  end

  it("cost so on networks of three tiers, too", function()
    local system = tperf.system("h100-sxm"):with { network = { tiers = {
      { name = "nvlink", size = 8, bandwidth = "450 GB/s", latency = "1 us", topology = "switch" },
      { name = "rail", size = 32, nics_per_gpu = 1, bandwidth = "50 GB/s", latency = "3 us", topology = "switch" },
      { name = "spine", bandwidth = "12 GB/s", latency = "6 us", topology = "switch" },
    } } }
    local a = tperf.train(asked(inside, { system = system, dp = 32, tp = 4, global_batch = 256 }))
    local b = tperf.train(asked(outside, { system = system, strategy = "batches", data = 32, tp = 4,
      global_batch = 256 }))
    assert.near(1, b.time / a.time, 1e-12)
  end)

  it("take as long in simulations", function()
    local _, t = tperf.train(asked(inside, { dp = 8, pp = 2, tp = 2, simulate = true }))
    local _, same = tperf.train(asked(outside, { strategy = "batches", data = 8, pp = 2, tp = 2, simulate = true }))
    assert.near(1, t.iteration_time / same.iteration_time, 1e-12)
  end)

  it("are searched with what each number of replicas makes of them", function()
    local found = tperf.search(asked(inside, { gpus = 32, top = 400, keep = "all" }))
    assert.is_true(#found > 100)
    for i = 1, #found, cases(12, 1) do
      local c = found[i]
      assert.equal(c.time, tperf.train { configuration = c, model = inside, system = "h100-sxm" }.time)
    end
    local best = tperf.search(asked(inside, { gpus = 32, top = 3 }))
    for i, c in ipairs(best) do assert.equal(found[i].time, c.time) end
    assert.equal(found[1].time, tperf.search(asked(inside, { gpus = 32, top = 1, threads = 2 }))[1].time)
  end)

  it("are searched in the numbers of replicas that are asked for", function()
    for _, c in ipairs(tperf.search(asked(inside, { gpus = 16, dp = { 2, 4 } }))) do
      assert.is_true(c.dp == 2 or c.dp == 4)
    end
  end)

  it("serve as one replica", function()
    assert.is_true(tperf.infer { model = inside, system = "h100-sxm", prompt = 100, generate = 10 }.tpot > 0)
    assert.is_true(tperf.check(inside).blocks[1] ~= nil)
  end)

  it("say what they lack where the architecture does not tell them", function()
    local _, message = pcall(tperf.train, asked(model_over("dp", false), { dp = 2 }))
    assert.matches("blocks know the number of replicas if the architecture has replicas = true", message)
    local one = tperf.block("one", function() return {
      op.collective { name = "all", kind = "all_reduce", axis = "dp", bytes = 1 } } end)
    local plain = tperf.model { name = "m", layers = 2, hidden = 512, seq = 128, vocab = 1000,
      architecture = tperf.architecture { name = "a", layer = { one } } }
    _, message = pcall(tperf.train, asked(plain, { dp = 2 }))
    assert.matches("op 'all' communicates over the axis 'dp', whose size its layers do not know: give the "
      .. "architecture replicas = true", message)
  end)
end)
