-- Replacements and variants of attention: gated delta nets, Mamba-1, sparse attention; encoders and diffusion
-- transformers. Counts worked out by hand, and published FLOPs.
local hf_files = require "hf_files"
local tperf = require "tperf"

local rules = tperf.rules()

-- The ops that one GPU runs for a sequence in the first group with that mixer, by name.
local function ops_of(model, wanted, o)
  o = o or {}
  local s = tperf.strategy.of "tensor"
  for _, group in ipairs(tperf.architecture.of(model).groups) do
    if wanted(group) then
      local share = tperf.strategy.share(s, model, o.micro_batch or 1, { o.tp or 1, 1 }, rules, {
        group = group, seq = o.seq, mode = o.mode, context = o.context, sequence_parallel = o.sequence_parallel,
      })
      local found = {}
      for _, b in ipairs(group.blocks) do
        for _, op in ipairs(b:ops(model, share)) do found[op:counts().name] = op:counts() end
      end
      return found
    end
  end
end

local function is_delta(group) return group.delta end
local function is_mamba(group) return group.mamba end
local function any() return true end

local function refusal(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("a gated delta net", function()
  local model = tperf.model "qwen3-next-80b-a3b"

  it("alternates with attention", function()
    local kinds = {}
    for _, group in ipairs(model:groups()) do kinds[#kinds + 1] = group.key .. " " .. group.count end
    assert.same({ "moe/delta/full 3", "moe/gqa/full 1", "moe/delta/full 3" }, table.move(kinds, 1, 3, 1, {}))
    assert.equal(24, #kinds)
  end)

  it("costs its matrix products, chunk by chunk", function()
    local ops = ops_of(model, is_delta, { seq = 4096 })
    -- A chunk of 64 tokens and a head of 128: K K' and Q K' 2 x 2 64 64 128; the triangle inverted 2 64^3 / 3; times K
    -- and V, and scores times values, 3 x 2 64 64 128; three products with a state of 128 x 128, 3 x 2 64 128 128.
    local chunk = 5 * 2 * 64 * 64 * 128 + 2 * 64 ^ 3 / 3 + 3 * 2 * 64 * 128 * 128
    assert.near(1, ops.rule.forward.tensor_flops / (32 * 4096 / 64 * chunk), 1e-12)
    assert.is_true(ops.rule.backward.tensor_flops > 2 * ops.rule.forward.tensor_flops)
    assert.is_true(ops.rule.backward.tensor_flops < 3 * ops.rule.forward.tensor_flops)
  end)

  it("keeps a state of constant size for any context", function()
    local function cached(context)
      return tperf.infer { model = model, system = "h200-sxm", tp = 4, prompt = context, generate = 2, batch = 1 }
        .memory.cache
    end
    -- 12 of 48 layers keep 2 x 2 heads of 256 numbers of 2 bytes for a token, half a head pair on each of 4 GPUs.
    assert.near(12 * 2 * 256 * 2 * 8192, cached(16384) - cached(8192), 1)
    -- 36 layers keep 8 heads x 128 x 128 in fp32 and three rows of (2 x 4 + 8) x 128 features.
    local states = 36 * (4 * 8 * 128 * 128 + 2 * 3 * 16 * 128)
    assert.near(states, cached(8192) - 12 * 2 * 256 * 2 * (8192 + 2), 12 * 2 * 256 * 2 * 2)
  end)

  it("is cut by heads; heads of keys are copied if there are fewer", function()
    local one, wide = ops_of(model, is_delta, { seq = 512 }), ops_of(model, is_delta, { seq = 512, tp = 32 })
    assert.equal(one.rule.forward.tensor_flops / 32, wide.rule.forward.tensor_flops)
    -- One head of values with a copy of its head of keys: (2 x 128 + 2 x 128 + 2) of 2048 columns.
    assert.equal(2 * 2048 * (4 * 128 + 2), wide["in"].weight_bytes)
    assert.matches("does not divide the delta net layers' 32 heads", refusal(tperf.train, {
      model = model:with { heads = 192, kv_heads = 64, experts = { shared_ffn = 768, ffn = 768 } }, system = "h100-sxm",
      tp = 64, gpus = 64, global_batch = 64,
    }))
  end)

  it("is refused by name if its sizes disagree", function()
    assert.matches("'delta.heads' %(16%) must divide 'delta.value_heads' %(24%)",
      refusal(model.with, model, { delta = { value_heads = 24 } }))
    assert.matches('must be made of M %(Mamba%), D %(gated delta net%), %* %(attention%) and B .*, got "DX"',
      refusal(model.with, model, { mixers = "DX" }))
    assert.matches("'mixers' has delta net layers, but 'delta' is missing",
      refusal(tperf.model, { name = "m", layers = 2, hidden = 64, heads = 2, vocab = 9, seq = 8, mixers = "D*" }))
  end)
end)

describe("A recurrence in chunks", function()
  it("is launched kernel by kernel", function()
    -- A host that takes a second for a call. Beside the scan's 4 kernels forward and 12 backward, a layer of Mamba-2
    -- has a norm, two products, a convolution (run again before its backward pass), dt, a gated norm and a sum.
    local c = tperf.train {
      model = "nemotron-h-8b", system = "b300-sxm", global_batch = 1, explain = true,
      software = { name = "spec", compute = 1, attention = 1, memory = 1, comm = 1, host = 1, overlap = 1,
        optimizer = 0 },
    }
    for _, line in ipairs(c.sum) do
      if line.term == "waiting for launches: mamba/none/full" then
        assert.matches(("what %d launches forward and %d backward"):format(7 + 4, 7 * 2 + 1 + 12), line.formula)
        return
      end
    end
    error "no launches of Mamba-2"
  end)

  local function forward(system, model, name, sequences)
    for _, one in ipairs(tperf.layer { model = model, system = system, micro_batch = sequences }) do
      if one.name == name then return 1e3 * one.forward.time end
    end
  end

  local function delta(keys, values, seq)
    return { name = "m", layers = 1, hidden = 4096, heads = 32, ffn = 128, vocab = 1024, seq = seq, mixers = "D",
      delta = { heads = keys, value_heads = values, key_dim = 128, value_dim = 128 } }
  end

  it("takes as long as flash-linear-attention's gated delta rule was timed", function()
    -- docs/model.md, section 3.4, has the sources: GPU, heads of keys and values, sequences and their tokens, ms.
    for _, timed in ipairs {
      { "h800-sxm", 96, 96, 1, 8192, 2.033 }, { "h800-sxm", 16, 16, 2, 16384, 1.342 },
      { "b200-sxm", 96, 96, 1, 8192, 1.4919 }, { "b200-sxm", 32, 32, 9, 1024, 0.5529 },
      { "b200-sxm", 16, 64, 1, 8192, 0.797 }, { "b200-sxm", 16, 64, 8, 8192, 5.998 },
    } do
      local system, keys, values, sequences, seq, ms = table.unpack(timed)
      assert.near(ms, forward(system, delta(keys, values, seq), "rule", sequences), 0.19 * ms)
    end
  end)

  it("takes longer than the last of its kernels alone", function()
    -- The scan's last kernel of mamba2-2.7b's heads on an H800, as tuned for it (tile-ai/tilelang, benchmark/mamba2).
    local whole = forward("h800-sxm", tperf.model "mamba2-2.7b":with { seq = 4096 }, "scan", 8)
    assert.is_true(whole > 0.645 and whole < 3 * 0.645)
  end)

  it("is as fast as the matrix units where the vector units are no slower", function()
    local lone = tperf.system "h800-sxm":with { accelerator = { vector = { fp32 = "10 PFLOP/s" } } }
    local slow = forward("h800-sxm", delta(96, 96, 8192), "rule", 1)
    assert.is_true(forward(lone, delta(96, 96, 8192), "rule", 1) < 0.75 * slow)
  end)
end)

describe("Mamba-1", function()
  local model = tperf.model "jamba-v0.1"

  it("scans with the work that its authors count, none of it on the matrix units", function()
    local ops = ops_of(model, is_mamba, { seq = 4096 })
    assert.equal(4096 * 8192 * (9 * 16 + 5), ops.scan.forward.vector_flops)
    assert.equal(0, ops.scan.forward.tensor_flops)
    assert.equal(2 * 8192 * (16 + 1), ops.scan.weight_bytes) -- A and D
  end)

  it("sums steps, B and C over the GPUs that cut its features", function()
    local ops = ops_of(model, is_mamba, { seq = 4096, tp = 4 })
    assert.equal(2 * 4096 * (256 + 2 * 16), ops.sum.forward.comms[1].bytes)
    assert.equal("all_reduce", ops.sum.forward.comms[1].kind)
  end)

  it("has attention in one layer of eight and experts in every other", function()
    local attention, experts = {}, 0
    for _, group in ipairs(model:groups()) do
      if group.attention == "gqa" then attention[#attention + 1] = group.first end
      if group.mlp == "experts" then experts = experts + group.count end
    end
    assert.same({ 5, 13, 21, 29 }, attention)
    assert.equal(16, experts)
  end)
end)

describe("norms over all heads at once", function()
  it("sum both statistics in one all-reduce in engines, in two in training", function()
    local function comms(mode)
      local found = ops_of(tperf.model "minimax-m2", any, { seq = 64, mode = mode, context = 0, tp = 4,
        sequence_parallel = mode == "train" })
      return #(found["q-norm"].forward.comms or {}), #(found["k-norm"].forward.comms or {})
    end
    assert.same({ 1, 0 }, { comms "decode" })
    assert.same({ 1, 1 }, { comms "train" })
  end)
end)

describe("sparse attention", function()
  local sparse, dense = tperf.model "deepseek-v3.2", tperf.model "deepseek-v3"

  it("attends to top_k tokens in the latent, once its indexer has scored all", function()
    local ops = ops_of(sparse, any, { seq = 1, mode = "decode", context = 65535, sequence_parallel = false })
    assert.equal(2 * 64 * 128 * 65536, ops["index-scores"].forward.tensor_flops)
    assert.near(1, ops.attention.forward.tensor_flops / (2 * 128 * (576 + 512) * 2048), 0.01)
  end)

  -- FlashMLA's kernels for chosen tokens: SGLang's pull request 13646
  it("fills tiles of 64 heads in engines, except for prompts that choose all their tokens", function()
    local function per_head(mode, seq, context, tp)
      local found = ops_of(tperf.model "glm-5", any, { seq = seq, mode = mode, context = context, tp = tp,
        sequence_parallel = false })
      return found.attention.forward.tensor_flops / 64
    end
    for _, case in ipairs { { "decode", 1, 65535 }, { "prefill", 4096, 0 }, { "prefill", 1024, 4096 } } do
      local mode, seq, context = table.unpack(case)
      assert.equal(per_head(mode, seq, context, 1), per_head(mode, seq, context, 8))
    end
    assert.near(per_head("prefill", 2048, 0, 1) / 8, per_head("prefill", 2048, 0, 8), 1)
  end)

  -- SGLang's pull request 27705: rope, Hadamard, cast and scale of queries, the same but the scale of keys
  it("launches small kernels in engines, and only those of keys for prompts that choose all tokens", function()
    local function small(mode, seq, context)
      local count, scored = 0, false
      for name, op in pairs(ops_of(sparse, any, { seq = seq, mode = mode, context = context,
        sequence_parallel = false })) do
        local own = name:find "^index%-[qk]%-"
        count, scored = count + (own and 1 or 0), scored or name == "index-scores"
        assert.is_true(not own or op.forward.bytes > 0, name)
      end
      return { count, scored }
    end
    assert.same({ 5, true }, small("decode", 1, 1000))
    assert.same({ 5, true }, small("prefill", 2048, 1))
    assert.same({ 2, false }, small("prefill", 2048, 0))
    assert.same({ 0, true }, small("train", 1024, 0))
  end)

  it("does less work than full attention for a long context, and no less for a short one", function()
    local function attention(model, seq)
      return model:flops_per_token { seq = seq, backward = false }.attention
    end
    assert.is_true(attention(sparse, 131072) < 0.5 * attention(dense, 131072))
    assert.is_true(attention(sparse, 1024) > attention(dense, 1024))
  end)

  it("caches all tokens, and their keys for the indexer", function()
    local function of_token(model)
      local function cached(prompt)
        return tperf.infer { model = model, system = "gb200-nvl72", tp = 16, prompt = prompt, generate = 1, batch = 1,
          weight_dtype = "fp8" }.memory.cache
      end
      return (cached(30000) - cached(20000)) / 10000
    end
    assert.near(61 * (512 + 64) * 2, of_token(dense), 1e-6)
    assert.near(61 * (512 + 64 + 128) * 2, of_token(sparse), 1e-6)
  end)

  it("needs latents of queries", function()
    assert.matches("'sparse' needs 'mla' with a 'q_rank'", refusal(tperf.model, { name = "m", layers = 2, hidden = 64,
      heads = 2, vocab = 9, seq = 8, sparse = { heads = 2, head_dim = 8, top_k = 4 } }))
  end)
end)

describe("experts in a latent space", function()
  it("exchange rows as narrow as the latent", function()
    local model = tperf.model "nemotron-3-super-120b-a12b"
    local ops = ops_of(model, function(group) return group.mlp == "experts" end, { seq = 1024 })
    local wide = ops_of(model:with { experts = { latent = 4096 } }, function(group) return group.mlp == "experts" end,
      { seq = 1024 })
    assert.equal(4, wide.dispatch.forward.bytes / ops.dispatch.forward.bytes)
    assert.equal(2 * 512 * 1024 * 2688, ops.fc1.weight_bytes)
  end)
end)

describe("a diffusion transformer", function()
  it("does the published work: 118.64 billion multiplications an image (arXiv 2212.09748, table 4)", function()
    local model = tperf.model "dit-xl-2"
    local of_token = model:flops_per_token { convention = "matmul", backward = false }.total
    assert.near(1, model.seq * of_token / (2 * 118.64e9), 0.003)
  end)

  it("needs images", function()
    assert.matches("'diffusion' needs 'vision'", refusal(tperf.model, { name = "m", layers = 2, hidden = 64, heads = 2,
      vocab = 9, seq = 8, diffusion = { out_channels = 8, labels = 2 } }))
  end)
end)

describe("Mamba-2", function()
  it("turns its kernels' inputs batch first where there are several sequences, and y back", function()
    local model = tperf.model "nemotron-h-8b" -- 128 heads of 64, 8 groups of 128
    local width = 8192 + (8192 + 2 * 8 * 128) + 128 -- z; x, B and C; dt
    local one, two = ops_of(model, is_mamba, { seq = 4096 }), ops_of(model, is_mamba, { seq = 4096, micro_batch = 2 })
    assert.is_nil(one["batch-first"])
    assert.equal(4 * 2 * 4096 * width, two["batch-first"].forward.bytes)
    assert.equal(4 * 2 * 4096 * width, two["batch-first"].backward.bytes)
    assert.equal(4 * 2 * 4096 * 8192, two["batch-second"].forward.bytes)
    assert.is_nil(ops_of(model, is_mamba, { seq = 4096, micro_batch = 2, mode = "prefill" })["batch-first"])
  end)
end)

describe("a file with an unknown architecture", function()
  local function read(name, changes)
    return refusal(hf_files.changed, name, changes)
  end

  it("is refused, pointing to how to describe it", function()
    assert.matches('"model_type" = "bigger": unknown architecture.*docs/architectures.md',
      read("gpt2", { model_type = "bigger" }))
    assert.matches('"model_type" = "whisper" is not modelled: it has an encoder of sound.*docs/architectures.md',
      read("gpt2", { model_type = "whisper" }))
    assert.matches("is not modelled: it has layers that share weights", read("gpt2", { model_type = "zamba2" }))
    assert.matches("lightning attention is not modelled, see docs/architectures.md",
      read("minimax-m2", { model_type = "minimax", architectures = { "MiniMaxText01ForCausalLM" } }))
    assert.matches('"attn_layer_idx" names layers of attention, which are not modelled; see docs/architectures.md',
      read("mamba2-2.7b", { attn_layer_idx = { 9 } }), 1, true)
    assert.matches('"layer" = "Mamba3" is unknown; known: Mamba1, Mamba2',
      read("mamba2-2.7b", { ssm_cfg = { layer = "Mamba3" } }))
    assert.matches('"norm_type" = "ada_norm_single" is not modelled; known: ada_norm_zero',
      read("dit-xl-2-256", { norm_type = "ada_norm_single" }))
    assert.matches('"architectures" %[1%] = "BertLMHeadModel" is not known of Bert', read("bert-base-uncased",
      { architectures = { "BertLMHeadModel" } }))
    assert.matches('"layer_types" has 2 entries for 48 layers', read("qwen3-next-80b-a3b",
      { layer_types = { "linear_attention", "full_attention" } }))
    assert.matches('"index_topk"', read("deepseek-v3.2", { index_topk = hf_files.REMOVED }))
    assert.matches('"indexer_types" %[2%] = "half" is not full or shared', read("glm-5",
      { indexer_types = { "full", "half" } }))
  end)
end)
