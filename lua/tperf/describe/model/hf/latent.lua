--- Models with latent attention from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local llama, experts = parts.llama, parts.experts

-- Limits a token's experts to a few groups, if there are several.
local function limit_groups(c, e)
  local groups, chosen = c:count("n_group", false), c:count("topk_group", false)
  if groups and groups > 1 and chosen then e.groups, e.top_groups = groups, chosen end
end

-- num_key_value_heads and head_dim are ignored: latent attention has its own widths.
function types.deepseek_v2(c)
  local m = llama(c)
  c:ignore "qk_head_dim|num_experts_per_tok|moe_intermediate_size|n_shared_experts|first_k_dense_replace|moe_layer_freq"
  m.kv_heads, m.head_dim = nil, nil
  m.mla = {
    q_rank = c:count("q_lora_rank", false), kv_rank = c:count "kv_lora_rank",
    nope_dim = c:count "qk_nope_head_dim", rope_dim = c:count "qk_rope_head_dim", v_dim = c:count "v_head_dim",
  }
  m.biases.qkv = c:flag("attention_bias", false)
  local routed = "n_routed_experts|num_local_experts|num_experts"
  if not c:has(routed) then return m end
  m.experts = experts(c, routed, c:count "moe_intermediate_size")
  m.experts.shared = c:count("n_shared_experts", 0, 0)
  limit_groups(c, m.experts)
  -- Layer i (from 0) has experts if i >= first_k_dense_replace and i is a multiple of moe_layer_freq.
  local first, every = c:count("first_k_dense_replace", 0, 0), c:count("moe_layer_freq", 1)
  if every == 1 then
    m.experts.dense_layers = first
  else
    m.experts.dense_layers = {}
    for i = 0, m.layers - 1 do
      if i < first or i % every ~= 0 then table.insert(m.experts.dense_layers, i + 1) end
    end
  end
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
