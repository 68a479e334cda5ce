-- Layers with a window whose attention differs from the other layers': MiMo-V2 and Gemma 4. Expected numbers are worked
-- out from the published sizes by the formulas of the models' own code.
local hf_files = require "hf_files"
local tperf = require "tperf"

local changed, model, path_of, refused = hf_files.changed, hf_files.model, hf_files.path, hf_files.refused
local REMOVED <const> = hf_files.REMOVED

-- layers and heads of queries and of keys, features of keys and of values, tokens of the window; values tied to keys
local KINDS <const> = {
  ["mimo-v2-flash"] = {
    hidden = 4096, full = { 9, 64, 4, 192, 128 }, windowed = { 39, 64, 8, 192, 128, 128, sinks = true },
  },
  ["gemma-4-31b"] = {
    hidden = 5376, full = { 10, 32, 4, 512, 512, tied = true }, windowed = { 50, 32, 16, 256, 256, 1024 },
  },
  ["gemma-4-26b-a4b"] = {
    hidden = 2816, full = { 5, 16, 2, 512, 512, tied = true }, windowed = { 25, 16, 8, 256, 256, 1024 },
  },
  ["gemma-4-12b"] = {
    hidden = 3840, full = { 8, 16, 1, 512, 512, tied = true }, windowed = { 40, 16, 8, 256, 256, 1024 },
  },
}

local function attention_of(kind, hidden)
  local layers, heads, kv_heads, key, value = table.unpack(kind)
  local values = kind.tied and 0 or kv_heads * value
  local products = hidden * (heads * key + kv_heads * key + values) + heads * value * hidden
  return layers * (products + (kind.sinks and heads or 0))
end

-- Bytes of a sequence of `tokens`, in 16 bits: tied values are kept, too, as keys are rotated and values are not.
local function cache_of(kind, tokens)
  local layers, _, kv_heads, key, value, window = table.unpack(kind)
  return layers * 2 * kv_heads * (key + value) * math.min(tokens, window or tokens)
end

describe("layers with a window", function()
  for name, kinds in pairs(KINDS) do
    it("have attention of their own in " .. name, function()
      local m, all = model(name), 0
      for _, group in ipairs(m:groups()) do
        all = all + (group.window and 1 or 1000) * group.count
        assert.equal(group.window, group.window and kinds.windowed[6])
      end
      assert.equal(1000 * kinds.full[1] + kinds.windowed[1], all)
      assert.equal(attention_of(kinds.full, kinds.hidden) + attention_of(kinds.windowed, kinds.hidden),
        m:parameters().components.attention)
    end)

    it("score " .. name .. "'s keys with their own heads", function()
      local sum = 0
      for _, kind in pairs { kinds.full, kinds.windowed } do
        local layers, heads, _, key, value, window = table.unpack(kind)
        sum = sum + layers * 2 * heads * (key + value) * math.min(window or 8192, 8192)
      end
      assert.equal(sum, model(name):flops_per_token({ seq = 8192, causal = false, backward = false }).attention)
    end)

    it("keep keys and values of their own in " .. name, function()
      local got = tperf.infer { model = path_of(name), system = "h200-sxm", tp = 8, prompt = 4000, generate = 96 }
      local kept = 0
      for _, kind in pairs { kinds.full, kinds.windowed } do
        local copies = math.max(8 // kind[3], 1) -- GPUs that hold the same head
        kept = kept + cache_of(kind, 4096) * copies / 8
      end
      assert.equal(kept, got.cache_sequence)
    end)
  end

  it("have products of their own widths", function()
    local m = model "mimo-v2-flash"
    for kind, kv_heads in ipairs { 4, 8 } do -- the first layer, which sees all keys, and the second
      local flops = {}
      for _, one in ipairs(tperf.layer { model = m, system = "h100-sxm", seq = 1024, kind = kind }) do
        flops[one.name] = one.forward.tensor_flops
      end
      assert.equal((2 * 4096 - 1) * 1024 * (64 * 192 + kv_heads * (192 + 128)), flops.qkv)
      assert.equal((2 * 64 * 128 - 1) * 1024 * 4096, flops.proj)
    end
  end)

  it("limit tensor parallelism, too", function()
    local m = tperf.model { name = "m", layers = 4, hidden = 1024, heads = 16, kv_heads = 8, ffn = 1024, vocab = 1000,
      seq = 4096, norm = "rmsnorm", window = { size = 64, pattern = "wf", heads = 24, kv_heads = 6 } }
    local ok, message = pcall(tperf.train, { model = m, system = "h100-sxm", global_batch = 16, tp = 8 })
    assert.is_false(ok)
    assert.matches("neither divides the 6 key and value heads", message)
    ok, message = pcall(tperf.train, { model = m, system = "h100-sxm", global_batch = 16, tp = 16 })
    assert.is_false(ok)
    assert.matches("does not divide the 24 heads", message)
  end)

  it("are checked", function()
    local function fails(changes, wanted)
      local ok, message = pcall(function() model "gemma-4-31b":with(changes) end)
      assert.truthy(not ok and message:find(wanted, 1, true), message)
    end
    fails({ window = { kv_heads = 5 } }, "'window.kv_heads' (5) must divide 'heads' (32)")
    fails({ value_dim = 128 }, "'tied_values' are as wide as keys (512), not a 'value_dim' of 128")
    fails({ tied_values = false, mla = { kv_rank = 8, nope_dim = 8, rope_dim = 8, v_dim = 8 }, value_dim = 8 },
      "'value_dim' does not go with 'mla'")
  end)

  -- 50 layers with a window make 5 groups of as many as the 10 others. A token takes 16 x (256 + 256) numbers in them,
  -- 4 x (512 + 512) in the others, whose blocks hold 32 tokens.
  it("take twice the blocks of vLLM's pool if their tokens are twice as wide", function()
    local each = 94 + 5 * 2 * 33 -- 3,000 tokens; 1,023 of them and a block that begins before
    local requests, most = {}, 0
    for i = 1, 10 do requests[i] = { arrival = 0, prompt = 2980, output = 20 } end
    local r = tperf.serve { model = path_of "gemma-4-31b", system = "h200-sxm", tp = 2, software = "vllm-0.15",
      keep = "steps", requests = requests, engine = { num_blocks = 3 * each + 7, max_num_batched_tokens = 1 << 20 } }
    for _, step in ipairs(r.steps) do most = math.max(most, step.running) end
    assert.equal(3, most)
    assert.equal(10 * 16 * 2 * 8 * 512 * r.num_blocks, r.memory.cache)
    assert.equal(r.num_blocks // 6 * 16, r.cache_tokens) -- as vLLM logs it
  end)
end)

describe("hf", function()
  it("reads MiMo-V2 in the transformers library's names", function()
    local own = model "mimo-v2-flash"
    local saved = changed("mimo-v2-flash", { hybrid_layer_pattern = REMOVED, moe_layer_freq = REMOVED })
    assert.equal(own.window.pattern, saved.window.pattern)
    assert.equal(8, saved.window.kv_heads)
    assert.same({ 1 }, saved.experts.dense_layers)
    refused("mimo-v2-flash", { moe_layer_freq = { 1 } }, '"moe_layer_freq" has 1 entries for 48 layers')
    refused("mimo-v2-flash", { hybrid_layer_pattern = { 2 }, num_hidden_layers = 1 }, "%[1%] = 2 is not 0 or 1")
  end)

  it("refuses what no Gemma 4 has", function()
    refused("gemma-4-26b-a4b", { num_kv_shared_layers = 20 }, "layers that share keys and values: not modelled")
    refused("gemma-4-31b", { num_kv_shared_layers = 60 }, '"num_kv_shared_layers" does not go with')
    refused("gemma-4-31b", { use_bidirectional_attention = "all" }, '"use_bidirectional_attention" = "all"')
    local plain = changed("gemma-4-31b", { attention_k_eq_v = REMOVED })
    assert.same({ 16, 512, false }, { plain.kv_heads, plain.head_dim, plain.tied_values })
  end)
end)
