-- Mixtures of experts from Hugging Face files: what their parameter counts (parameters_spec.lua) do not show.
local hf_files = require "hf_files"
local tperf = require "tperf"

local changed, describe_changed, model, REMOVED = hf_files.fields, hf_files.changed, hf_files.model, hf_files.REMOVED

local function refuses(expected, name, changes) hf_files.refused(name, changes, expected, true) end

local function kinds(m)
  local list = {}
  for _, group in ipairs(m:groups()) do list[#list + 1] = group.kind .. " " .. group.count end
  return list
end

describe("mixtures of experts from Hugging Face files", function()
  it("have dense layers first, last or between", function()
    assert.same({ "dense 1", "moe 19" }, kinds(model "ling-mini-2.0"))
    assert.same({ "moe 28" }, kinds(model "ling-lite-1.5"))
    assert.same({ "dense 1", "moe 27" }, kinds(model "ernie-4.5-21b-a3b"))
    assert.same({ "dense 1", "moe 27" }, kinds(model "deepseek-moe-16b"))
    assert.same({ "dense 1", "moe 61" }, kinds(model "dots.llm1"))
    assert.same({ "dense 1", "moe 46" }, kinds(model "glm-4.7-flash"))
    local ernie = tperf.model(changed("ernie-4.5-21b-a3b", { moe_layer_start_index = 3, moe_layer_interval = 2,
      moe_layer_end_index = 25 }))
    local sparse = 0
    for _, group in ipairs(ernie:groups()) do sparse = sparse + (group.kind == "moe" and group.count or 0) end
    assert.equal(12, sparse) -- layers 3, 5, … 25, from 0
    assert.same({ "dense 1", "moe 27" }, kinds(tperf.model(changed("ernie-4.5-21b-a3b", { moe_layer_end_index = -1 }))))
    assert.same({ "dense 2", "moe 30" }, kinds(tperf.model(changed("hunyuan-a13b", { moe_layer_num_skipped = 2 }))))
  end)

  it("choose experts as their files say", function()
    local function chosen(name)
      local e = model(name).experts
      return { e.count, e.top_k, e.shared, e.router_bias }
    end
    assert.same({ 16, 2, 0, false }, chosen "phi-3.5-moe")
    assert.same({ 256, 8, 1, true }, chosen "ling-mini-2.0")
    assert.same({ 64, 6, 2, false }, chosen "ling-lite-1.5")
    assert.same({ 64, 8, 1, false }, chosen "hunyuan-a13b")
    assert.same({ 64, 6, 2, true }, chosen "ernie-4.5-21b-a3b")
    assert.same({ 64, 6, 2, false }, chosen "deepseek-moe-16b")
    assert.same({ 128, 6, 2, true }, chosen "dots.llm1")
    assert.same({ 32, 8, 0, false }, chosen "granite-3.1-1b-a400m")
    assert.same({ 16, 4, 0, false }, chosen "dbrx")
    assert.same({ 128, 8, 1, true }, chosen "trinity-mini")
    assert.same({ 8, 2, 0, false }, chosen "grok-1")
    local ling = model "ling-mini-2.0".experts
    assert.same({ 8, 4 }, { ling.groups, ling.top_groups })
  end)

  it("have the activation, norms and windows of their classes", function()
    assert.same({ "silu", "layernorm", true }, { model "phi-3.5-moe".activation, model "phi-3.5-moe".norm,
      model "phi-3.5-moe".biases.head })
    local grok, dbrx = model "grok-1", model "dbrx"
    assert.same({ "gelu", 4, true }, { grok.activation, grok.norms_per_layer, grok.gated })
    assert.same({ "silu", "layernorm", false }, { dbrx.activation, dbrx.norm, dbrx.biases.norm })
    assert.same({ 2048, 128 }, { model "trinity-nano".window.size, model "trinity-nano".head_dim })
    assert.equal(("wwwf"):rep(14), model "trinity-nano".window.pattern) -- from the interval
    assert.equal(("wwwf"):rep(8), model "trinity-mini".window.pattern) -- from the list
    assert.is_true(model "trinity-nano".attention_gate)
    assert.is_nil(model "dots.llm1".window)
    assert.equal(("f"):rep(60) .. "ww", describe_changed("dots.llm1", { sliding_window = 4096, max_window_layers = 60 })
      .window.pattern)
    assert.is_nil(model "qwen3-vl-30b-a3b".window)
  end)

  it("count larger models of the same classes", function()
    local flash = tperf.model(changed("ling-mini-2.0", { num_hidden_layers = 32, hidden_size = 4096,
      intermediate_size = 9216, moe_intermediate_size = 1024, moe_shared_expert_intermediate_size = 1024,
      num_attention_heads = 32 }))
    assert.equal(102889705216, flash:parameters().total) -- seen: Ling-flash-2.0
    local second = changed("ling-mini-2.0", { model_type = "bailing_moe_v2", architectures = REMOVED,
      use_bias = REMOVED, use_qk_norm = REMOVED, moe_router_enable_expert_bias = REMOVED })
    assert.equal(16255643392, tperf.model(second):parameters().total)
    local granite = tperf.model(changed("granite-3.1-1b-a400m", { num_hidden_layers = 32, hidden_size = 1536,
      num_attention_heads = 24, num_local_experts = 40 }))
    assert.equal(3298793472, granite:parameters().total) -- seen: Granite 3.2 3B-A800M
    local ernie = tperf.model(changed("ernie-4.5-21b-a3b", { num_hidden_layers = 54, hidden_size = 8192,
      intermediate_size = 28672, moe_intermediate_size = 3584, num_attention_heads = 64, num_key_value_heads = 8,
      moe_k = 8, moe_layer_start_index = 3, moe_layer_end_index = 53, use_rmsnorm = true,
      moe_num_shared_experts = REMOVED, tie_word_embeddings = false })) -- ERNIE-4.5-300B-A47B
    local rest = 54 * (2 * 8192 * 72 * 128 + 2 * 8192) + 3 * 3 * 8192 * 28672 + 51 * (64 * 8192 + 64)
      + 2 * 103424 * 8192 + 8192
    assert.equal(rest + 51 * 64 * 3 * 8192 * 3584, ernie:parameters().total)
    assert.equal(rest + 51 * 8 * 3 * 8192 * 3584, ernie:parameters().active)
  end)

  it("have modules for multi-token prediction like the last layer", function()
    local count = model "glm-4.7-flash":parameters()
    local layer = 2048 * 768 + 768 + 768 * 20 * 256 + 2048 * 576 + 512 + 512 * 20 * 448 + 20 * 256 * 2048 + 2 * 2048
      + 65 * 3 * 2048 * 1536 + 64 * 2048 + 64
    assert.equal(layer + 2 * 2048 * 2048 + 3 * 2048, count.mtp)
    local ling = tperf.model(changed("ling-mini-2.0", { num_nextn_predict_layers = 1 }))
    assert.equal(2048 * 24 * 128 + 2048 * 2048 + 2 * 128 + 257 * 3 * 2048 * 512 + 256 * 2048 + 256
      + 2 * 2048 * 2048 + 5 * 2048, ling:parameters().mtp)
    assert.equal(0, model "ernie-4.5-21b-a3b".mtp) -- its dense module has one norm less
  end)

  it("have latent attention with the widths of their classes", function()
    assert.same({ 768, 256, 64, 32, 64 }, (function(a)
      return { a.q_rank, a.kv_rank, a.nope_dim, a.rope_dim, a.v_dim }
    end)(model "minicpm3-4b".mla))
    assert.is_true(model "minicpm3-4b".tied_embeddings)
    assert.equal(256, model "glm-4.7-flash".mla.v_dim)
    assert.equal("kimi_k2", model "kimi-k2.5".family)
    local stored = model "kimi-k2.5".stored -- groups of 32; the experts alone
    assert.same({ 4, 32 }, { stored.experts.bits, stored.experts.group })
    assert.is_nil(stored.layers) -- attention, shared experts and the dense MLP stay in 16 bits
    local shared = changed("kimi-k2.5", {})
    shared.text_config.quantization_config.ignore = { "lm_head", "re:.*shared_experts.*" }
    stored = tperf.model(shared).stored
    assert.same({ 32, "bf16" }, { stored.layers.group, stored.shared_experts })
    assert.is_nil(stored.attention or stored.mlp)
  end)

  it("may be the text model of another: Kimi-VL's is Moonlight", function()
    local text = {
      model_type = "deepseek_v3", vocab_size = 163840, max_position_embeddings = 131072, hidden_size = 2048,
      intermediate_size = 11264, moe_intermediate_size = 1408, num_hidden_layers = 27, num_attention_heads = 16,
      n_shared_experts = 2, n_routed_experts = 64, routed_scaling_factor = 2.446, kv_lora_rank = 512,
      qk_rope_head_dim = 64, v_head_dim = 128, qk_nope_head_dim = 128, topk_method = "noaux_tc", n_group = 1,
      topk_group = 1, num_experts_per_tok = 6, moe_layer_freq = 1, first_k_dense_replace = 1, num_key_value_heads = 16,
    }
    local m = tperf.model { model_type = "kimi_vl", text_config = text }
    -- Seen: Moonlight-16B-A3B, whose checkpoint has the 64 frequencies of the rotation in every layer.
    assert.equal(15960111936 - 27 * 64, m:parameters().total)
  end)

  -- 56 halves of layers; experts are in the first halves. The first half's block: a latent attention's cache, and the
  -- FLOPs of 8 experts of 2,048, one as wide as the MLP, and a router of 768 experts.
  it("may have experts that compute nothing", function()
    local m, list = model "longcat-flash", {}
    assert.equal("moe 1 dense 1", table.concat(kinds(m), " ", 1, 2))
    assert.equal(56, #kinds(m))
    for _, one in ipairs(tperf.layer { model = m, system = "h100-sxm", seq = 1024, kind = 1 }) do
      list[one.name] = one.forward.tensor_flops
    end
    assert.equal(1024 * 768 * (2 * 6144 - 1), list.router)
    assert.near(8 * 2 * 1024 * 6144 * 4096, list.fc1, 1e-3 * list.fc1)
    assert.near(2 * 1024 * 6144 * 24576, list["shared-fc1"], 1e-3 * list["shared-fc1"])
    assert.truthy(list["zero-experts"])
    local cache = tperf.infer { model = m, system = "h200-sxm", tp = 8, prompt = 1000, generate = 24,
      weight_dtype = "fp8" }
    assert.equal(56 * 2 * 576 * 1024, cache.cache_sequence)
    assert.equal(12, describe_changed("longcat-flash", { zero_expert_num = REMOVED }).experts.top_k)
    refuses('"moe_topk" = 7 of 512 experts and 256 that compute nothing are no whole number', "longcat-flash",
      { moe_topk = 7 })
    refuses('"zero_expert_type" = "copy" is not modelled', "longcat-flash", { zero_expert_type = "copy" })
  end)

  it("may lack experts", function()
    assert.is_nil(describe_changed("deepseek-moe-16b", { n_routed_experts = REMOVED }).experts)
    assert.is_nil(describe_changed("hunyuan-a13b", { num_experts = 1 }).experts)
    assert.equal(0, describe_changed("ling-mini-2.0", { moe_router_enable_shared_expert = false }).experts.shared)
  end)

  it("are refused by name where tperf does not know the variant", function()
    local uneven, short = {}, {}
    for i = 1, 32 do uneven[i] = i == 5 and 4 or 8 end
    for i = 1, 31 do short[i] = 8 end
    refuses('"moe_topk" [5] = 4 differs from the first layer\'s 8', "hunyuan-a13b", { moe_topk = uneven })
    refuses('"moe_topk" has 31 entries for 32 layers', "hunyuan-a13b", { moe_topk = short })
    refuses('"use_cla" = true is not modelled', "hunyuan-a13b", { use_cla = true, model_type = "hunyuan" })
    refuses('"norm_type" = "layer" is not modelled', "hunyuan-a13b", { norm_type = "layer" })
    refuses('"kv_lora_rank" = 512', "hunyuan-a13b", { kv_lora_rank = 512 })
    refuses('"use_rmsnorm" = false', "ling-mini-2.0", { use_rmsnorm = false })
    refuses('"use_rmsnorm" = false', "ernie-4.5-21b-a3b", { use_rmsnorm = false })
    refuses('"multi_gate" = true', "ling-lite-1.5", { multi_gate = true })
    refuses('"num_expert_groups" = 4 is not modelled', "trinity-nano", { num_expert_groups = 4 })
    refuses('"kv_lora_rank" = 512', "deepseek-moe-16b", { kv_lora_rank = 512 }) -- DeepSeek-V2 under its first name
    refuses('"attn_config" is missing', "dbrx", { attn_config = REMOVED })
    refuses('"uniform_expert_assignment" = true is not known of DBRX', "dbrx",
      { ffn_config = { moe_num_experts = 16, moe_top_k = 4, uniform_expert_assignment = true } })
  end)
end)
