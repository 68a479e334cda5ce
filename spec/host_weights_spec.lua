-- Weights in the host's memory (`on = "host"`): tables whose rows, and products whose weights, come over its link.
-- Times against bytes over the link's bandwidth, memory against models that lack the op.
local tperf = require "tperf"
local op = tperf.op

local ROWS <const>, WIDTH <const>, HIDDEN <const>, SEQ <const>, LAYERS <const> = 2 ^ 20 // 1 | 0, 256, 1024, 512, 4
local SYSTEM <const> = tperf.system "h100-sxm"
local LINK <const> = SYSTEM.host.bandwidth * SYSTEM.host.efficiency

local function model_of(extra)
  local layer = tperf.block("layer", function(m, p)
    return { p:norm { name = "norm", width = m.hidden },
      p:column { name = "up", n_in = m.hidden, n_out = 4 * m.hidden },
      p:row { name = "down", n_in = 4 * m.hidden, n_out = m.hidden }, extra and extra(p) or {} }
  end)
  return tperf.model { name = "m", layers = LAYERS, hidden = HIDDEN, seq = SEQ, vocab = 32000,
    architecture = tperf.architecture { name = "a", layer = { layer }, first = {}, last = {} } }
end

local function table_on(where)
  return function(p) return p:embedding { name = "table", rows = ROWS, width = WIDTH, on = where } end
end

local function train(model, more)
  local q = { model = model, system = SYSTEM, global_batch = 16, micro_batch = 2, software = "none" }
  for name, value in pairs(more or {}) do q[name] = value end
  return tperf.train(q)
end

-- The op of a name in a layer.
local function op_of(c, name)
  for _, one in ipairs(c.layers) do
    if one.name == name then return one end
  end
end

describe("weights on the host", function()
  it("take no memory of GPUs, of whatever kind", function()
    local without, with, here = train(model_of()), train(model_of(table_on "host")), train(model_of(table_on(nil)))
    for _, part in ipairs { "weights", "gradients", "optimizer" } do
      assert.equal(without.memory[part], with.memory[part])
      assert.is_true(here.memory[part] > without.memory[part])
    end
    assert.equal(LAYERS * ROWS * WIDTH, model_of(table_on "host"):parameters().total - model_of():parameters().total)
  end)

  it("come over the host's link, forward and backward", function()
    local a, b = op_of(train(model_of(table_on "host")), "table"), op_of(train(model_of(table_on(nil))), "table")
    local bytes = 2 * 2 * SEQ * WIDTH
    assert.equal(bytes, a.forward.host_bytes)
    assert.is_nil(b.forward.host_bytes)
    assert.near(bytes / LINK, a.forward.time - b.forward.time, 1e-12)
    assert.near(bytes / LINK, a.backward.time - b.backward.time, 1e-12)
    local c, t = train(model_of(table_on "host"), { simulate = true })
    assert.near(1, t.iteration_time / c.time, 1e-9)
  end)

  it("are shared among GPUs as tables are", function()
    local whole = 2 * 2 * SEQ * WIDTH
    assert.near(whole / 4, op_of(train(model_of(table_on "host"), { tp = 4 }), "table").forward.host_bytes, 1e-9)
    local ops = tperf.layer { model = model_of(table_on "host"), system = SYSTEM, strategy = "stationary", tp1 = 2,
      tp2 = 2, micro_batch = 2 } -- features over one axis, rows over the other
    assert.near(whole / 4, op_of({ layers = ops }, "table").forward.host_bytes, 1e-9)
  end)

  it("are read again where a layer is recomputed", function()
    local function backward(on, how)
      return op_of(train(model_of(table_on(on)), { recompute = how }), "table").backward.time
    end
    local again = (backward("host", "full") - backward(nil, "full")) - (backward("host") - backward(nil))
    assert.near(2 * 2 * SEQ * WIDTH / LINK, again, 1e-12)
  end)

  it("are read by products in every step of serving", function()
    local function infer(on, more)
      local q = { model = model_of(function(p)
        return op.linear { name = "big", tokens = p.tokens, n_in = HIDDEN, n_out = 8192,
          on = p.mode ~= "train" and on or nil }
      end), system = SYSTEM, prompt = 256, generate = 33, batch = 4 }
      for name, value in pairs(more or {}) do q[name] = value end
      return tperf.infer(q)
    end
    local bytes, a, b = 2 * HIDDEN * 8192, infer "host", infer(nil)
    assert.equal(LAYERS * bytes, b.memory.weights - a.memory.weights)
    assert.near(LAYERS * bytes / LINK, a.tpot - b.tpot, 1e-9)
    assert.near(LAYERS * bytes / LINK, a.ttft - b.ttft, 1e-9)
  end)

  it("serve so, too", function()
    local function serve(extra)
      return tperf.serve { model = model_of(extra), system = SYSTEM, load = { rate = 50 }, count = 100, prompt = 128,
        output = 16 }
    end
    local function streamed(p) return op.linear { name = "big", tokens = p.tokens, n_in = HIDDEN, n_out = 8192,
      on = p.mode ~= "train" and "host" or nil } end
    assert.is_true(serve(streamed).tpot.mean - serve().tpot.mean > LAYERS * 2 * HIDDEN * 8192 / LINK)
  end)

  it("stay there with their names: shared, frozen", function()
    local frozen = function(p)
      return op.frozen(p:column { name = "big", n_in = HIDDEN, n_out = 4096, on = "host" })
    end
    local one = op_of(train(model_of(frozen)), "big")
    assert.equal(2 * HIDDEN * 4096, one.forward.host_bytes)
    assert.equal(2 * HIDDEN * 4096, one.backward.host_bytes) -- the gradient of the input reads them again
    local narrow = op_of(train(model_of(frozen), { precision = "fp8-delayed" }), "big")
    assert.same({ HIDDEN * 4096, HIDDEN * 4096 }, { narrow.forward.host_bytes, narrow.backward.host_bytes })
    local shared = train(model_of(function(p)
      return p:embedding { name = "table", rows = ROWS, width = WIDTH, on = "host", shared_as = "t" }
    end), { pp = 2 })
    assert.equal(train(model_of(), { pp = 2 }).memory.weights, shared.memory.weights)
  end)

  it("refuse what is not modelled", function()
    local function refused(model, message, more)
      local ok, said = pcall(train, model, more)
      assert.is_false(ok)
      assert.matches(message, said, 1, true)
    end
    refused(model_of(function(p) return p:column { name = "big", n_in = HIDDEN, n_out = 64, on = "host" } end),
      "block 'layer', op 'big': a product whose weights are on the host is not trained there: op.frozen says so")
    refused(model_of(table_on "disk"), "'on' must be \"host\", got 'disk'")
    refused(model_of(function(p) return p:embedding { rows = 8, width = 8, on = "host", tied = true } end),
      "tied weights cannot be on the host")
    local bare = {}
    for name, value in pairs(SYSTEM) do bare[name] = name ~= "host" and value or nil end
    refused(model_of(table_on "host"), "op 'table' has its weights on the host, whose bandwidth is not given",
      { system = bare })
  end)
end)
