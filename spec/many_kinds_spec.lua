-- Models whose layers all differ: OpenELM, U-Nets, results of architecture searches.
local tperf = require "tperf"

local HIDDEN <const>, VOCAB <const> = 1024, 32000

-- n kinds of layers: the i-th has two products of HIDDEN x 64 i weights. Those after `last` share two of HIDDEN x 64.
local function model(n, each, last)
  local groups = {}
  for i = 1, n do groups[i] = { count = each or 1, width = 64 * i } end
  local block = tperf.block("mlp", function(m, p)
    local own = p.group.width <= 64 * (last or n)
    local width = own and p.group.width or 64
    return { p:column { name = "up", n_in = m.hidden, n_out = width, shared_as = not own and "up" or nil },
      p:row { name = "down", n_in = width, n_out = m.hidden, shared_as = not own and "down" or nil } }
  end)
  return tperf.model { name = "m", layers = n * (each or 1), hidden = HIDDEN, heads = 16, seq = 512, vocab = VOCAB,
    biases = false, positions = "rotary", norm = "rmsnorm",
    architecture = tperf.architecture { name = "a", layer = { block }, groups = groups, first = {}, last = {} } }
end

describe("a model of many kinds of layers", function()
  for _, n in ipairs { 9, 36, 64 } do
    -- 2 products of HIDDEN x 64 i weights, 2 bytes each, i = 1 … n.
    it(("has the weights of all %d"):format(n), function()
      local c = tperf.train { model = model(n), system = "h100-sxm", global_batch = 8 }
      assert.equal(2 * 2 * HIDDEN * 64 * n * (n + 1) // 2, c.memory.weights)
      assert.equal(n, #c.kinds)
    end)
  end

  it("takes the time of each of its layers", function()
    local sum, m = 0, model(64)
    local c = tperf.train { model = m, system = "h100-sxm", global_batch = 1, software = "none" }
    for _, kind in ipairs(c.kinds) do
      for _, op in ipairs(kind.ops) do sum = sum + op.forward.time + op.backward.time end
    end
    assert.near(sum, c.breakdown.compute + c.breakdown.memory, 1e-9 * sum)
  end)

  it("is searched, cut into stages and simulated as it is trained", function()
    local m = model(64)
    local found = tperf.search { model = m, system = "h100-sxm", gpus = 16, global_batch = 32, top = 5,
      schedule = { "1f1b", "interleaved_1f1b" }, software = "none" }
    assert.equal(5, #found)
    for _, c in ipairs(found) do
      local again = tperf.train { configuration = c, model = m, system = "h100-sxm", global_batch = 32,
        software = "none" }
      assert.near(c.time, again.time, 1e-12 * c.time)
      assert.equal(c.memory.total, again.memory.total)
    end
  end)

  it("shares weights among its last kinds, one copy of which each stage holds", function()
    local m = model(64, 1, 62)
    local c = tperf.train { model = m, system = "h100-sxm", global_batch = 8, pp = 2, schedule = "1f1b" }
    local own = 2 * HIDDEN * 64 * 62 * 63 // 2 -- of both products, of kinds 1 … 62
    local whole = tperf.train { model = m, system = "h100-sxm", global_batch = 8 }
    assert.equal(2 * (own + 2 * HIDDEN * 64), whole.memory.weights)
    -- Of 64 layers, 32 are on each stage: the second has kinds 33 … 62 and a copy of the shared set.
    assert.equal(2 * (2 * HIDDEN * 64 * (62 * 63 - 32 * 33) // 2 + 2 * HIDDEN * 64), c.memory.weights)
  end)

  it("decodes and serves", function()
    local m = model(64)
    local r = tperf.infer { model = m, system = "h100-sxm", prompt = 64, generate = 16, tp = 2 }
    assert.is_true(r.tpot > 0)
    assert.is_true(tperf.serve { model = m, system = "h100-sxm", prompt = 64, output = 16, count = 3,
      load = { rate = 1 } }.tpot.mean > 0)
  end)

  it("is refused beyond 64, with the number", function()
    local ok, message = pcall(tperf.train, { model = model(65), system = "h100-sxm", global_batch = 8 })
    assert.is_false(ok)
    assert.truthy(message:find("group 65 ('width 4160') is the 65th kind of layer", 1, true), message)
    ok, message = pcall(tperf.train, { model = model(33), system = "h100-sxm", global_batch = 8, recompute = "full",
      recompute_method = "block", recompute_num_layers = 1 })
    assert.is_false(ok)
    assert.truthy(message:find("66 kinds of layers, at most 64 with the recomputed ones", 1, true), message)
  end)
end)
