--- Hybrids of recurrent layers and attention from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, activation, llama, experts = parts.keys, parts.activation, parts.llama, parts.experts

-- The layers' letters, from a text or from a list of names (newer files).
local NAMES = {
  mamba = "M", linear_attention = "M", attention = "*", full_attention = "*", mlp = "-", moe = "E",
}

local function pattern_of(c, text_key, list_key, default)
  local listed = c:table(list_key)
  if not listed then return c:text(text_key, default) end
  c:ignore(text_key)
  local letters = {}
  for i, name in ipairs(listed) do
    letters[i] = NAMES[name] or c:fail(list_key, "[%d] = %s is unknown; known: %s", i, check.show(name),
      table.concat(check.names(NAMES), ", "))
  end
  return table.concat(letters)
end

local STATES <const> = { float32 = "fp32", bfloat16 = "bf16", float16 = "fp16" }

-- In which layers keep their state, if the file says. vLLM reads it of these families alone (model_executor/models/
-- config.py).
local function state_dtype(c, key, default)
  local said = c:text(key, default)
  if said and not STATES[said] then
    c:fail(key, "= %s is unknown; known: %s", check.show(said), table.concat(check.names(STATES), ", "))
  end
  return STATES[said]
end

-- A hybrid: one mixer per layer, by hybrid_override_pattern; attention without positions, plain MLP with squared ReLU.
function types.nemotron_h(c)
  local m = llama(c)
  c:ignore "mamba_hidden_act|expand|mamba_expand" -- SiLU in all; the width follows from the heads
  c:ignore "mamba_dt_min|mamba_dt_max|mamba_dt_limit|mamba_dt_init_floor" -- of initial weights and limits of steps
  m.head_dim = c:count("attention_head_dim|head_dim", false)
  m.positions, m.gated = "none", false
  m.activation = activation(c, "relu2", "mlp_hidden_act")
  m.layer_pattern = pattern_of(c, "hybrid_override_pattern", "layers_block_type|layer_types")
  m.layers = #m.layer_pattern -- the class goes by the pattern, whatever num_hidden_layers says
  local module = pattern_of(c, "mtp_hybrid_override_pattern", "mtp_layers_block_type", "*E")
  m.state_dtype = state_dtype(c, "mamba_ssm_cache_dtype", "float32")
  m.mtp = c:count("num_nextn_predict_layers", 0, 0)
  if m.mtp > 0 then m.mtp_pattern = module end
  m.mamba = {
    state = c:count "ssm_state_size", heads = c:count "mamba_num_heads", head_dim = c:count "mamba_head_dim",
    groups = c:count "n_groups|mamba_n_groups", conv = c:count("conv_kernel|mamba_d_conv", 4),
    chunk = c:count("chunk_size|mamba_chunk_size", 128), bias = c:flag("mamba_proj_bias|use_bias", false),
    conv_bias = c:flag("use_conv_bias|mamba_conv_bias", true),
  }
  if m.layer_pattern:find "E" then
    m.experts = experts(c, "n_routed_experts", c:count "moe_intermediate_size")
    m.experts.shared = c:count("n_shared_experts", 0, 0)
    m.experts.shared_ffn = m.experts.shared > 0 and c:count "moe_shared_expert_intermediate_size" or nil
    m.experts.latent = c:count("moe_latent_size", false)
    m.experts.router_bias = true
  end
  -- Files without experts have these keys, too.
  c:ignore "n_routed_experts|num_experts_per_tok|moe_intermediate_size|n_shared_experts|moe_latent_size"
  c:ignore "moe_shared_expert_intermediate_size|moe_shared_expert_overlap"
  return m
end

-- Layer i (from 0) is attention if i is attn_layer_offset past a multiple of attn_layer_period, else Mamba-1 with norms
-- of steps, B and C; expert_layer_period and expert_layer_offset place the experts in the same way.
function types.jamba(c)
  local m = llama(c)
  local expand, bias = c:count("mamba_expand", 2), c:flag("mamba_proj_bias", false)
  m.positions, m.biases = "none", nil
  c:ignore "calc_logits_for_entire_prompt"
  m.mamba1 = {
    state = c:count("mamba_d_state", 16), inner = expand * m.hidden, conv = c:count("mamba_d_conv", 4), bias = bias,
    conv_bias = c:flag("mamba_conv_bias", true), norms = c:flag("mamba_inner_layernorms", true),
    rank = type(c:value "mamba_dt_rank") == "number" and c:count "mamba_dt_rank" or (m.hidden + 15) // 16,
  }
  local period, offset = c:count("attn_layer_period", 8), c:count("attn_layer_offset", 4, 0)
  if offset >= period then
    c:fail("attn_layer_offset", '= %d must be less than "attn_layer_period" = %d', offset, period)
  end
  m.mixers = ("M"):rep(offset) .. "*" .. ("M"):rep(period - offset - 1)
  local every, first = c:count("expert_layer_period", 2), c:count("expert_layer_offset", 1, 0)
  if c:count("num_experts", 16) == 1 then
    c:ignore "num_experts_per_tok"
    return m
  end
  m.experts = { count = c:count("num_experts", 16), top_k = c:count("num_experts_per_tok", 2), ffn = m.ffn }
  m.experts.dense_layers = {}
  for i = 0, m.layers - 1 do
    if i % every ~= first then table.insert(m.experts.dense_layers, i + 1) end
  end
  return m
end

-- Mixers of layers with an MLP each, from a list of the layers' kinds.
local function listed_mixers(c, key, listed, layers, recurrent, letter, attention)
  if #listed ~= layers then c:fail(key, "has %d entries for %d layers", #listed, layers) end
  local letters = {}
  for i, kind in ipairs(listed) do
    letters[i] = kind == recurrent and letter or kind == attention and "*"
      or c:fail(key, "[%d] = %s is not %s or %s", i, check.show(kind), recurrent, attention)
  end
  return table.concat(letters)
end

-- Mamba-2 as Bamba and Granite name its fields. A head's width may be "auto".
local function mamba_of(c, hidden)
  local expand, heads = c:count("mamba_expand", 2), c:count("mamba_n_heads", 128)
  local width = c:has "mamba_d_head" and c:value "mamba_d_head" or "auto"
  return {
    state = c:count("mamba_d_state", 256), heads = heads, expand = expand,
    head_dim = width == "auto" and expand * hidden // heads or c:count "mamba_d_head",
    groups = c:count("mamba_n_groups", 1), conv = c:count("mamba_d_conv", 4), chunk = c:count("mamba_chunk_size", 256),
    bias = c:flag("mamba_proj_bias", false), conv_bias = c:flag("mamba_conv_bias", true),
  }
end

-- Granite 4.0. Every layer has the shared MLP; files without experts have nothing else, and the dense ones no Mamba.
function types.granitemoehybrid(c)
  c:ignore "intermediate_size" -- for the experts; files without them have it, too
  local m = llama(c, false)
  c:ignore "embedding_multiplier|logits_scaling|residual_multiplier|attention_multiplier|init_method"
  local norm = c:text("normalization_function", "rmsnorm")
  if norm ~= "rmsnorm" then
    c:fail("normalization_function", "= %s is not modelled: rmsnorm is (docs/architectures.md)", check.show(norm))
  end
  local positions = c:text("position_embedding_type", "nope")
  m.positions = positions == "rope" and "rotary" or positions == "nope" and "none"
    or c:fail("position_embedding_type", "= %s is not rope or nope", check.show(positions))
  m.mamba = mamba_of(c, m.hidden)
  local listed = c:table "layer_types|layers_block_type"
  m.mixers = listed and listed_mixers(c, "layer_types", listed, m.layers, "mamba", "M", "attention") or "M"
  if not m.mixers:find "M" then m.mixers, m.mamba = nil, nil end
  local shared = c:count("shared_intermediate_size", 1024)
  if c:count("num_local_experts", 8, 0) == 0 then
    c:ignore "num_experts_per_tok"
    m.ffn = shared
    return m
  end
  m.experts = {
    count = c:count("num_local_experts", 8), top_k = c:count("num_experts_per_tok", 2),
    ffn = c:count "intermediate_size", shared = 1, shared_ffn = shared,
  }
  return m
end

-- Falcon-H1: Mamba-2 and attention read one norm in every layer. The multipliers are constants.
function types.falcon_h1(c)
  c:ignore "mamba_norm_before_gate|embedding_multiplier|lm_head_multiplier|key_multiplier|mlp_multipliers"
  c:ignore "attention_in_multiplier|attention_out_multiplier|ssm_multipliers|ssm_in_multiplier|ssm_out_multiplier"
  c:ignore "mlp_expansion_factor" -- read by no class
  parts.only(c, { projectors_bias = false, mamba_use_mlp = true })
  local m = llama(c)
  m.mamba, m.mixers = mamba_of(c, m.hidden), "B"
  m.mamba.expand, m.mamba.norm = nil, c:flag("mamba_rms_norm", false)
  local width = c:count("mamba_d_ssm", c:count("mamba_expand", 2) * m.hidden)
  if not c:has "mamba_d_head" or c:value "mamba_d_head" == "auto" then m.mamba.head_dim = width // m.mamba.heads end
  if m.mamba.heads * m.mamba.head_dim ~= width then
    c:fail("mamba_d_ssm", '= %d is not "mamba_n_heads" x "mamba_d_head" = %d x %d', width, m.mamba.heads,
      m.mamba.head_dim)
  end
  return m
end

-- The layers of attn_layer_indices, from 0, have attention, which rotates half of each head; mamba_dt_rank is left over
-- from Jamba's files.
function types.bamba(c)
  local m = parts.decoder(c)
  c:ignore "attn_rotary_emb|mamba_dt_rank"
  m.kv_heads, m.ffn, m.seq = c:count(keys.kv_heads, 8), c:count(keys.ffn), c:count(keys.seq, 262144)
  m.norm, m.positions, m.gated, m.tied_embeddings = "rmsnorm", "rotary", true, parts.tied(c, false)
  m.activation = activation(c, "silu")
  for _, name in ipairs { "attention_bias", "mlp_bias" } do -- the class sets both to false
    if c:flag(name, false) then c:fail(name, "= true is not known of model_type \"bamba\" (docs/architectures.md)") end
  end
  m.mamba = mamba_of(c, m.hidden)
  local letters = {}
  for i = 1, m.layers do letters[i] = "M" end
  for at, i in ipairs(c:table "attn_layer_indices" or {}) do
    if math.type(i) ~= "integer" or not letters[i + 1] then
      c:fail("attn_layer_indices", "[%d] = %s is not a layer from 0 to %d", at, check.show(i), m.layers - 1)
    end
    letters[i + 1] = "*"
  end
  m.mixers = table.concat(letters)
  return m
end

-- The layers' letters: from layer_types, else every full_attention_interval-th is attention.
local function mixers_of(c, layers)
  local listed, every = c:table "layer_types", c:count("full_attention_interval", 4)
  if not listed then return ("D"):rep(every - 1) .. "*" end
  return listed_mixers(c, "layer_types", listed, layers, "linear_attention", "D", "full_attention")
end

-- Gated delta nets and gated attention with query and key norms.
local function gated_delta(c, ffn)
  local m = llama(c, ffn)
  c:ignore "mtp_use_dedicated_embeddings"
  c:ignore("output_gate_type", "SiLU or a sigmoid, at the same cost")
  m.state_dtype = state_dtype(c, "mamba_ssm_dtype", false)
  m.head_dim, m.qk_norm, m.attention_gate = c:count("head_dim", 256), true, c:flag("attn_output_gate", true)
  m.delta = {
    heads = c:count("linear_num_key_heads", 16), value_heads = c:count("linear_num_value_heads", 32),
    key_dim = c:count("linear_key_head_dim", 128), value_dim = c:count("linear_value_head_dim", 128),
    conv = c:count("linear_conv_kernel_dim", 4),
  }
  m.mixers = mixers_of(c, m.layers)
  m.mtp = c:count("mtp_num_hidden_layers|num_nextn_predict_layers", 0, 0)
  return m
end

local function with_experts(c, m)
  m.experts = experts(c, "num_experts", c:count "moe_intermediate_size")
  m.experts.shared, m.experts.shared_gate = 1, true
  m.experts.shared_ffn = c:count "shared_expert_intermediate_size"
  return m
end

-- Every layer has experts in the published files.
function types.qwen3_next(c)
  local m = with_experts(c, gated_delta(c))
  if c:count("decoder_sparse_step", 1) ~= 1 or next(c:table "mlp_only_layers" or {}) ~= nil then
    c:fail("decoder_sparse_step", 'and "mlp_only_layers" that leave layers without experts are not modelled')
  end
  return m
end

function types.qwen3_5_text(c) return gated_delta(c) end

function types.qwen3_5_moe_text(c) return with_experts(c, gated_delta(c, false)) end

return types
