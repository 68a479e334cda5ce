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

local ROUTED <const> = "n_routed_experts|num_local_experts|num_experts"

function types.deepseek_v2(c)
  local m = latent(c)
  c:ignore "num_experts_per_tok|moe_intermediate_size|n_shared_experts|first_k_dense_replace|moe_layer_freq"
  if c:has(ROUTED) then m.experts = parts.deepseek_experts(c, ROUTED, m.layers) end
  return m
end

-- Latent attention and experts of a class that always has some. defaults: the class's, as parts.deepseek_experts says.
local function with_experts(c, defaults)
  local m = latent(c)
  m.experts = parts.deepseek_experts(c, ROUTED, m.layers, defaults)
  m.experts.router_bias = true -- the load-balancing bias is a stored parameter
  m.mtp = c:count("num_nextn_predict_layers", 0, 0)
  return m
end

local V3 <const> = { count = 256, top_k = 8, ffn = 2048, shared = 1, dense = 3 }

function types.deepseek_v3(c) return with_experts(c, V3) end
types.kimi_k2 = types.deepseek_v3

function types.glm4_moe_lite(c) return with_experts(c, { count = 64, top_k = 4, ffn = 1536, shared = 1, dense = 1 }) end

-- Mistral Small 4. Its router has no bias.
function types.mistral4(c)
  local m = with_experts(c, { count = 128, top_k = 4, ffn = 2048, shared = 1 })
  m.experts.router_bias = nil
  return m
end

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

-- The letters of layers that select tokens, F, or reuse the last selection, S: from a list of kinds, a pattern of the
-- same letters, or a period that begins after the first layers.
local function selections(c, layers)
  local letters, kinds = {}, { full = "F", shared = "S", F = "F", S = "S" }
  local freq, offset = c:count("index_topk_freq", 1), c:count("index_skip_topk_offset", 2, 0)
  local text = c:has "index_topk_pattern" and type(c:value "index_topk_pattern") == "string"
  local pattern = text and c:text "index_topk_pattern"
  local key = c:has "indexer_types|index_topk_pattern"
  local listed = not (key == "index_topk_pattern" and text) and c:table "indexer_types|index_topk_pattern"
  for i = 1, layers do
    local usual = math.max(i - offset, 0) % freq == 0 and "F" or "S"
    local own = listed and listed[i] or pattern and key == "index_topk_pattern" and pattern:sub(i, i)
    letters[i] = key == nil and usual or kinds[own]
      or c:fail(key, "[%d] = %s is not full or shared", i, check.show(own or nil))
  end
  return table.concat(letters)
end

-- DeepSeek-V3.2's layer with GLM's sizes. From GLM-5.2 on, most layers attend to what an earlier one's indexer selected
-- (arXiv 2603.12201).
function types.glm_moe_dsa(c)
  local m = with_experts(c, { count = 256, top_k = 8, ffn = 2048, shared = 1, dense = 3 })
  c:ignore "head_dim|qk_head_dim" -- follow from the ranks and widths of the latent attention
  c:ignore "index_share_for_mtp_iteration" -- of a draft's further steps
  parts.only(c, { moe_router_dtype = "float32" })
  m.experts.router_dtype = c:has "moe_router_dtype" and "fp32" or nil
  for i, kind in ipairs(c:table "layer_types" or {}) do
    if kind ~= "deepseek_sparse_attention" then
      c:fail("layer_types", "[%d] = %s is not deepseek_sparse_attention", i, check.show(kind))
    end
  end
  m.sparse = {
    heads = c:count("index_n_heads", 32), head_dim = c:count("index_head_dim", 128),
    top_k = c:count("index_topk", 2048), pattern = selections(c, m.layers),
  }
  if not m.sparse.pattern:find "S" then m.sparse.pattern = nil end
  return m
end

return types
