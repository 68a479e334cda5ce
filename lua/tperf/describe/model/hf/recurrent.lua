--- Recurrent models and hybrids from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, activation, tied, llama, experts = parts.keys, parts.activation, parts.tied, parts.llama, parts.experts

-- A recurrent model has no context limit; the published ones were trained at 2048 (arXiv 2405.21060).
function types.mamba2(c)
  local hidden, expand = c:count(keys.hidden), c:count("expand", 2)
  c:ignore(keys.seq .. "|hidden_act")
  local inner = c:count("intermediate_size", false)
  if inner and inner ~= expand * hidden then
    c:fail("intermediate_size", "= %d is not \"expand\" x \"hidden_size\" = %d", inner, expand * hidden)
  end
  return {
    layers = parts.layers(c), hidden = hidden, vocab = c:count "vocab_size", seq = 2048, unbounded = true,
    tied_embeddings = tied(c, false), norm = "rmsnorm", positions = "none",
    mamba = {
      state = c:count "state_size", heads = c:count "num_heads", head_dim = c:count("head_dim", 64),
      groups = c:count("n_groups", 8), conv = c:count("conv_kernel", 4), expand = expand,
      chunk = c:count("chunk_size", 256), bias = c:flag("use_bias", false), conv_bias = c:flag("use_conv_bias", true),
    },
  }
end

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

-- A hybrid: one mixer per layer, by hybrid_override_pattern; attention without positions, plain MLP with squared ReLU.
function types.nemotron_h(c)
  local m = llama(c)
  c:ignore "mamba_hidden_act|expand" -- SiLU in all; the width follows from the heads
  m.head_dim = c:count("attention_head_dim|head_dim", false)
  m.positions, m.gated = "none", false
  m.activation = activation(c, "relu2", "mlp_hidden_act")
  m.layer_pattern = pattern_of(c, "hybrid_override_pattern", "layers_block_type")
  local module = pattern_of(c, "mtp_hybrid_override_pattern", "mtp_layers_block_type", "*E")
  m.mtp = c:count("num_nextn_predict_layers", 0, 0)
  if m.mtp > 0 then m.mtp_pattern = module end
  m.mamba = {
    state = c:count "ssm_state_size", heads = c:count "mamba_num_heads", head_dim = c:count "mamba_head_dim",
    groups = c:count "n_groups", conv = c:count("conv_kernel", 4), chunk = c:count("chunk_size", 128),
    bias = c:flag("mamba_proj_bias|use_bias", false), conv_bias = c:flag("use_conv_bias", true),
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

-- Files of the state-spaces repositories, which have no model_type. The table is padded to a multiple; ssm_cfg gives
-- the Mamba version and omits its class's defaults.
function types.mamba_ssm(c)
  local hidden, layers = c:count "d_model", c:count("n_layer", nil, 1, 1 << 16)
  local ssm = c:nested "ssm_cfg" or c:fail("ssm_cfg", "must be a map")
  local vocab, multiple = c:count "vocab_size", c:count("pad_vocab_size_multiple", 8)
  local m = {
    layers = layers, hidden = hidden, vocab = (vocab + multiple - 1) // multiple * multiple, seq = 2048,
    unbounded = true, tied_embeddings = c:flag("tie_embeddings", true), positions = "none",
    norm = c:flag("rms_norm", true) and "rmsnorm" or "layernorm",
  }
  if m.norm == "layernorm" then m.biases = { norm = true } end
  if c:count("d_intermediate", 0, 0) > 0 then
    c:fail("d_intermediate", "> 0: an MLP in every layer is not modelled; see `mixers` in docs/architectures.md")
  end
  if next(c:table "attn_layer_idx" or {}) ~= nil then
    c:fail("attn_layer_idx", "names layers of attention, which are not modelled; see docs/architectures.md")
  end
  c:ignore "attn_layer_idx|attn_cfg"
  local which, expand = ssm:text("layer", "Mamba1"), ssm:count("expand", 2)
  if which == "Mamba2" then
    local head_dim = ssm:count("headdim", 64)
    m.mamba = {
      state = ssm:count("d_state", 128), heads = expand * hidden // head_dim, head_dim = head_dim,
      groups = ssm:count("ngroups", 1), conv = ssm:count("d_conv", 4), chunk = ssm:count("chunk_size", 256),
      expand = expand,
    }
  elseif which == "Mamba1" then
    m.mamba1 = {
      state = ssm:count("d_state", 16), inner = expand * hidden, conv = ssm:count("d_conv", 4),
      rank = ssm:count("dt_rank", (hidden + 15) // 16),
    }
  else
    ssm:fail("layer", "= %s is unknown; known: Mamba1, Mamba2", check.show(which))
  end
  for _, key in ipairs(ssm:unread()) do
    if not key:find "^dt_" and key ~= "A_init_range" then -- those set initial weights
      ssm:fail(key, "is not known of a state-spaces model: it may change what it computes (docs/architectures.md)")
    end
  end
  return m
end

-- Mamba-1 as configured in transformers.
function types.mamba(c)
  local hidden, expand = c:count(keys.hidden), c:count("expand", 2)
  c:ignore(keys.seq .. "|hidden_act|use_mambapy|d_inner|d_model|n_layer|ssm_cfg|rms_norm|fused_add_norm")
  local rank = c:has "time_step_rank" and c:value "time_step_rank"
  return {
    layers = parts.layers(c), hidden = hidden, vocab = c:count "vocab_size", seq = 2048, unbounded = true,
    tied_embeddings = tied(c, true), norm = "rmsnorm", positions = "none",
    mamba1 = {
      state = c:count("state_size", 16), inner = c:count("intermediate_size", expand * hidden),
      conv = c:count("conv_kernel", 4), bias = c:flag("use_bias", false), conv_bias = c:flag("use_conv_bias", true),
      rank = type(rank) == "number" and c:count "time_step_rank" or (hidden + 15) // 16,
    },
  }
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

-- The layers' letters: from layer_types, else every full_attention_interval-th is attention.
local function mixers_of(c, layers)
  local listed, every = c:table "layer_types", c:count("full_attention_interval", 4)
  if not listed then return ("D"):rep(every - 1) .. "*" end
  if #listed ~= layers then c:fail("layer_types", "has %d entries for %d layers", #listed, layers) end
  local letters = {}
  for i, kind in ipairs(listed) do
    letters[i] = kind == "linear_attention" and "D" or kind == "full_attention" and "*"
      or c:fail("layer_types", "[%d] = %s is not linear_attention or full_attention", i, check.show(kind))
  end
  return table.concat(letters)
end

-- Gated delta nets and gated attention with query and key norms.
local function gated_delta(c, ffn)
  local m = llama(c, ffn)
  c:ignore "mamba_ssm_dtype|mtp_use_dedicated_embeddings"
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
