-- Weights that a block says are stored in bits of its own, and 2:4 sparse products, against hand counts and dtypes.
local tperf = require "tperf"
local op = tperf.op

local N <const>, I <const>, O <const>, LAYERS <const> = 16, 4096, 8192, 8

local function model_of(more, options)
  local block = tperf.block("block", function(_, p)
    local up = { name = "up", n_in = I, n_out = O }
    for name, value in pairs(more(p)) do up[name] = value end
    return { p:column(up), p:row { name = "down", n_in = O, n_out = I, weight_bits = up.weight_bits,
      sparse = up.sparse } }
  end)
  local m = { name = "m", layers = LAYERS, hidden = I, seq = 2048, vocab = 32000,
    architecture = tperf.architecture { name = "a", layer = { block }, first = {}, last = {} } }
  for name, value in pairs(options or {}) do m[name] = value end
  return tperf.model(m)
end

local function weights_of(more, question)
  local q = { model = model_of(more), system = "h100-sxm", prompt = 500, generate = 50, batch = 4 }
  for name, value in pairs(question or {}) do q[name] = value end
  local r = tperf.infer(q)
  return r.memory.weights, r
end

local function plain() return {} end
local function in_bits(bits) return function() return { weight_bits = bits } end end
local function sparse(p) return { sparse = p.mode ~= "train" } end

local ALL <const> = LAYERS * 2 * I * O -- weights

describe("weight_bits", function()
  for _, bits in ipairs { 1.6, 2, 3.5, 4.25, 16, 64 } do
    it("holds and reads so many bits a weight: " .. bits, function()
      local c = op.linear { tokens = N, n_in = I, n_out = O, weight_bits = bits }:counts()
      assert.near(I * O * bits / 8, c.weight_bytes, 1e-3)
      assert.equal(I * O, c.parameters)
      assert.near(2 * N * (I + O) + I * O * bits / 8, c.forward.bytes, 1e-3)
      assert.near(ALL * bits / 8, (weights_of(in_bits(bits))), 1e-3)
    end)
  end

  it("is a dtype's where it has as many bits", function()
    local a = op.linear { tokens = N, n_in = I, n_out = O, bias = true, weight_dtype = "fp8" }:counts()
    local b = op.linear { tokens = N, n_in = I, n_out = O, bias = true, weight_bits = 8 }:counts()
    assert.same(a, b)
    local _, asked = weights_of(plain, { weight_dtype = "int8" })
    local _, own = weights_of(in_bits(8))
    assert.equal(asked.memory.weights, own.memory.weights)
    assert.equal(asked.tpot, own.tpot)
  end)

  it("is cut, shared among experts and taken by tables as other weights are", function()
    assert.near(ALL * 2 / 8 / 4, (weights_of(in_bits(2), { tp = 4 })), 1e-3)
    assert.near(ALL * 2 / 8 / 4, (weights_of(in_bits(2), { strategy = "stationary", tp1 = 2, tp2 = 2 })), 1e-3)
    local experts = op.grouped_linear { tokens = N, n_in = 64, n_out = 32, experts = 8, active = 2, weight_bits = 2 }
    assert.equal(8 * 64 * 32 / 4, experts:counts().weight_bytes)
    assert.equal(2 * N * (64 + 32) + 2 * 64 * 32 / 4, experts:counts().forward.bytes)
    local rows = op.embedding { tokens = N, rows = 1000, width = 64, weight_bits = 4 }:counts()
    assert.equal(1000 * 64 / 2, rows.weight_bytes)
    assert.equal(N * 64 / 2 + 2 * N * 64, rows.forward.bytes)
    assert.equal(9 * 64 * 32 / 4, op.conv { batch = 1, size = { 8, 8 }, kernel = 3, n_in = 64, n_out = 32,
      weight_bits = 2 }:counts().weight_bytes)
  end)

  it("stays what it is, whatever a question asks for", function()
    for _, question in ipairs { { weight_dtype = "int8" }, { precision = "fp8-block" } } do
      local bytes, r = weights_of(in_bits(2), question)
      assert.near(ALL / 4, bytes, 1e-3)
      assert.is_nil(r.warnings) -- it has no weights in 16 bits
    end
    local c = tperf.train { model = model_of(in_bits(2)), system = "h100-sxm", global_batch = 8,
      precision = "fp8-current" }
    assert.near(ALL / 4, c.memory.weights, 1e-3)
  end)

  it("stays so below adapters", function()
    local function base(bits)
      return tperf.train { model = model_of(function() return { name = "qkv", weight_bits = bits } end),
        system = "h100-sxm", global_batch = 8, peft = { kind = "qlora", rank = 8 } }.memory.weights
    end
    assert.near(ALL * (16 - 2) / 8, base(16) - base(2), 1)
  end)

  it("refuses what it cannot be", function()
    local function refused(more, message)
      local o = { tokens = N, n_in = I, n_out = O }
      for name, value in pairs(more) do o[name] = value end
      local ok, said = pcall(op.linear, o)
      assert.is_false(ok)
      assert.matches(message, said, 1, true)
    end
    refused({ weight_bits = 0 }, "'weight_bits' must be above 0 and at most 64")
    refused({ weight_bits = 100 }, "'weight_bits' must be above 0 and at most 64")
    refused({ weight_bits = 2, weight_dtype = "int8" }, "'weight_bits' replaces 'weight_dtype': give one of both")
    local ok, said = pcall(tperf.train, { model = model_of(in_bits(2)), system = "h100-sxm", global_batch = 8,
      strategy = "summa", tp1 = 2, tp2 = 2 })
    assert.is_false(ok)
    assert.matches("share:column: the strategy's cut does not read 'weight_bits'", said, 1, true)
  end)
end)

describe("sparse", function()
  it("stores half of the weights and two bits for the place of each", function()
    local c = op.linear { tokens = N, n_in = I, n_out = O, sparse = true }:counts()
    assert.equal(I * O / 2 * (16 + 2) / 8, c.weight_bytes)
    assert.equal(N * O * (2 * (I / 2) - 1), c.forward.tensor_flops)
    assert.equal(I * O, c.parameters)
    local eight = op.linear { tokens = N, n_in = I, n_out = O, sparse = true, weight_bits = 8 }:counts()
    assert.equal(I * O / 2 * (8 + 2) / 8, eight.weight_bytes)
    assert.equal(ALL / 2 * 18 / 8, (weights_of(sparse)))
  end)

  it("is stored so in a question's precision, too", function()
    local bytes = weights_of(sparse, { precision = "fp8-block" })
    assert.near(ALL / 2 * (1 + 4 / 128 ^ 2 + 2 / 8), bytes, 1)
    assert.near(ALL / 2 * (1 + 2 / 8), (weights_of(sparse, { weight_dtype = "int8" })), 1)
  end)

  it("takes as long as a product half as deep where nothing else counts", function()
    local function time(o, n_in)
      local block = tperf.block("block", function(_, p)
        return { op.linear { tokens = p.tokens, n_in = n_in, n_out = O, sparse = o and p.mode ~= "train" } }
      end)
      local m = tperf.model { name = "m", layers = 1, hidden = I, seq = 8192, vocab = 32000,
        architecture = tperf.architecture { name = "a", layer = { block }, first = {}, last = {} } }
      return tperf.infer { model = m, system = "h100-sxm", prompt = 4096, generate = 1, batch = 16 }.ttft
    end
    assert.near(1, time(true, 2 * I) / time(false, I), 0.01)
  end)

  it("trains as whole products, and says so otherwise", function()
    local c = tperf.train { model = model_of(sparse), system = "h100-sxm", global_batch = 8 }
    assert.equal(2 * ALL, c.memory.weights)
    local ok, said = pcall(tperf.train, { model = model_of(function() return { sparse = true } end),
      system = "h100-sxm", global_batch = 8 })
    assert.is_false(ok)
    assert.matches("block 'block', op 'up': sparse products are those of serving, training multiplies whole ones: give "
      .. "sparse = p.mode ~= \"train\"", said, 1, true)
  end)

  it("wants a machine that skips zeros, and depths in fours", function()
    local ok, said = pcall(tperf.infer, { model = model_of(sparse), system = "tpu-v5e", prompt = 10, generate = 10 })
    assert.is_false(ok)
    assert.matches("the system does not say that its matrix units skip the zeros: accelerator.sparse = true", said, 1,
      true)
    ok, said = pcall(op.linear, { tokens = N, n_in = 6, n_out = O, sparse = true })
    assert.is_false(ok)
    assert.matches("'sparse' takes 2 of 4 weights along n_in = 6", said, 1, true)
  end)
end)
