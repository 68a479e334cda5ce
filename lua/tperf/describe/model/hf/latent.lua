--- Models with latent attention from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local llama = parts.llama

-- num_key_value_heads and head_dim are ignored: latent attention has its own widths.
local function latent(c, value_dim, seq)
  local m = llama(c, nil, seq)
  c:ignore "qk_head_dim"
  m.kv_heads, m.head_dim = nil, nil
  m.mla = {
    q_rank = c:count("q_lora_rank", false), kv_rank = c:count "kv_lora_rank",
    nope_dim = c:count "qk_nope_head_dim", rope_dim = c:count "qk_rope_head_dim",
    v_dim = c:count("v_head_dim", value_dim and value_dim(m)),
  }
  return m
end

function types.deepseek_v2(c)
  local m = latent(c)
  c:ignore "num_experts_per_tok|moe_intermediate_size|n_shared_experts|first_k_dense_replace|moe_layer_freq"
  local routed = "n_routed_experts|num_local_experts|num_experts"
  if c:has(routed) then m.experts = parts.deepseek_experts(c, routed, m.layers) end
  return m
end

-- The load-balancing bias is a stored parameter.
function types.deepseek_v3(c)
  local m = types.deepseek_v2(c)
  if m.experts then m.experts.router_bias = true end
  m.mtp = c:count("num_nextn_predict_layers", 0, 0)
  return m
end
types.kimi_k2 = types.deepseek_v3
types.glm4_moe_lite = types.deepseek_v3

-- LongCat-Flash. Each of its layers is two here: its experts read what the first half's MLP reads, so they are beside
-- that one, a shared expert; that their sum is added only after the second half changes nothing but what may overlap.
-- Of moe_topk experts, as many compute as are not zero experts: the routers' biases hold the mean there. Norms' scales
-- are constants. The module for multi-token prediction has a dense layer, like the last half.
function types.longcat_flash(c)
  c:ignore "num_hidden_layers|mla_scale_q_lora|mla_scale_kv_lora"
  parts.only(c, { attention_method = "MLA", zero_expert_type = "identity", router_bias = false })
  local halves, zero = 2 * c:count("num_layers", nil, 1, 1 << 15), c:count("zero_expert_num", 0, 0)
  local m = latent(c)
  local count, chosen = c:count "n_routed_experts|num_local_experts", c:count "moe_topk|num_experts_per_tok"
  if chosen * count % (count + zero) ~= 0 then
    c:fail(c:has "moe_topk|num_experts_per_tok", "= %d of %d experts and %d that compute nothing are no whole number "
      .. "of the former on average: not modelled (docs/architectures.md)", chosen, count, zero)
  end
  m.layers, m.mtp = halves, c:count("num_nextn_predict_layers", 0, 0)
  m.experts = {
    count = count, zero = zero, top_k = chosen * count // (count + zero), ffn = c:count "expert_ffn_hidden_size",
    shared = 1, shared_ffn = m.ffn, router_bias = true, dense_layers = {},
  }
  for i = 2, halves, 2 do table.insert(m.experts.dense_layers, i) end
  return m
end

-- The kinds of Kimi Linear's layers, which its lists number from 1.
local function kimi_mixers(c, linear, layers)
  local letters = {}
  for letter, key in pairs { D = "kda_layers", ["*"] = "full_attn_layers" } do
    for at, i in ipairs(linear:table(key) or {}) do
      if math.type(i) ~= "integer" or i < 1 or i > layers or letters[i] then
        linear:fail(key, "[%d] = %s is not a layer from 1 to %d that no list had before", at, check.show(i), layers)
      end
      letters[i] = letter
    end
  end
  for i = 1, layers do
    if not letters[i] then c:fail("linear_attn_config", "has layer %d in neither list", i) end
  end
  return table.concat(letters)
end

-- Kimi Linear: Kimi Delta Attention, whose decay and gate come through a rank as wide as a head, and latent attention
-- without rotation. Kimi K3's files have more fields, which are refused.
function types.kimi_linear(c)
  c:ignore "moe_renormalize|moe_router_activation_func"
  c:ignore "use_grouped_topk"
  parts.only(c, { num_expert_group = 1, mla_use_nope = true })
  local linear = c:nested "linear_attn_config" or c:fail("linear_attn_config", "is missing: a map is needed")
  local m = latent(c, nil, "max_position_embeddings|model_max_length")
  local heads, width = linear:count "num_heads", linear:count "head_dim"
  m.positions, m.mixers, m.mtp = "none", kimi_mixers(c, linear, m.layers), c:count("num_nextn_predict_layers", 0, 0)
  m.delta = {
    heads = heads, value_heads = heads, key_dim = width, value_dim = width, decay_rank = width, gate_rank = width,
    conv = linear:count("short_conv_kernel_size", 4),
  }
  m.experts = parts.deepseek_experts(c, "num_experts", m.layers)
  m.experts.router_bias = true
  for _, key in ipairs(linear:unread()) do
    linear:fail(key, "is not known of Kimi Linear: it may change what the model computes (docs/architectures.md)")
  end
  return m
end

-- A value is as wide as a head would be without latent attention. The scales of the embedding, the residuals and the
-- logits are constants.
function types.minicpm3(c)
  local m = latent(c, function(m) return m.hidden // m.heads end)
  c:ignore "scale_emb|scale_depth|dim_model_base"
  m.tied_embeddings = parts.tied(c, true)
  return m
end

-- DeepSeek-V3 whose attention sees the tokens that an indexer selects.
function types.deepseek_v32(c)
  local m = types.deepseek_v3(c)
  m.sparse = {
    heads = c:count "index_n_heads", head_dim = c:count "index_head_dim", top_k = c:count "index_topk",
  }
  return m
end

-- DeepSeek-V3.2's layer with GLM's sizes. Layers that share an indexer's selection are refused.
function types.glm_moe_dsa(c)
  local m = types.deepseek_v32(c)
  c:ignore "head_dim|qk_head_dim" -- follow from the ranks and widths of the latent attention
  if c:count("index_topk_freq", 1) ~= 1 then
    c:fail("index_topk_freq", "= %d: layers that share an indexer's selection are not modelled, see "
      .. "docs/architectures.md", c:count "index_topk_freq")
  end
  for i, kind in ipairs(c:table "indexer_types" or {}) do
    if kind ~= "full" then
      c:fail("indexer_types", "[%d] = %s is not \"full\": not modelled, see docs/architectures.md", i, check.show(kind))
    end
  end
  return m
end

return types
