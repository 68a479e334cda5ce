-- Random descriptions: a model's blocks hold the parameters that it counts, and no count is negative, missing or larger
-- with more GPUs. Seeded, so every run tries the same ones.
local cases = require "cases"
local tperf = require "tperf"

local SEED, CASES, BYTES = 20240501, cases(24, 150), 2

math.randomseed(SEED)
local function pick(list) return list[math.random(#list)] end
local function maybe(value) if math.random(2) == 1 then return value end end
local function flag() return math.random(2) == 1 end

local function pattern(layers)
  local letters = {}
  for i = 1, layers do letters[i] = pick { "M", "*", "-", "E" } end
  letters[1] = "E" -- so that `experts` is used
  return table.concat(letters)
end

local function random_experts()
  local count = pick { 4, 8, 64 }
  return {
    count = count, top_k = pick { 1, 2, 4 }, ffn = pick { 64, 192 }, shared = math.random(0, 2),
    shared_ffn = maybe(128), shared_gate = flag(), router_bias = flag(), capacity_factor = maybe(1.25),
    imbalance = pick { 1, 1.5 }, dense_layers = pick { 0, 1, { 2, 3 } }, every = pick { 1, 2 },
  }
end

local function random_model()
  local layers, hidden, heads = pick { 4, 6, 12 }, pick { 256, 512 }, pick { 4, 8 }
  local m = {
    name = "random", layers = layers, hidden = hidden, heads = heads, kv_heads = pick { 1, 2, heads },
    head_dim = maybe(64), ffn = pick { 512, 1024 }, vocab = pick { 1000, 1024 }, seq = pick { 256, 512 },
    gated = flag(),
    norm = pick { "layernorm", "rmsnorm" }, norms_per_layer = math.random(0, 5), embedding_norm = flag(),
    final_norm = flag(), qk_norm = flag(), tied_embeddings = flag(), embedding_width = maybe(128),
    positions = pick { "learned", "rotary", "alibi", "none" }, parallel_block = flag(), biases = maybe(flag()),
    attention_sinks = flag(), mtp = pick { 0, 0, 1, 2 }, causal = flag(), dropout = maybe(flag()),
  }
  m.attention_gate = flag()
  if math.random(4) == 1 then m.qk_norm = "whole" end
  local kind = math.random(9)
  if kind == 1 then m.experts = random_experts() end
  if kind == 2 then
    m.mla = { q_rank = maybe(96), kv_rank = 64, nope_dim = 32, rope_dim = 16, v_dim = 48 }
    m.head_dim, m.qk_norm, m.attention_sinks, m.kv_heads, m.attention_gate = nil, nil, nil, nil, nil
  end
  if kind == 3 then
    m.mamba = { state = 16, heads = 8, head_dim = 32, groups = pick { 1, 2, 8 }, bias = flag(), conv_bias = flag(),
      chunk = 64 }
    m.layer_pattern, m.experts = pattern(layers), random_experts()
  end
  if kind == 4 then m.window = { size = 128, pattern = pick { "w", "wf", "wwf" } } end
  if kind == 5 then
    m.delta = { heads = pick { 2, 4 }, value_heads = pick { 4, 8 }, key_dim = 32, value_dim = 64, chunk = 64 }
    m.mixers, m.experts = pick { "D", "DD*", "*D" }, maybe(random_experts())
  end
  if kind == 6 then
    m.mamba1 = { state = 16, inner = 512, rank = 24, bias = flag(), conv_bias = flag(), norms = flag() }
    if flag() then m.mixers = pick { "M", "MM*" } end
  end
  if kind == 7 then
    m.experts, m.mtp, m.mtp_pattern = random_experts(), 2, "*E"
    m.experts.latent = maybe(128)
  end
  if kind == 8 then
    m.mla = { q_rank = 96, kv_rank = 64, nope_dim = 32, rope_dim = 16, v_dim = 48 }
    m.sparse = { heads = 4, head_dim = 32, top_k = 128 }
    m.head_dim, m.qk_norm, m.attention_sinks, m.kv_heads, m.attention_gate = nil, nil, nil, nil, nil
  end
  if kind == 9 then
    m.encoder = { segments = pick { 0, 2 }, transform = flag() or m.embedding_width ~= nil, pooler = flag(),
      pooler_classes = maybe(2) }
  end
  return tperf.model(m)
end

-- Parameters, FLOPs and saved bytes of one GPU for a micro-batch.
local function totals(model, strategy, sizes, options)
  local s, rules = tperf.strategy.of(strategy), tperf.rules()
  local made, sum = tperf.architecture.of(model), { weights = 0, mtp = 0, flops = 0, saved = 0 }
  local function lay(blocks, group, times)
    local share = tperf.strategy.share(s, model, 1, sizes, rules, options)
    share.group = group
    for _, b in ipairs(blocks) do
      for _, op in ipairs(b:ops(model, share)) do
        local c = op:counts()
        local into = b.name == "mtp" and "mtp" or "weights"
        if not c.tied then sum[into] = sum[into] + times * c.weight_bytes / BYTES end
        sum.flops = sum.flops + times * (c.forward.tensor_flops + c.backward.tensor_flops)
        sum.saved = sum.saved + times * c.saved_bytes
      end
    end
  end
  lay(made.first, nil, 1)
  for _, group in ipairs(made.groups) do lay(group.blocks, group, group.count) end
  lay(made.last, nil, 1)
  return sum
end

describe("any architecture", function()
  for case = 1, CASES do
    local model = random_model()
    it(("holds the parameters that it counts, case %d of seed %d"):format(case, SEED), function()
      local count = model:parameters()
      local one = totals(model, "tensor", { 1, 1 }, {})
      assert.equal(count.total, one.weights)
      assert.equal(count.mtp, one.mtp)
      for _, variant in ipairs { "unfused", "recompute" } do
        assert.equal(one.weights, totals(model, "tensor", { 1, 1 }, { attention = variant }).weights)
      end
      assert.same(one, totals(model, "context", { 1, 1, 1 }, {}))
      for _, cut in ipairs { { 2, 2, 1 }, { 4, 4, 1 }, { 2, 2, 2 } } do -- tp, etp, ep
        local two = totals(model, "tensor", cut, {})
        -- At best an equal part, at worst a copy.
        assert.is_true(two.weights + two.mtp >= (one.weights + one.mtp) / (cut[1] * cut[3]))
        assert.is_true(two.weights <= one.weights and two.flops <= one.flops and two.saved <= one.saved)
        assert.is_true(two.flops >= one.flops / cut[1] * 0.99)
      end
      local full = totals(model, "tensor", { 1, 1 }, { recompute = "full" })
      assert.is_true(full.saved <= one.saved)
      assert.equal(one.weights, full.weights)
      for _, mode in ipairs { "prefill", "decode" } do
        local decode = mode == "decode"
        local served = totals(model, "tensor", { 2, 2, 2 }, {
          mode = mode, seq = decode and 1 or 100, context = decode and 100 or 0, sequence_parallel = false,
        })
        assert.equal(totals(model, "tensor", { 2, 2, 2 }, {}).weights, served.weights)
        assert.equal(0, served.mtp)
      end
    end)
  end
end)
