-- Blocks and architectures: totals over every shipped model's layers and ends against parameter counts, published
-- activation memory and published FLOPs per token.
local tperf = require "tperf"

local MODELS = {
  "bloom-176b", "deepseek-v2", "deepseek-v3", "falcon-180b", "gemma-2-27b", "gpt-oss-120b", "gpt2", "gpt3-175b",
  "kimi-k2", "llama-2-70b", "llama-2-7b", "llama-3.1-405b", "llama-3.1-70b", "llama-3.1-8b", "llama-4-maverick",
  "mamba2-2.7b", "megatron-530b", "mixtral-8x22b", "mixtral-8x7b", "opt-175b", "palm-540b", "qwen2.5-72b",
  "qwen3-235b-a22b", "qwen3-32b", "vit-22b", "bert-large", "deepseek-v3.2", "dit-xl-2", "gemma-3-27b", "glm-4.5",
  "glm-4.5-air", "glm-5", "jamba-v0.1", "mamba-2.8b", "minimax-m2", "nemotron-3-super-120b-a12b", "nemotron-h-56b",
  "qwen3-next-80b-a3b", "qwen3.6-35b-a3b", "qwen3.8-27b", "vit-large-16",
}
-- Models of files, for what no shipped model has.
for _, name in ipairs { "granite-4.0-h-small", "bamba-9b", "falcon3-mamba-7b", "roberta-base", "modernbert-base",
  "electra-small-discriminator", "electra-base-generator", "bart-base",
  "clip-vit-large-text", "dinov2-base", "deit-base-distilled-hasta",
  "clip-vit-large-vision", "esm2-650m" } do
  MODELS[#MODELS + 1] = "spec/data/hf/" .. name .. ".json"
end
-- Ops whose backward pass recomputes what the forward pass did not keep.
local REMADE = { attention = true, scan = true, rule = true, ["index-scores"] = true }
local BYTES = 2 -- of a parameter

local rules = tperf.rules()

-- Calls visit(counts, times, part) for every op that one GPU runs for a micro-batch; part is "layer", "first", "last"
-- or "mtp".
local function each_op(model, o, visit)
  local s = tperf.strategy.of(o.strategy or "tensor")
  local sizes = {}
  for i, name in ipairs(s.axis_names) do sizes[i] = o[name] or name == "etp" and o.tp or name ~= "shard" and 1 or 0 end
  local made = tperf.architecture.of(model)
  local function lay(blocks, group, times, part)
    local options = { group = group }
    for _, name in ipairs { "seq", "attention", "recompute", "sequence_parallel", "mode", "context", "ep" } do
      options[name] = o[name]
    end
    local share = tperf.strategy.share(s, model, o.micro_batch or 1, sizes, rules, options)
    for _, b in ipairs(blocks) do
      for _, op in ipairs(b:ops(model, share)) do visit(op:counts(), times, b.name == "mtp" and "mtp" or part) end
    end
  end
  lay(made.first, nil, 1, "first")
  for _, group in ipairs(made.groups) do lay(group.blocks, group, group.count, "layer") end
  lay(made.last, nil, 1, "last")
end

-- Parameters on one GPU by part, and in order those of each op that has some.
local function weights(model, o)
  local sum, list = { layer = 0, first = 0, last = 0, mtp = 0 }, {}
  each_op(model, o, function(op, times, part)
    local n = op.tied and 0 or op.weight_bytes / BYTES * times
    sum[part] = sum[part] + n
    if op.weight_bytes > 0 then list[#list + 1] = { name = op.name, n = n, expert = op.expert } end
  end)
  return sum, list
end

-- Bytes of activations that one layer keeps.
local function saved(model, o)
  local sum = 0
  each_op(model, o, function(op, times, part) sum = sum + (part == "layer" and times * op.saved_bytes or 0) end)
  return sum / model.layers
end

local function fits(model, tp)
  local s = tperf.strategy.of "tensor"
  return s.axes[1].admits(model, { tp = tp, micro_batch = 1, seq = model.seq }, rules)
    and (not model.vocab or model.vocab % tp == 0) and (model.mla or not model.kv_heads or model.kv_heads % tp == 0)
    and (not model.mamba or model.mamba.groups % tp == 0)
end

describe("architectures", function()
  for _, name in ipairs(MODELS) do
    local model = tperf.model(name)

    it("have every parameter of " .. name, function()
      local count = model:parameters()
      for _, strategy in ipairs { "tensor", "context" } do
        local sum = weights(model, { strategy = strategy })
        assert.equal(count.total, sum.layer + sum.first + sum.last)
        assert.equal(count.mtp, sum.mtp)
      end
    end)

    it("spread the parameters of " .. name .. " over tensor-parallel GPUs", function()
      local _, whole = weights(model, {})
      for _, tp in ipairs { 2, 4, 8 } do
        if fits(model, tp) then
          local sum, list = weights(model, { tp = tp })
          local copies = 0 -- norms, biases after a sum, routers, latents: the same on every GPU
          for i, one in ipairs(list) do
            assert.equal(whole[i].name, one.name)
            local extra = tp * one.n - whole[i].n
            local cut = one.name:match "fc" or one.name:match "proj$" or one.name:match "^out$"
              or one.name:match "up$" or one.name == "qkv" or one.name == "head-bias" or one.name == "table"
              or one.name == "head"
            -- Split parameters add up, except for a bias as wide as the stream; others are copied or split.
            if cut then
              local bias = extra / (tp - 1)
              assert.is_true(bias == 0 or bias % model.hidden == 0 and bias < 1e-2 * one.n, one.name)
            else
              assert.is_true(extra == 0 or one.n == whole[i].n, one.name)
            end
            copies = copies + extra
          end
          local total = tp * (sum.layer + sum.first + sum.last + sum.mtp)
          local count = model:parameters()
          assert.equal(count.total + count.mtp, total - copies)
        end
      end
    end)
  end

  it("spread experts over ep", function()
    local model = tperf.model "mixtral-8x7b"
    local _, whole = weights(model, {})
    local _, list = weights(model, { ep = 8 })
    local experts = 0
    for i, one in ipairs(list) do
      assert.equal(whole[i].n, one.expert and 8 * one.n or one.n)
      if one.expert then experts = experts + 8 * one.n end
    end
    assert.equal(model:parameters().components.experts, experts)
  end)

  -- arXiv 2205.05198, tables 1 and 2 and section 5: the bytes that a GPT layer keeps per micro-batch.
  describe("keep the published activations", function()
    local model = tperf.model "gpt3-175b"
    local a, h, s = model.heads, model.hidden, model.seq
    for _, b in ipairs { 1, 2 } do
      for _, t in ipairs { 1, 2, 8 } do
        local function check(expected, o)
          o.tp, o.micro_batch = t, b
          assert.equal(s * b * h * expected, saved(model, o))
        end
        local scores = 5 * a * s / h

        it(("for %d samples on %d GPUs"):format(b, t), function()
          check(10 + 24 / t + scores / t, { attention = "unfused", sequence_parallel = false })
          check((34 + scores) / t, { attention = "unfused" })
        end)

        it(("with selective recomputation, for %d samples on %d GPUs"):format(b, t), function()
          for _, o in ipairs { { attention = "unfused", recompute = "selective" }, { attention = "recompute" } } do
            check(34 / t, o)
            o.sequence_parallel = false
            check(10 + 24 / t, o)
          end
        end)

        it(("with full recomputation, for %d samples on %d GPUs"):format(b, t), function()
          for _, variant in ipairs { "flash", "unfused" } do
            check(2, { attention = variant, recompute = "full", sequence_parallel = false })
            check(2 / t, { attention = variant, recompute = "full" })
          end
        end)

        it(("with fused attention, for %d samples on %d GPUs"):format(b, t), function()
          check((34 + 4 * a / h) / t, { attention = "flash" }) -- and the log-sum-exp of every row
        end)
      end
    end
  end)

  -- Section 4.3: 4 s b h / t (1 + v / h) at the end, and the dropout mask of the embedding.
  it("keep the published activations of the first and last stage", function()
    local model = tperf.model "megatron-530b" -- its vocabulary is padded
    local h, s, v, t = model.hidden, model.seq, model.vocab, 8
    local ends = { first = 0, last = 0 }
    each_op(model, { tp = t, micro_batch = 2 }, function(op, _, part)
      if ends[part] then ends[part] = ends[part] + op.saved_bytes end
    end)
    assert.equal(2 * s * h / t, ends.first)
    assert.equal(4 * s * 2 * h / t * (1 + v / h), ends.last)
  end)

  it("recompute the layers of prediction modules, too", function()
    local function kept(recompute)
      local sum, whole = 0, 0
      each_op(tperf.model "deepseek-v3", { recompute = recompute }, function(op, _, part)
        if part == "mtp" and op.recomputed then sum = sum + op.saved_bytes end
        if part == "mtp" then whole = whole + op.saved_bytes end
      end)
      return sum, whole
    end
    local m = tperf.model "deepseek-v3"
    local input, few = kept "full"
    assert.equal(2 * m.seq * m.hidden, input)
    local _, all = kept "none"
    -- The rest of what a module keeps: three norms' inputs, the joined state and embedding, the head's input, logits.
    assert.equal(input + 2 * m.seq * m.hidden * (3 + 2 + 1) + 4 * m.seq * m.vocab, few)
    assert.is_true(all > few)
  end)

  it("gather shared keys and values before they are repeated", function()
    for _, variant in ipairs { "flash", "unfused" } do
      local model, bytes = tperf.model "llama-3.1-8b", 0
      each_op(model, { strategy = "context", cp = 4, attention = variant }, function(op, times)
        for _, c in ipairs(op.forward.comms) do
          assert.is_true(c.axis == "tp" or c.axis == "cp")
          if c.axis == "cp" then bytes = bytes + times * c.bytes end
        end
      end)
      assert.equal(model.layers * 2 * BYTES * model.seq * model.kv_heads * model.head_dim, bytes)
    end
  end)

  it("keep what Llama's fused kernels keep", function()
    local m = tperf.model "llama-3.1-8b"
    local s, h, kv = m.seq, m.hidden, m.kv_heads * m.head_dim
    -- two norms' inputs and outputs, queries, keys, values, log-sum-exps, the projection's input, both halves of
    -- SwiGLU and their product: 16 bits each
    local expected = 2 * s * (4 * h + h + 2 * kv + h + 3 * m.ffn) + 4 * s * m.heads
    assert.equal(expected, saved(m, {}))
    assert.equal(expected / 8, saved(m, { tp = 8 }))
    assert.equal(expected / 8, saved(m, { strategy = "context", tp = 2, cp = 4 }))
  end)

  -- Decode: one new token of each of b sequences, n tokens in the cache.
  describe("in decode", function()
    local b, n = 8, 1000

    local function ops_of(name, o)
      local ops = {}
      o.mode, o.seq, o.context, o.micro_batch = "decode", 1, n, b
      each_op(tperf.model(name), o, function(op) ops[op.name] = op end)
      return ops
    end

    it("read the cache of grouped heads once", function()
      for _, tp in ipairs { 1, 4, 8, 16 } do -- 8 key-value heads: beyond 8 GPUs each has a copy of one
        local m, op = tperf.model "llama-3.1-70b", ops_of("llama-3.1-70b", { tp = tp }).attention
        local kv, heads = math.max(m.kv_heads // tp, 1), m.heads // tp
        local cached, own = 2 * kv * (n + 1) * m.head_dim * BYTES, heads * (2 * m.head_dim * BYTES + 4)
        assert.equal(b * (cached + own), op.forward.bytes)
      end
    end)

    it("read latents once for all heads, with the FLOPs of the absorbed form", function()
      local m, ops = tperf.model "deepseek-v3", ops_of("deepseek-v3", {})
      local a, h = m.mla, m.heads
      local width = a.kv_rank + a.rope_dim
      assert.equal(b * ((n + 1) * width * BYTES + h * ((width + a.kv_rank) * BYTES + 4)), ops.attention.forward.bytes)
      local pairs_flops = 2 * b * h * (n + 1) * (width + a.kv_rank)
      assert.near(1, ops.attention.forward.tensor_flops / pairs_flops, 0.01)
      -- q W_UK and the latent output times W_UV, for every head and token.
      assert.near(1, ops["k-absorbed"].forward.tensor_flops / (2 * b * h * a.kv_rank * a.nope_dim), 0.01)
      assert.near(1, ops["v-absorbed"].forward.tensor_flops / (2 * b * h * a.kv_rank * a.v_dim), 0.01)
      -- one product from the stream into both latents
      assert.near(1, ops.down.forward.tensor_flops / (2 * b * m.hidden * (a.q_rank + width)), 0.01)
    end)

    it("read no further back than the window", function()
      local m = tperf.model "gemma-2-27b" -- the last group has no window
      local bytes = {}
      each_op(m, { mode = "decode", seq = 1, context = 9999, micro_batch = 1 }, function(op)
        if op.name == "attention" then bytes[op.forward.bytes] = true end
      end)
      local own = m.heads * (2 * m.head_dim * BYTES + 4)
      local function read(keys) return own + 2 * m.kv_heads * m.head_dim * BYTES * keys end
      assert.same({ [read(4096)] = true, [read(10000)] = true }, bytes)
    end)

    it("read only the experts that a token chose", function()
      local m = tperf.model "mixtral-8x7b"
      local expected = 8 * (1 - (6 / 8) ^ b) -- of 8 experts; a token skips each with probability 6/8
      local op = ops_of("mixtral-8x7b", {}).fc2
      local rows = b * m.experts.top_k
      local weights_read = expected * m.hidden * m.experts.ffn
      assert.near(BYTES * (rows * (m.hidden + m.experts.ffn) + weights_read), op.forward.bytes, 1)
    end)

    it("step Mamba's state, and compute logits only for the last token of a prompt", function()
      local m, ops = tperf.model "mamba2-2.7b", ops_of("mamba2-2.7b", {})
      local s = m.mamba
      assert.equal(6 * b * s.heads * s.head_dim * s.state, ops.scan.forward.vector_flops)
      assert.equal(0, ops.scan.forward.tensor_flops)
      local prefill
      each_op(m, { mode = "prefill", micro_batch = b }, function(op) prefill = op.name == "head" and op or prefill end)
      assert.equal(b * m.vocab * (2 * m.hidden - 1), prefill.forward.tensor_flops)
      assert.is_nil(ops.loss)
    end)
  end)

  it("all-reduce every partial sum if each GPU holds the whole stream", function()
    local function bytes_of(name, direction)
      local model, sum = tperf.model(name), 0
      each_op(model, { tp = 2, sequence_parallel = false }, function(op, times, part)
        for _, c in ipairs(op[direction].comms) do
          assert.equal("all_reduce", c.kind)
          sum = sum + (part == "layer" and times * c.bytes or 0)
        end
      end)
      return sum / (BYTES * model.layers * model.seq * model.hidden)
    end
    for _, direction in ipairs { "forward", "backward" } do
      assert.equal(2, bytes_of("llama-3.1-8b", direction)) -- arXiv 1909.08053, section 3: two each way
      assert.equal(2, bytes_of("mixtral-8x7b", direction))
      assert.near(1, bytes_of("palm-540b", direction), 1e-9) -- one where attention and MLP share the stream
    end
  end)

  it("refuse a block that a strategy has no cut for, naming the cut", function()
    for name, cut in pairs { ["mixtral-8x7b"] = "router", ["deepseek-v3"] = "replicated", ["mamba2-2.7b"] = "scan" } do
      assert.error_matches(function() each_op(tperf.model(name), { strategy = "summa" }, function() end) end,
        "strategy 'summa' does not cover block '%w+': it has no cut '" .. cut .. "'")
    end
  end)

  it("leave such a strategy out of a search over all strategies", function()
    local function search(strategy)
      return tperf.search {
        model = "mixtral-8x7b", system = "h100-sxm", gpus = 64, global_batch = 64, strategy = strategy,
      }
    end
    assert.is_true(search "all".feasible > 0)
    local none = search "summa"
    assert.equal(0, none.candidates)
    assert.matches("is not for models with experts", none.reason)
  end)

  it("refuse sizes that do not divide, naming block, op and size", function()
    local model = tperf.model "llama-3.1-8b"
    assert.error_matches(function() each_op(model, { tp = 3 }, function() end) end,
      "a size of %d+ is not divided by tp = 3")
    local odd = model:with { kv_heads = 2, heads = 6, head_dim = 64 }
    assert.error_matches(function() each_op(odd, { tp = 3 }, function() end) end,
      "block 'attention': kv_heads = 2 neither divides the 3 GPUs nor is divided by them")
    assert.error_matches(function() each_op(tperf.model "mixtral-8x7b", { ep = 3 }, function() end) end,
      "block 'moe': the 8 experts are not divided by ep = 3")
  end)

  -- Forward FLOPs on the matrix units against model:flops_per_token (arXiv 2204.02311, appendix B, without
  -- embedding lookups), with the same attention pairs.
  for _, name in ipairs(MODELS) do
    it("spend the published FLOPs for " .. name, function()
      local model = tperf.model(name)
      local forward, backward, again = 0, 0, 0
      each_op(model, {}, function(op, times, part)
        if part == "mtp" then return end
        forward = forward + times * op.forward.tensor_flops
        backward = backward + times * op.backward.tensor_flops
        if REMADE[op.name] then
          again = again + times * (op.backward.tensor_flops - 2 * op.forward.tensor_flops)
        end
      end)
      local options = { convention = "matmul", backward = false }
      local published = model:flops_per_token(options).total * model.seq
      assert.near(1, forward / published, 0.01)
      -- Fused attention and scans recompute part of their forward pass instead of keeping it.
      assert.near(1, (backward - again) / (2 * published), 0.01)
      assert.is_true(again >= 0)
    end)
  end
end)

describe("unfused attention", function()
  -- vTrain's layers are traced with Megatron-LM's softmax: with two heads on a GPU, one sequence took 23 and 24 %
  -- longer than two, which are twice the work.
  it("has a fused softmax of four heads and their multiples, up to 2,048 keys", function()
    local function launches(heads, micro_batch, seq)
      local c = tperf.train { model = { name = "m", layers = 2, hidden = 128 * heads, heads = heads, ffn = 512 * heads,
        vocab = 1024, seq = seq, dropout = true }, system = "a100-sxm-80gb", gpus = 1, global_batch = micro_batch,
        micro_batch = micro_batch, explain = true, software = { name = "slow", compute = 1, attention = 1, memory = 1,
        comm = 1, host = 1, overlap = 1, kernel = "unfused", megatron_softmax = true, step_calls = 0 } }
      for _, term in ipairs(c.sum) do
        local forward, backward = term.formula:match "what (%d+) launches forward and (%d+) backward"
        if forward and term.term:find "layers?$" == nil and tonumber(forward) > 5 then
          return tonumber(forward), tonumber(backward)
        end
      end
    end
    local forward, backward = launches(4, 1, 2048)
    assert.same({ forward, backward }, { launches(2, 2, 2048) })
    assert.same({ forward + 5, backward + 4 }, { launches(2, 1, 2048) })
    assert.same({ forward + 5, backward + 4 }, { launches(6, 1, 2048) })
    assert.same({ forward + 5, backward + 4 }, { launches(4, 1, 2052) })
  end)

  -- A row of 150 16-bit numbers is not a multiple of 8 bytes, one of 152 is: fewer FLOPs, but not on matrix units.
  it("runs off the matrix units if rows are not aligned", function()
    local function time(head_dim)
      local sum = 0
      for _, one in ipairs(tperf.layer {
        model = { name = "m", layers = 1, hidden = 96 * head_dim, heads = 96, seq = 2048, vocab = 50000 },
        system = "a100-sxm-80gb", tp = 8, attention = "unfused", micro_batch = 4,
      }) do
        if one.name == "logits" or one.name == "attend" then
          sum = sum + one.forward.tensor_flops / one.forward.compute_time
        end
      end
      return sum / 2
    end
    assert.is_true(time(152) > 100e12)
    -- the peak of 32-bit products, what kernels without a curve reach of it, and what conversions leave
    assert.near(19.5e12 * 0.8 * 0.8, time(150), 2e10) -- launches aside
  end)

  it("takes a stack's factor of all products, not that of fused kernels", function()
    local function time(kernels, attention)
      return tperf.train { model = "gpt3-175b", system = "a100-sxm-80gb", tp = 8, pp = 8, dp = 1, global_batch = 16,
        attention = kernels, software = { name = "own", compute = 1, attention = attention, memory = 1, comm = 1,
          host = 0, overlap = 1 } }.time
    end
    assert.equal(time("unfused", 1), time("unfused", 2))
    assert.is_true(time("flash", 2) > 1.02 * time("flash", 1))
  end)
end)
