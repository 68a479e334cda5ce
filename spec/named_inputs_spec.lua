-- Tensors that several ops of a layer read are kept once (`input`), against ops whose input another one keeps, and
-- hand counts.
local tperf = require "tperf"
local op = tperf.op

local HIDDEN <const>, SEQ <const>, LAYERS <const> = 1024, 512, 4

local function model_of(blocks)
  local layer = {}
  for i, build in ipairs(blocks) do layer[i] = tperf.block("block" .. i, build) end
  return tperf.model { name = "m", layers = LAYERS, hidden = HIDDEN, seq = SEQ, vocab = 32000, norm = "rmsnorm",
    architecture = tperf.architecture { name = "a", layer = layer, first = {}, last = {} } }
end

local function activations(blocks, more)
  local q = { model = model_of(blocks), system = "h100-sxm", global_batch = 8, micro_batch = 2, software = "none" }
  for name, value in pairs(more or {}) do q[name] = value end
  return tperf.train(q).memory.activations
end

local STREAM <const> = 2 * 2 * SEQ * HIDDEN -- bytes of a micro-batch's stream

-- Two products that read one tensor; how: the fields that say so.
local function pair(first, second)
  return function(_, p)
    local a, b = { name = "a", n_in = HIDDEN, n_out = 64 }, { name = "b", n_in = HIDDEN, n_out = 64 }
    for name, value in pairs(first) do a[name] = value end
    for name, value in pairs(second) do b[name] = value end
    return { p:column(a), p:column(b) }
  end
end

local X <const>, BOTH <const>, ELSEWHERE <const> = { input = "x" }, {}, { input_kept_elsewhere = true }

describe("input", function()
  it("keeps a tensor of two ops once", function()
    assert.equal(LAYERS * 2 * STREAM, activations { pair(BOTH, BOTH) })
    assert.equal(LAYERS * STREAM, activations { pair(X, X) })
    assert.equal(LAYERS * 2 * STREAM, activations { pair(X, { input = "y" }) })
  end)

  for i, more in ipairs { {}, { tp = 2 }, { tp = 2, sequence_parallel = false }, { pp = 2 }, { recompute = "full" },
    { strategy = "context", cp = 2 } } do
    it("is input_kept_elsewhere of all but one " .. i, function()
      assert.equal(activations({ pair(BOTH, ELSEWHERE) }, more), activations({ pair(X, X) }, more))
    end)
  end

  it("reaches over the blocks of a layer", function()
    local function one(fields)
      return function(m, p)
        return { p:norm { name = "norm", width = HIDDEN, input = fields.input }, pair(fields, ELSEWHERE)(m, p) }
      end
    end
    assert.equal(LAYERS * STREAM, activations { one(X), one(X) })
    assert.equal(LAYERS * 4 * STREAM, activations { one(BOTH), one(BOTH) })
  end)

  it("keeps the largest part that any op keeps", function()
    local function read(whole_first)
      return function(_, p)
        local whole = op.linear { name = "whole", tokens = p.tokens, n_in = HIDDEN, n_out = 64, input = "x" }
        local part = p:column { name = "part", n_in = HIDDEN, n_out = 64, input = "x" }
        return whole_first and { whole, part } or { part, whole }
      end
    end
    assert.equal(LAYERS * STREAM, activations({ read(true) }, { tp = 2 }))
    assert.equal(LAYERS * STREAM, activations({ read(false) }, { tp = 2 }))
  end)

  it("leaves what else an op keeps", function()
    local pass = { elements = 2.0 * SEQ * HIDDEN, forward_flops = 1, backward_flops = 1, forward_bytes = 2,
      backward_bytes = 2, saved_bytes = 3, input_bytes = 2, input = "x" }
    assert.equal(LAYERS * (STREAM + 2 * STREAM / 2), activations { function(_, p)
      return { p:column { name = "a", n_in = HIDDEN, n_out = 64, input = "x" }, op.elementwise(pass),
        op.elementwise(pass) }
    end })
  end)

  it("is a name", function()
    local ok, said = pcall(activations, { pair({ input = 3 }, {}) })
    assert.is_false(ok)
    assert.matches("share:column: 'input' must be a name, got 3", said, 1, true)
    ok, said = pcall(op.linear, { tokens = 1, n_in = 1, n_out = 1, input = ("x"):rep(30) })
    assert.is_false(ok)
    assert.matches("is longer than 23 bytes", said, 1, true)
  end)
end)
