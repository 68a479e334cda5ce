-- What a script's functions capture decides their ops, as their arguments do.
local tperf = require "tperf"

local HIDDEN <const>, LAYERS <const> = 1024, 4

local function model_of(fields)
  fields.name = "own"
  return tperf.model { name = "m", layers = LAYERS, hidden = HIDDEN, heads = 16, ffn = 4096, vocab = 32000, seq = 512,
    architecture = tperf.architecture(fields) }
end

local function column(width)
  return function(m, p) return { p:column { name = "c", n_in = m.hidden, n_out = width() } } end
end

local function block(width) return tperf.block("own", column(width)) end

-- Bytes of a layer's weights, as each question has them: 2 for each of HIDDEN x width weights.
local QUESTIONS = {
  train = function(m)
    return tperf.train { model = m, system = "h100-sxm", global_batch = 8 }.kinds[1].ops[1].weight_bytes
  end,
  search = function(m)
    local function weights(width) -- of all layers, without those of the tables
      local one = model_of { layer = { block(function() return width end) } }
      return tperf.search { model = one, system = "h100-sxm", gpus = 1, global_batch = 8, top = 1 }[1].memory.weights
    end
    local found = tperf.search { model = m, system = "h100-sxm", gpus = 1, global_batch = 8, top = 1 }[1].memory.weights
    return (found - 2 * weights(64) + weights(128)) / LAYERS
  end,
  ["train with a sequence length"] = function(m)
    return tperf.train { model = m, system = "h100-sxm", global_batch = 8, seq = 256 }.kinds[1].ops[1].weight_bytes
  end,
  ["layer with a sequence length"] = function(m)
    return tperf.layer { model = m, system = "h100-sxm", seq = 256 }[1].weight_bytes
  end,
  layer = function(m) return tperf.layer { model = m, system = "h100-sxm" }[1].weight_bytes end,
  infer = function(m)
    local r = tperf.infer { model = m, system = "h100-sxm", prompt = 16, generate = 4, ops = true }
    for _, row in ipairs(r.ops) do
      if row.name == "c" then return row.weight_bytes end
    end
  end,
}

describe("a captured", function()
  for name, ask in pairs(QUESTIONS) do
    it("local variable counts in tperf." .. name, function()
      local width
      local m = model_of { layer = { block(function() return width end) } }
      for _, value in ipairs { 1024, 4096, 2048, 1024 } do
        width = value
        assert.equal(2 * HIDDEN * value, ask(m))
      end
    end)
  end

  it("table's fields count, nested ones and those of functions that a block calls", function()
    local sizes, ask = { of = { mlp = 2 }, wide = false }, QUESTIONS.train
    local function width() return sizes.of.mlp * (sizes.wide and 1024 or 512) end
    local m = model_of { layer = { block(width) } }
    assert.equal(2 * HIDDEN * 1024, ask(m))
    sizes.of.mlp = 4
    assert.equal(2 * HIDDEN * 2048, ask(m))
    sizes.wide = true
    assert.equal(2 * HIDDEN * 4096, ask(m))
  end)

  it("variable of the function that lists groups counts", function()
    local first = 1
    local narrow, wide = { block(function() return 512 end) }, { block(function() return 8192 end) }
    local m = model_of { groups = function(own)
      return { { count = first, key = "narrow", blocks = narrow },
        { count = own.layers - first, key = "wide", blocks = wide } }
    end }
    local function runs()
      local c = tperf.train { model = m, system = "h100-sxm", global_batch = 8 }
      return c.memory.weights
    end
    local one = runs()
    first = 3
    local bytes_of_two_layers = 2 * 2 * HIDDEN * (8192 - 512)
    assert.equal(bytes_of_two_layers, one - runs())
  end)

  it("variable of a strategy counts", function()
    local factor = 1
    local s = tperf.strategy.define {
      name = "captures", extends = "tensor",
      column = function(share, o)
        return tperf.op.linear { name = o.name, tokens = share.tokens, n_in = o.n_in, n_out = factor * o.n_out }
      end,
    }
    local m = model_of { layer = { block(function() return 1024 end) } }
    for _, value in ipairs { 1, 3, 2 } do
      factor = value
      local c = tperf.train { model = m, system = "h100-sxm", global_batch = 8, strategy = s }
      assert.equal(2 * HIDDEN * 1024 * value, c.kinds[1].ops[1].weight_bytes)
    end
  end)

  it("variable that is swept gives one answer for each value", function()
    local width
    local m = model_of { layer = { block(function() return width end) } }
    local seen = {}
    for _, value in ipairs { 1024, 2048, 4096 } do
      width = value
      seen[#seen + 1] = tperf.train { model = m, system = "h100-sxm", global_batch = 8 }.time
    end
    assert.is_true(seen[1] < seen[2] and seen[2] < seen[3])
  end)
end)

describe("a model whose functions capture what they did", function()
  it("is not laid out again", function()
    local calls, width = { n = 0 }, 1024
    local count = setmetatable({}, { __call = function() calls.n = calls.n + 1 end }) -- an object, not a number
    local m = model_of { layer = { tperf.block("own", function(own, p)
      count()
      return { p:column { name = "c", n_in = own.hidden, n_out = width } }
    end) } }
    QUESTIONS.train(m)
    local before = calls.n
    QUESTIONS.train(m)
    assert.equal(before, calls.n)
    width = 2048
    QUESTIONS.train(m)
    assert.is_true(calls.n > before)
    before, width = calls.n, 1024
    QUESTIONS.train(m)
    assert.equal(before, calls.n)
  end)
end)
