--- Mixtures of experts from Hugging Face files: model_type -> function(reader) -> description. The model types of
--- dense families that have experts, too, are beside those families (hf/types.lua, hf/dense.lua, hf/latent.lua).
local check = require "tperf.base.check"
local dense = require "tperf.describe.model.hf.dense"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, activation, tied, llama = parts.keys, parts.activation, parts.tied, parts.llama
local experts, deepseek_experts, window = parts.experts, parts.deepseek_experts, parts.window

-- Training samples a token's experts, which costs what choosing the best ones does.
function types.phimoe(c)
  local m = llama(c)
  m.kv_heads, m.norm = c:count(keys.kv_heads, 8), "layernorm"
  m.biases.norm, m.biases.head = true, c:flag("lm_head_bias", false)
  m.experts = experts(c, "num_local_experts|num_experts", m.ffn)
  window(c, m, "sliding_window")
  return m
end

-- Ling and Ring, of the first or second version. Programs that serve a model whose output table is normalised
-- (norm_head) normalise it once, when they load it.
local function bailing(c, second)
  local m = llama(c)
  c:ignore "max_window_layers|norm_head|score_function|mtp_loss_scaling_factor"
  m.biases = { qkv = c:flag("use_qkv_bias", false), attention_out = c:flag("use_bias", not second) }
  m.qk_norm = c:flag("use_qk_norm", second)
  parts.only(c, { use_rmsnorm = true })
  local e = deepseek_experts(c, "num_experts", m.layers)
  if not c:flag("moe_router_enable_shared_expert", true) then e.shared = 0 end
  e.shared_ffn = c:count("moe_shared_expert_intermediate_size", e.ffn)
  e.router_bias = c:flag("moe_router_enable_expert_bias", second)
  e.router_dtype = c:text("router_dtype", false) == "fp32" and "fp32" or nil
  m.experts, m.mtp = e, c:count("num_nextn_predict_layers", 0, 0)
  return m
end

-- Files of both versions say bailing_moe; their class tells which.
function types.bailing_moe(c)
  return bailing(c, (c:table "architectures" or {})[1] == "BailingMoeV2ForCausalLM")
end

function types.bailing_moe_v2(c) return bailing(c, true) end

-- The value of a field that is a number, or a list with the same number for every layer.
local function same_for_all(c, key, layers, default)
  local listed = c:has(key) and type(c:value(key)) == "table" and c:table(key)
  if not listed then return c:count(key, default, 0) end
  if #listed ~= layers then c:fail(key, "has %d entries for %d layers", #listed, layers) end
  for i, value in ipairs(listed) do
    if math.type(value) ~= "integer" or value < 0 then
      c:fail(key, "[%d] = %s is not a count", i, check.show(value))
    end
    if value ~= listed[1] then
      c:fail(key, "[%d] = %d differs from the first layer's %d: layers that differ in it are not modelled, see "
        .. "docs/architectures.md", i, value, listed[1])
    end
  end
  return listed[1]
end

-- Lists have a number per layer; the shared expert is as wide as a dense MLP.
function types.hunyuan_v1_moe(c)
  local m = parts.hunyuan(c, "hf_rms")
  m.qk_norm = c:flag("use_qk_norm", true)
  c:ignore "eod_token_id|skip_cls_token|class_num|video_start_id|video_end_id"
  c:ignore "num_media_embeds|anyres_pooling_size|vit_input_resolution|vit_mapping_type|vit_norm_type|vit_patch"
  c:ignore "vit_token"
  local count = same_for_all(c, "num_experts", m.layers, 1)
  local width = same_for_all(c, "moe_intermediate_size", m.layers, m.ffn)
  local top_k, shared = same_for_all(c, "moe_topk", m.layers, 1), same_for_all(c, "num_shared_expert", m.layers, 1)
  local skipped, mixed = c:count("moe_layer_num_skipped", 0, 0), c:flag("use_mixed_mlp_moe", true)
  if count > 1 then
    m.experts = {
      count = count, top_k = top_k, ffn = width, shared = mixed and shared or 0, shared_ffn = m.ffn,
      dense_layers = skipped,
    }
  end
  return m
end
types.hunyuan = types.hunyuan_v1_moe

-- Layer i (from 0) has experts if i + 1 is a multiple of moe_layer_interval and i is from moe_layer_start_index to
-- moe_layer_end_index. The 300B's files do not name shared experts, of which it has none. The modules for multi-token
-- prediction are left out, as in the transformers library: they have one norm less than mtp says.
function types.ernie4_5_moe(c)
  local m = llama(c)
  parts.only(c, { use_rmsnorm = true })
  c:ignore "moe_capacity|moe_gate|moe_norm_min|num_nextn_predict_layers"
  local bias = c:flag("use_bias", false)
  m.biases = { qkv = bias, attention_out = bias, mlp = bias, head = bias }
  m.tied_embeddings = tied(c, true)
  m.experts = {
    count = c:count "moe_num_experts", top_k = c:count "moe_k", ffn = c:count "moe_intermediate_size",
    shared = c:count("moe_num_shared_experts", 0, 0), router_bias = c:flag("moe_use_aux_free", true),
    dense_layers = {},
  }
  local first, interval = c:count("moe_layer_start_index", 1, 0), c:count("moe_layer_interval", 1)
  local last = c:count("moe_layer_end_index", -1, -1)
  if last == -1 then last = m.layers - 1 end
  for i = 0, m.layers - 1 do
    if i < first or i > last or (i + 1) % interval ~= 0 then table.insert(m.experts.dense_layers, i + 1) end
  end
  return m
end

-- The load-balancing bias is a stored parameter. Without layer_types, layers from max_window_layers on have windows.
function types.dots1(c)
  local m = llama(c)
  m.qk_norm = true
  m.experts = deepseek_experts(c, "n_routed_experts|num_local_experts", m.layers)
  m.experts.router_bias = true
  local from = c:count("max_window_layers", 62, 0)
  window(c, m, "sliding_window", function(i) return i >= from end)
  return m
end

-- DeepSeekMoE, before latent attention.
function types.deepseek(c)
  local m = llama(c)
  c:ignore "num_experts_per_tok|moe_intermediate_size|n_shared_experts|first_k_dense_replace|moe_layer_freq"
  if c:has "n_routed_experts" then m.experts = deepseek_experts(c, "n_routed_experts", m.layers) end
  return m
end

function types.granitemoe(c)
  local m = dense.granite(c)
  m.experts = experts(c, "num_local_experts", m.ffn)
  return m
end

-- The norms after attention and the experts, not before them, change nothing here.
types.flex_olmo = dense.olmoe

local function nested(c, key)
  return c:nested(key) or c:fail(key, "is missing: a map is needed")
end


-- Clipping queries, keys and values is a pass over data that the rotation reads anyway.
function types.dbrx(c)
  local attention, mlp = nested(c, "attn_config"), nested(c, "ffn_config")
  attention:ignore "clip_qkv"
  mlp:ignore "moe_loss_weight|moe_normalize_expert_weights"
  c:ignore "num_key_value_heads" -- a copy of kv_n_heads
  local act = mlp:nested "ffn_act_fn"
  local m = {
    layers = c:count("n_layers", nil, 1, 1 << 16), hidden = c:count "d_model", heads = c:count "n_heads",
    kv_heads = attention:count("kv_n_heads", 1), seq = c:count "max_seq_len", vocab = c:count "vocab_size",
    norm = "layernorm", biases = { norm = false }, positions = "rotary", gated = true, tied_embeddings = tied(c, false),
    activation = act and activation(act, "silu", "name") or "silu", ffn = mlp:count("ffn_hidden_size", 3584),
  }
  m.experts = { count = mlp:count("moe_num_experts", 4), top_k = mlp:count("moe_top_k", 1), ffn = m.ffn }
  parts.nothing_else(attention, "DBRX")
  parts.nothing_else(mlp, "DBRX")
  return m
end

-- Trinity. Three of four layers see only the last tokens; the fourth sees all, and without rotation. A gate as wide as
-- the queries multiplies attention's output. The bias of the experts' scores is a stored parameter.
function types.afmoe(c)
  local m = llama(c)
  c:ignore "mup_enabled|route_norm|route_scale|score_func|use_grouped_mm|load_balance_coeff|num_limited_groups"
  m.head_dim, m.qk_norm, m.attention_gate, m.norms_per_layer = c:count("head_dim", 128), true, true, 4
  parts.only(c, { num_expert_groups = 1 })
  m.experts = experts(c, "num_experts", c:count "moe_intermediate_size")
  m.experts.shared, m.experts.router_bias = c:count("num_shared_experts", 2, 0), true
  m.experts.dense_layers = c:count("num_dense_layers", 1, 0)
  local every = c:count("global_attn_every_n_layers", 4)
  window(c, m, "sliding_window", function(i) return (i + 1) % every ~= 0 end)
  return m
end

-- A list with 0 or 1 for every layer.
local function flags(c, key, layers)
  local listed = c:table(key) or c:fail(key, "is missing: a list with 0 or 1 for every layer is needed")
  if #listed ~= layers then c:fail(key, "has %d entries for %d layers", #listed, layers) end
  for i, flag in ipairs(listed) do
    if flag ~= 0 and flag ~= 1 then c:fail(key, "[%d] = %s is not 0 or 1", i, check.show(flag)) end
  end
  return listed
end

-- The layers with a window and those without experts, in the names of the model's own files or of the transformers
-- library, where the first layer and every sixth see all keys, and the first is dense.
local function mimo_layers(c, m)
  local own = c:has "hybrid_layer_pattern"
  local windowed = own and flags(c, "hybrid_layer_pattern", m.layers)
  local sparse = own and flags(c, "moe_layer_freq", m.layers)
  local kinds = c:table "mlp_layer_types" or { "dense" }
  window(c, m, "sliding_window|sliding_window_size", function(i)
    if own then return windowed[i + 1] == 1 end
    return i > 0 and (i + 1) % 6 ~= 0
  end)
  m.experts.dense_layers = {}
  for i = 1, m.layers do
    local plain = kinds[i] == "dense"
    if own then plain = sparse[i] == 0 end
    if plain then table.insert(m.experts.dense_layers, i) end
  end
end

-- MiMo-V2. Layers with a window have more heads of keys and values, and sinks. Values are narrower than keys. The scale
-- of values is a constant; one product for queries, keys and values is as large as three. The modules for multi-token
-- prediction are not in the files.
function types.mimo_v2_flash(c)
  local m = llama(c)
  c:ignore "attention_value_scale|attention_projection_layout|attention_chunk_size|sliding_window_size|swa_rope_theta"
  c:ignore "hybrid_block_size|layernorm_epsilon"
  m.head_dim, m.value_dim = c:count("head_dim", 192), c:count("v_head_dim", 128)
  m.attention_sinks = c:flag("add_full_attention_sink_bias", false)
  m.biases.attention_out = false
  m.experts = experts(c, "n_routed_experts|num_local_experts", c:count "moe_intermediate_size")
  m.experts.shared, m.experts.router_bias = c:count("n_shared_experts", 0, 0), true
  mimo_layers(c, m)
  local own = m.window or {}
  own.heads = c:count("swa_num_attention_heads", m.heads)
  own.kv_heads = c:count("swa_num_key_value_heads", 2 * m.kv_heads)
  own.head_dim, own.value_dim = c:count("swa_head_dim", m.head_dim), c:count("swa_v_head_dim", m.value_dim)
  own.attention_sinks = c:flag("add_swa_attention_sink_bias", true)
  return m
end
types.mimo_v2 = types.mimo_v2_flash

-- K-EXAONE: EXAONE 4's layers with experts. The module for multi-token prediction is left out, as in the transformers
-- library.
function types.exaone_moe(c)
  local m = dense.exaone4(c)
  c:ignore "first_last_k_dense_replace|num_nextn_predict_layers"
  m.experts = deepseek_experts(c, "num_experts|num_local_experts", m.layers,
    { count = 64, top_k = 8, ffn = 1024, shared = 1, dense = 1 })
  m.experts.router_bias = true
  return m
end

-- Hy3. Numerics of the sum with the shared expert, and scales of scores, are left out.
function types.hy_v3(c)
  local m = llama(c)
  c:ignore "router_scaling_factor|route_norm|enable_moe_fp32_combine|moe_router_use_sigmoid|enable_lm_head_fp32"
  c:ignore "enable_attention_fp32_softmax|num_nextn_predict_layers"
  parts.only(c, { qk_norm = true, use_qk_norm = true })
  m.head_dim, m.qk_norm = c:count("head_dim", 128), true
  m.experts = deepseek_experts(c, "num_experts|num_local_experts", m.layers,
    { count = 192, top_k = 8, ffn = 1536, shared = 1, dense = 1 })
  m.experts.router_bias = c:flag("moe_router_enable_expert_bias", true)
  return m
end

-- Solar Open: every layer has experts, whatever intermediate_size and first_k_dense_replace say.
function types.solar_open(c)
  local m = llama(c, false)
  c:ignore "first_k_dense_replace"
  parts.only(c, { use_qk_norm = false })
  m.head_dim = c:count("head_dim", 128)
  m.biases = { qkv = c:flag("attention_bias", false) }
  m.experts = deepseek_experts(c, "n_routed_experts|num_local_experts", m.layers,
    { count = 128, top_k = 8, ffn = 1280, shared = 1 })
  m.experts.dense_layers, m.experts.router_bias = 0, true
  return m
end

-- The layers with experts of Step-3.5, from 0: "3,4,5", or a list.
local function step_dense(c, layers)
  local given = c:has "moe_layers_enum" and c:value "moe_layers_enum"
  local sparse, plain = {}, {}
  if type(given) == "string" then
    for word in given:gmatch "[^,%s]+" do
      local layer = math.tointeger(tonumber(word)) or c:fail("moe_layers_enum", "has %s, not a layer", check.show(word))
      sparse[layer] = true
    end
  else
    for _, layer in ipairs(c:table "moe_layers_enum" or {}) do sparse[layer] = true end
  end
  for i = 0, layers - 1 do
    local has = sparse[i]
    if not given then has = i > 0 end
    if not has then plain[#plain + 1] = i + 1 end
  end
  return plain
end

-- Step-3.5 and 3.7. Layers with a window have more heads; every head has a gate. Limits of the activations in the last
-- layers, and which layers rotate how much of a head by which base, are left out. Lists of kinds go on to the modules
-- for multi-token prediction, which the transformers library leaves out, too.
function types.step3p5(c)
  c:ignore "partial_rotary_factors|yarn_only_types|use_rope_layers|swiglu_limits|swiglu_limits_shared|max_seq_len"
  c:ignore "moe_router_activation|moe_router_scaling_factor|norm_expert_weight|need_fp32_gate|num_nextn_predict_layers"
  c:ignore "zero_centered|sink|moe_layer_offset|moe_every_n_layer|use_moe"
  parts.only(c, { use_moe_router_bias = true, att_impl_type = "GQA", use_qk_norm = true })
  local m = parts.decoder(c)
  m.kv_heads, m.head_dim = c:count "num_attention_groups|num_key_value_heads", c:count "head_dim"
  m.ffn, m.seq, m.tied_embeddings = c:count(keys.ffn), c:count(keys.seq), tied(c, false)
  m.activation = activation(c, "silu")
  m.norm, m.positions, m.gated, m.qk_norm, m.biases = "rmsnorm", "rotary", true, true, false
  m.attention_gate = c:flag("use_head_wise_attn_gate", false) and "head" or false
  m.experts = {
    count = c:count "moe_num_experts", top_k = c:count "moe_top_k", ffn = c:count "moe_intermediate_size",
    shared = 1, shared_ffn = c:count "share_expert_dim|share_expert_dims", router_bias = true,
    dense_layers = step_dense(c, m.layers),
  }
  if m.experts.dense_layers[m.layers] then m.experts = nil end
  parts.window(c, m, "sliding_window", function(i) return i % 2 == 0 end, true)
  local own = c:nested "attention_other_setting"
  if own then
    parts.only(own, { attention_type = "sliding_attention" })
    parts.only(own, { head_dim = m.head_dim, true_head_dim = m.head_dim })
    local heads, groups = own:count "num_attention_heads", own:count "num_attention_groups|num_key_value_heads"
    if m.window then m.window.heads, m.window.kv_heads = heads, groups end
    parts.nothing_else(own, "Step-3.5")
  end
  return m
end
types.step3p7_text = types.step3p5
types.step3p7 = types.step3p5

-- Grok-1: norms before and after both halves of a layer; multipliers and the limit of the scores are constants.
types["grok-1"] = function(c)
  local m = llama(c)
  c:ignore "attn_output_multiplier|embedding_multiplier_scale|output_multiplier_scale|max_attn_value"
  m.activation, m.norms_per_layer, m.tied_embeddings = activation(c, "gelu"), 4, tied(c, true)
  m.experts = experts(c, "num_experts|num_local_experts", m.ffn)
  return m
end

return types
