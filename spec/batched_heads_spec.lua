-- Strategies whose heads also split the batch: attention on a GPU has a part of the micro-batch's sequences with more
-- of the heads (2.5-D), against hand counts and tensor parallelism.
local tperf = require "tperf"
local op = tperf.op

local PARTS <const> = 2 -- of the batch
local tensor = tperf.strategy.of "tensor"

tperf.strategy.define {
  name = "batched", extends = "tensor", summary = "tp, whose GPUs swap heads for sequences around attention",
  heads = function(p, heads, kv_heads)
    local projected = tensor.heads(p, heads, kv_heads)
    if p.tp < PARTS then return projected end
    return {
      heads = projected.heads * PARTS, kv_heads = math.max((kv_heads or heads) * PARTS // p.tp, 1), queries = p.seq,
      shards = 1, batch = p.micro_batch / PARTS, projected = projected,
    }
  end,
  exchange = function(p, cut, shape)
    if p.tp < PARTS then return {}, {} end
    local rows = 2.0 * cut.batch * p.seq * shape.head_dim
    local function all_to_all(name, heads)
      return { op.collective { name = name, kind = "all_to_all", axis = "tp", bytes = rows * heads } }
    end
    return all_to_all("to-sequences", cut.heads + 2 * cut.kv_heads), all_to_all("to-heads", cut.heads)
  end,
}

local LLAMA <const> = tperf.model "llama-3.1-8b" -- 32 heads of 128, 8 of keys and values

local function attention(model, q)
  q.model, q.system, q.micro_batch = model, "h100-sxm", q.micro_batch or 2
  local found
  for _, one in ipairs(tperf.layer(q)) do
    if one.name == "attention" then found = one end
  end
  return found
end

local scripted = LLAMA:with { architecture = tperf.architecture { name = "own", layer = {
  tperf.block("attention", function(m, p)
    local cut = p:heads(m.heads, m.kv_heads)
    return { p:column { name = "qkv", n_in = m.hidden, n_out = (m.heads + 2 * m.kv_heads) * m.head_dim,
      local_out = (cut.heads + 2 * cut.kv_heads) * m.head_dim },
      p:attention { heads = m.heads, kv_heads = m.kv_heads, head_dim = m.head_dim, causal = true },
      p:row { name = "proj", n_in = m.heads * m.head_dim, n_out = m.hidden } }
  end) } } }

describe("heads that also split the batch", function()
  for name, model in pairs { ["the library's"] = LLAMA, ["a script's"] = scripted } do
    it("do the same work with half of the sequences and twice the heads, in attention of " .. name, function()
      local a, b = attention(model, { tp = 8 }), attention(model, { strategy = "batched", tp = 8 })
      assert.near(1, b.forward.tensor_flops / a.forward.tensor_flops, 1e-12)
      assert.near(a.forward.bytes, b.forward.bytes, 1)
    end)

    it("read each key once, where tp has copies of it, in attention of " .. name, function()
      local s, d, heads, kv = LLAMA.seq, 128, 32, 8
      local q = { strategy = "batched", tp = 16, micro_batch = 2 }
      local one = attention(model, q)
      -- One sequence on a GPU, with 4 heads of queries and one of keys and values: 16 bits, and 4 bytes a row.
      local rows = 2 * heads // 16 * s
      assert.equal(2 * (2 * rows * d + 2 * (2 * kv // 16) * s * d) + 4 * rows, one.forward.bytes)
      local pairs_seen = rows * (s + 1) / 2 -- with d products and d - 1 sums each; then sums over the keys of a row
      assert.equal((2 * d - 1) * pairs_seen + d * (2 * pairs_seen - rows), one.forward.tensor_flops)
      assert.equal(4 * s * d, attention(model, { tp = 16, micro_batch = 2 }).forward.bytes - one.forward.bytes)
    end)
  end

  it("follow separate kernels, too", function()
    local function rows(q)
      q.model, q.system, q.micro_batch, q.attention = LLAMA, "h100-sxm", 2, "unfused"
      for _, one in ipairs(tperf.layer(q)) do
        if one.name == "softmax" then return one.forward.vector_flops end
      end
    end
    assert.equal(rows { tp = 8 }, rows { strategy = "batched", tp = 8 })
  end)

  it("leave layouts out of a search whose micro-batch they do not divide", function()
    local found = tperf.search { model = scripted, system = "h100-sxm", gpus = 8, global_batch = 8,
      strategy = "batched", tp = 4, recompute = "full" }
    for _, c in ipairs(found) do assert.equal(0, c.micro_batch % PARTS) end
    assert.is_true(#found > 0)
    assert.matches("strategy 'batched' leaves 0.5 of 1 sequences to attention on a GPU", found.left_out[1], 1, true)
    local ok, message = pcall(tperf.train, { model = LLAMA, system = "h100-sxm", global_batch = 8, strategy = "batched",
      tp = 4, dp = 2, micro_batch = 1 })
    assert.is_false(ok)
    assert.matches("give a 'micro_batch' that it divides", message, 1, true)
  end)

  it("are refused by layers that attend otherwise", function()
    local ok, message = pcall(tperf.train, { model = "deepseek-v3", system = "h100-sxm", global_batch = 8,
      strategy = "batched", tp = 4, dp = 2, micro_batch = 2 })
    assert.is_false(ok)
    assert.matches("gives attention a part of the sequences, which 'mla' does not follow", message, 1, true)
  end)
end)
