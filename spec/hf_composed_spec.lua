-- Model types whose layers differ in more than a description says, from Hugging Face files: counts, caches and
-- refusals. Totals of LFM2, Gemma 4, K-EXAONE and Muse Glimmer are those of their checkpoints' tensors (safetensors
-- metadata, or the tensors of the transformers library's classes); the others are counted by hand here.
local files = require "hf_files"
local program = require "program"
local tperf = require "tperf"

local changed, model, refused = files.changed, files.model, files.refused

-- Bytes that a sequence of 4096 + 256 tokens keeps.
local function cache(m, more)
  local question = { model = m, system = "h200-sxm", prompt = 4096, generate = 256, batch = 1 }
  for name, value in pairs(more or {}) do question[name] = value end
  return tperf.infer(question).cache_sequence
end

local TOKENS <const> = 4096 + 256

describe("checkpoints from Hugging Face files", function()
  for name, count in pairs {
    ["lfm2-350m"] = { 354483968 }, ["lfm2-2.6b"] = { 2569272320 }, ["lfm2-8b-a1b"] = { 8339930560, 1557740992 },
    ["gemma-4-e2b"] = { 4628569379 }, ["gemma-4-e4b"] = { 7463013418 },
    ["k-exaone-236b-a23b"] = { 236571156352, 23668285312 }, ["muse-glimmer"] = { 27854780928 },
    ["qwen1.5-moe-a2.7b-first"] = { 14315784192, 2689173504 },
    ["deepseek-v4-flash"] = { 284334567511, 13801959511 }, ["deepseek-v4-pro"] = { 1572999528803, 49781408099 },
  } do
    it("count " .. name, function()
      local p = model(name):parameters()
      assert.same({ count[1], count[2] or count[1] }, { p.total, p.active })
    end)
  end

  it("weigh as much on one GPU, in every kind of layer", function()
    for name, total in pairs { ["lfm2-2.6b"] = 2569272320, ["gemma-4-e4b"] = 7463013418 } do
      local r = tperf.infer { model = files.path(name), system = "h200-sxm", prompt = 128, generate = 2 }
      assert.equal(2 * total, r.memory.weights)
    end
  end)
end)

describe("LFM2", function()
  it("keeps keys and values of its attention, and two inputs of each convolution", function()
    -- 8 layers with 8 heads of 64, 22 convolutions of 2048 features and three taps; 16 bits.
    assert.equal(8 * 2 * 8 * 64 * 2 * TOKENS + 22 * 2 * 2048 * 2, cache(files.path "lfm2-2.6b"))
  end)

  it("reads the layers by index, and the widths that files give twice", function()
    local listed = files.fields "lfm2-350m"
    local at = {}
    for i, kind in ipairs(listed.layer_types) do at[#at + 1] = kind == "full_attention" and i - 1 or nil end
    local indexed = tperf.model(changed("lfm2-350m", { layer_types = files.REMOVED, full_attn_idxs = at }))
    assert.equal(354483968, indexed:parameters().total)
    -- 2/3 of 6656 are 4437; half more, 6655, fill 26 times 256.
    local wider = tperf.model(changed("lfm2-350m", { block_ffn_dim_multiplier = 1.5 }))
    assert.equal(354483968 + 16 * 3 * 1024 * (6656 - 4608), wider:parameters().total)
    refused("lfm2-350m", { layer_types = { "conv" } }, '"layer_types" has 1 entries for 16 layers')
    refused("lfm2-350m", { conv_L_cache = 0 }, '"conv_L_cache" must be an integer from 1')
  end)

  it("trains and is searched", function()
    local best = tperf.search { model = files.path "lfm2-350m", system = "h100-sxm", gpus = 8, global_batch = 64,
      seq = 4096, top = 1 }
    assert.truthy(best[1].time > 0)
  end)
end)

describe("small Gemma 4 models", function()
  it("keep caches of the layers that have keys of their own", function()
    -- E2B: 15 of 35 layers; 12 see 512 tokens by one head of 256, 3 all by one of 512. E4B: 24 of 42 layers; 20 with
    -- two heads of 256, 4 with two of 512.
    assert.equal(12 * 2 * 256 * 2 * 512 + 3 * 2 * 512 * 2 * TOKENS, cache(files.path "gemma-4-e2b"))
    assert.equal(20 * 2 * 2 * 256 * 2 * 512 + 4 * 2 * 2 * 512 * 2 * TOKENS, cache(files.path "gemma-4-e4b"))
  end)
end)

describe("DeepSeek-V4", function()
  it("keeps a window of each layer and compressed keys of most, with an indexer's", function()
    -- Flash: 43 layers with 128 keys of 512, which are the values, too; 21 keep one for 4 tokens, and 128 features of
    -- the indexer's; 20 one for 128.
    assert.equal(43 * 128 * 512 * 2 + TOKENS * 2 * (21 * (512 + 128) / 4 + 20 * 512 / 128),
      cache(files.path "deepseek-v4-flash", { tp = 8 }))
  end)

  it("stores experts in 4 bits and most products in 8, as large as its files", function()
    local one = program.ask("tperf params --json " .. files.path "deepseek-v4-pro")
    local bytes = tonumber(one.out:match '"component": "total".-"bytes": ([%d.e+]+)')
    assert.truthy(math.abs(bytes / 849.7e9 - 1) < 1e-3) -- seen: 849.7 GB of files
    local r = tperf.infer { model = files.path "deepseek-v4-pro", system = "b200-sxm", tp = 8, prompt = 128,
      generate = 2 }
    assert.near(bytes, 8 * r.memory.weights, 0.05 * bytes) -- latents and an indexer are on each GPU
  end)

  it("reads the transformers library's names, and its defaults", function()
    local kinds, feeds = {}, {}
    local names = { [0] = "sliding_attention", [4] = "compressed_sparse_attention",
      [128] = "heavily_compressed_attention" }
    for i, ratio in ipairs(files.fields "deepseek-v4-flash".compress_ratios) do kinds[i] = names[ratio] end
    for i = 1, 43 do feeds[i] = i <= 3 and "hash_moe" or "moe" end
    local own = tperf.model(changed("deepseek-v4-flash", { compress_ratios = files.REMOVED, layer_types = kinds,
      num_hash_layers = files.REMOVED, mlp_layer_types = feeds }))
    assert.equal(284334567511, own:parameters().total)
    refused("deepseek-v4-flash", { compress_ratios = { 8 } }, "%[1%] = 8 is not a ratio of 0, 4 or 128")
  end)

  it("trains", function()
    local c = tperf.train { model = files.path "deepseek-v4-flash", system = "h200-sxm", gpus = 512, ep = 64, pp = 1,
      global_batch = 512, seq = 4096, micro_batch = 1 }
    assert.truthy(c.time > 0)
  end)
end)

describe("GLM's layers that share a selection", function()
  -- The first two layers and every fourth one select: 21 of 78. An indexer has queries of 32 heads of 128 from 2048
  -- features, a key with a norm, and the heads' weights.
  local SHARED <const> = 57
  local indexer = 2048 * 32 * 128 + 6144 * 128 + 2 * 128 + 6144 * 32

  it("have no indexer and keep no keys of one", function()
    local all, some = tperf.model(files.fields "glm-5"), tperf.model(changed("glm-5", { index_topk_freq = 4 }))
    assert.equal(all:parameters().total - SHARED * indexer, some:parameters().total)
    local question = { tp = 8, weight_dtype = "fp8" }
    assert.equal(cache(all, question) - SHARED * 128 * 2 * TOKENS, cache(some, question))
    local kinds = {}
    for i = 1, 78 do kinds[i] = math.max(i - 2, 0) % 4 == 0 and "full" or "shared" end
    assert.same(some.sparse, tperf.model(changed("glm-5", { indexer_types = kinds })).sparse)
    assert.is_nil(all.sparse.pattern)
  end)

  it("begin with one that selects", function()
    local m = tperf.model(files.fields "glm-5")
    local ok, message = pcall(m.with, m, { sparse = { pattern = "SF" } })
    assert.is_false(ok)
    assert.matches("'sparse.pattern' must be made of F", message, 1, true)
  end)
end)

-- Step-3.5-Flash: 12 of 45 layers see all, with 64 heads; the others 512 tokens, with 96; three layers have no experts.
local function step()
  local kinds, sparse = {}, {}
  for i = 0, 47 do kinds[i + 1] = i % 4 == 0 and "full_attention" or "sliding_attention" end
  for i = 3, 44 do sparse[#sparse + 1] = i end
  return {
    model_type = "step3p5", architectures = { "Step3p5ForCausalLM" }, hidden_size = 4096, intermediate_size = 11264,
    num_hidden_layers = 45, vocab_size = 128896, num_attention_heads = 64, num_attention_groups = 8, head_dim = 128,
    max_position_embeddings = 262144, sliding_window = 512, layer_types = kinds,
    attention_other_setting = { attention_type = "sliding_attention", num_attention_heads = 96,
      num_attention_groups = 8, head_dim = 128 }, use_head_wise_attn_gate = true, moe_num_experts = 288, moe_top_k = 8,
    moe_intermediate_size = 1280, share_expert_dim = 1280, moe_layers_enum = table.concat(sparse, ","),
    use_moe_router_bias = true, moe_router_activation = "sigmoid", need_fp32_gate = true, num_nextn_predict_layers = 3,
  }
end

describe("Step-3.5", function()
  local h <const> = 4096
  local function attention(heads) return 2 * h * (heads + 8) * 128 + 2 * 128 + h * heads end
  local rest = 2 * 128896 * h + h + 12 * attention(64) + 33 * attention(96) + 45 * 2 * h + 3 * 3 * h * 11264
    + 42 * (3 * h * 1280 + 288 * h + 288)

  it("has a gate for every head, and more heads in layers with a window", function()
    local p = tperf.model(step()):parameters()
    assert.equal(rest + 42 * 288 * 3 * h * 1280, p.total)
    assert.equal(rest + 42 * 8 * 3 * h * 1280, p.active)
    local question = { tp = 8, weight_dtype = "fp8" }
    assert.equal(2 * 8 * 128 * 2 * (12 * TOKENS + 33 * 512), 8 * cache(step(), question))
  end)

  it("lists its layers of experts, too", function()
    local fields = step()
    fields.moe_layers_enum = { 3, 4 }
    local dense = tperf.model(fields).experts.dense_layers
    assert.equal(43, #dense)
    fields.attention_other_setting.num_sink = 4
    local ok, message = pcall(tperf.model, fields)
    assert.is_false(ok)
    assert.matches('"num_sink" = 4 is not known of Step-3.5', message, 1, true)
  end)
end)

describe("Nemotron models made by search", function()
  local h <const> = 8192
  local function attention(group)
    return { n_heads_in_group = group, no_op = false, replace_with_linear = false, unshifted_sink = false }
  end
  local function ffn(factor) return { ffn_mult = factor, no_op = false, replace_with_linear = false } end
  local NONE <const>, LINEAR <const> = { no_op = true, replace_with_linear = false },
    { no_op = false, replace_with_linear = true }
  local function fields(layers)
    return { model_type = "nemotron-nas", architectures = { "DeciLMForCausalLM" }, hidden_size = h,
      num_hidden_layers = #layers, num_attention_heads = 64, vocab_size = 128256, max_position_embeddings = 131072,
      tie_word_embeddings = false, block_configs = layers }
  end

  it("have layers with other heads and widths, or without them", function()
    local m = tperf.model(fields {
      { attention = attention(8), ffn = ffn(5.25) }, { attention = NONE, ffn = ffn(1.0) },
      { attention = LINEAR, ffn = LINEAR }, { attention = NONE, ffn = NONE }, { attention = attention(4), ffn = NONE },
    })
    local function heads(n) return 2 * h * h + 2 * h * n * 128 + h end
    -- 2/3 of 5.25 and 1.0 times 8192 are 28672 and 5461, which 22 times 256 hold.
    local expected = 2 * 128256 * h + h + heads(8) + heads(16) + 2 * (h * h + h) + 2 * h + 3 * h * (28672 + 22 * 256)
    assert.equal(expected, m:parameters().total)
    assert.equal(4, m.layers) -- one has nothing
    assert.equal(2 * 128 * 2 * (8 + 16) * TOKENS, cache(m))
  end)

  it("are refused with what is not modelled", function()
    local sink = attention(8)
    sink.num_sink_tokens = 4
    for message, layers in pairs {
      ['"num_sink_tokens" = 4 is not modelled'] = { { attention = sink, ffn = ffn(1.0) } },
      ['"n_heads_in_group" = 7 does not divide 64 heads'] = { { attention = attention(7), ffn = ffn(1.0) } },
      ['"block_configs" [1] needs a map \'ffn\''] = { { attention = attention(8) } },
      ['"ffn_mult" = "wide" is not a factor'] = { { attention = attention(8), ffn = ffn "wide" } },
    } do
      local ok, said = pcall(tperf.model, fields(layers))
      assert.is_false(ok)
      assert.matches(message, said, 1, true)
    end
  end)
end)

describe("Mistral Small 4, Solar Open and Hy3", function()
  it("have the sizes of their classes where files leave them out", function()
    local base = { vocab_size = 1000, hidden_size = 512, num_hidden_layers = 3, num_attention_heads = 8,
      num_key_value_heads = 8, max_position_embeddings = 4096, intermediate_size = 1024 }
    local function total(more)
      local copy = {}
      for _, part in ipairs { base, more } do
        for name, value in pairs(part) do copy[name] = value end
      end
      return tperf.model(copy):parameters().total
    end
    local tables, expert = 2 * 1000 * 512 + 512 + 3 * 2 * 512, 3 * 512
    -- 128 experts of 2048 and a shared one, no bias of the router.
    local latent = 512 * 64 + 64 + 64 * 8 * 128 + 512 * (32 + 64) + 32 + 32 * 8 * (64 + 128) + 8 * 128 * 512
    assert.equal(tables + 3 * (latent + 129 * expert * 2048 + 128 * 512), total { model_type = "mistral4",
      q_lora_rank = 64, kv_lora_rank = 32, qk_nope_head_dim = 64, qk_rope_head_dim = 64, v_head_dim = 128 })
    local attention = 4 * 512 * 8 * 128
    assert.equal(tables + 3 * (attention + 129 * expert * 1280 + 128 * 512 + 128), total { model_type = "solar_open",
      first_k_dense_replace = 1 }) -- which its class does not read
    assert.equal(tables + 3 * (attention + 2 * 128) + expert * 1024 + 2 * (193 * expert * 1536 + 192 * 512 + 192),
      total { model_type = "hy_v3" })
    assert.equal(tables + 3 * (attention + 2 * 128) + 2 * expert * 1024 + 193 * expert * 1536 + 192 * 512 + 192,
      total { model_type = "hy_v3", mlp_layer_types = { "dense", "sparse", "dense" } })
  end)
end)

it("tperf params lists the components of composed models", function()
  local out = program.ask("tperf params spec/data/hf/lfm2-350m.json").out
  assert.matches("conv +41984000", out) -- 10 layers: 4 x 1024 x 1024, three taps, a norm
end)

it("tperf.check takes composed models by their blocks alone", function()
  local found = tperf.check(tperf.model(files.path "lfm2-350m"))
  assert.equal(354483968, found.parameters.counted)
  assert.is_nil(found.parameters.described)
  assert.same({}, found.warnings)
end)
