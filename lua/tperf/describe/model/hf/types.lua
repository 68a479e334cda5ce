--- Hugging Face model types and their defaults: model_type -> function(reader) -> description.
-- Key names, defaults and rules are those of the transformers configuration classes of the same names.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, activation, tied, decoder = parts.keys, parts.activation, parts.tied, parts.decoder
local gpt, llama, window, experts = parts.gpt, parts.llama, parts.window, parts.experts

function types.gpt2(c)
  local m = gpt(c, "gelu_new")
  m.seq = c:count(keys.seq)
  return m
end

function types.gpt_neox(c)
  local m = gpt(c, "gelu")
  m.seq, m.positions = c:count(keys.seq), "rotary"
  m.tied_embeddings, m.parallel_block = tied(c, false), c:flag("use_parallel_residual", true)
  local attention = c:flag("attention_bias", true)
  m.biases = { qkv = attention, attention_out = attention, mlp = true }
  return m
end

-- The position table has two more rows than the context; the 350M's tables are narrower than its layers.
function types.opt(c)
  local m = gpt(c, "relu")
  m.seq = c:count(keys.seq)
  m.position_rows = m.seq + 2
  m.embedding_width = c:count("word_embed_proj_dim", m.hidden)
  local before, removed = c:flag("do_layer_norm_before", true), c:flag("_remove_final_layer_norm", false)
  m.final_norm = before and not removed
  local affine = c:flag("layer_norm_elementwise_affine", true)
  if not affine then c:fail("layer_norm_elementwise_affine", "= false is not modelled") end
  if not c:flag("enable_bias", true) then m.biases = { norm = true } end
  return m
end

-- ALiBi: no table, and no limit but the training length (2048 tokens, arXiv 2211.05100).
function types.bloom(c)
  local m = gpt(c, "gelu")
  m.seq, m.unbounded, m.positions = c:count("seq_length", 2048), true, "alibi"
  m.embedding_norm = true
  return m
end

local function falcon(c, new)
  local m = decoder(c)
  c:ignore "multi_query|num_kv_heads|n_head_kv|num_ln_in_parallel_attn" -- files have them in either case
  m.ffn = c:count("ffn_hidden_size", 4 * m.hidden)
  m.seq = c:count(keys.seq, 2048)
  local parallel = c:flag("parallel_attn", true)
  m.kv_heads = new and c:count("num_kv_heads|n_head_kv", m.heads) or c:flag("multi_query", true) and 1 or m.heads
  m.norm, m.gated, m.tied_embeddings = "layernorm", false, tied(c, true)
  m.activation = activation(c, "gelu", "activation")
  m.positions = c:flag("alibi", false) and "alibi" or "rotary"
  m.unbounded = m.positions == "alibi"
  local bias = c:flag("bias", false)
  m.biases = { qkv = bias, attention_out = bias, mlp = bias, norm = true }
  m.parallel_block = parallel or new
  m.norms_per_layer = new and c:count("num_ln_in_parallel_attn", 2) or parallel and 1 or 2
  return m
end

function types.falcon(c) return falcon(c, c:flag("new_decoder_architecture", false)) end

-- The names in these files (the 7B's, the 40B's) before transformers supported them.
function types.RefinedWebModel(c) return falcon(c, false) end
function types.RefinedWeb(c) return falcon(c, c:has "n_head_kv|num_kv_heads" ~= nil) end

types.llama = llama

function types.mistral(c)
  local m = llama(c)
  m.kv_heads = c:count(keys.kv_heads, 8)
  window(c, m, "sliding_window")
  return m
end
types.ministral, types.ministral3 = types.mistral, types.mistral

function types.mixtral(c)
  local m = types.mistral(c)
  m.experts = experts(c, "num_local_experts|num_experts", m.ffn)
  return m
end

-- The files of Phi-4-mini name what its own code does not read.
function types.phi3(c)
  local m = llama(c)
  c:ignore "full_attn_mod|interpolate_factor"
  parts.only(c, { lm_head_bias = false })
  window(c, m, "sliding_window")
  return m
end

function types.qwen2(c)
  local m = llama(c)
  m.biases = { qkv = true }
  parts.optional_window(c, m)
  return m
end

-- The text model; older files have its fields beside vision_config.
function types.qwen2_vl(c)
  c:ignore "vision_config"
  return types.qwen2(c)
end
types.qwen2_5_vl, types.qwen2_vl_text, types.qwen2_5_vl_text = types.qwen2_vl, types.qwen2, types.qwen2
types.qwen2_5_omni_text = types.qwen2

function types.mimo(c)
  local m = types.qwen2(c)
  m.mtp = c:count("num_nextn_predict_layers", 0, 0)
  return m
end

function types.qwen3(c)
  local m = llama(c)
  m.head_dim = c:count("head_dim", 128)
  m.qk_norm = true
  parts.optional_window(c, m)
  return m
end
types.qwen3_vl_text = types.qwen3

-- Layer i (from 0) has experts if (i + 1) is a multiple of decoder_sparse_step and i is not in mlp_only_layers.
local function qwen_experts(c, m)
  m.experts = experts(c, "num_experts|num_local_experts", c:count "moe_intermediate_size")
  m.experts.every = c:count("decoder_sparse_step", 1)
  local dense = {}
  for at, i in ipairs(c:table "mlp_only_layers" or {}) do
    local layer = math.type(i) == "integer" and i or -1
    if layer < 0 or layer >= m.layers then
      c:fail("mlp_only_layers", "[%d] = %s is not a layer from 0 to %d", at, check.show(i), m.layers - 1)
    end
    dense[at] = layer + 1
  end
  m.experts.dense_layers = dense
  return m
end

-- Files of the first revision say what the class does anyway.
function types.qwen2_moe(c)
  parts.only(c, { expert_interval = 1, shared_expert_gate = true })
  local m = qwen_experts(c, types.qwen2(c))
  m.biases.qkv = c:flag("qkv_bias", true)
  m.experts.shared, m.experts.shared_ffn = 1, c:count "shared_expert_intermediate_size"
  m.experts.shared_gate = true
  return m
end

function types.qwen3_moe(c)
  local m = qwen_experts(c, types.qwen3(c))
  m.kv_heads = c:count(keys.kv_heads, 4)
  return m
end

-- The thinker's text model, whose class has another default. The files of thinkers name a width of shared experts, of
-- which they have none.
function types.qwen3_omni_moe_text(c)
  c:ignore "shared_expert_intermediate_size"
  parts.only(c, { use_qk_norm = true })
  local m = types.qwen3_moe(c)
  m.head_dim = c:count("head_dim", false)
  return m
end

-- The text model of Qwen3-VL's mixtures, whose class has other defaults.
function types.qwen3_vl_moe_text(c)
  local m = types.qwen3_moe(c)
  m.kv_heads, m.head_dim = c:count(keys.kv_heads, 16), c:count("head_dim", false)
  return m
end

function types.gpt_oss(c)
  local m = llama(c)
  m.kv_heads, m.head_dim = c:count(keys.kv_heads, 8), c:count("head_dim", 64)
  local bias = c:flag("attention_bias", true)
  m.biases = { qkv = bias, attention_out = bias, mlp = true }
  m.attention_sinks, m.limited_activation = true, true
  m.experts = experts(c, "num_local_experts|num_experts", m.ffn)
  m.experts.router_bias = true
  window(c, m, "sliding_window", function(i) return i % 2 == 0 end)
  return m
end

-- Raises unless the list of layers with experts, from 0, agrees with interleave_moe_layer_step.
local function check_moe_layers(c, m)
  local listed = c:table "moe_layers"
  for at = 1, listed and m.layers // m.experts.every or 0 do
    if listed[at] ~= at * m.experts.every - 1 or #listed ~= m.layers // m.experts.every then
      c:fail("moe_layers", "is not every layer that \"interleave_moe_layer_step\" = %d names", m.experts.every)
    end
  end
end

-- The text model only. Three of four layers see chunks of the context, the fourth all of it and without rotation.
function types.llama4_text(c)
  local m = llama(c)
  m.experts = experts(c, "num_local_experts", m.ffn)
  m.experts.every = c:count("interleave_moe_layer_step", 1)
  m.experts.shared = 1
  m.ffn = c:count("intermediate_size_mlp", 16384)
  c:ignore "use_qk_norm" -- no weights, and a pass over data that the rotation reads anyway
  check_moe_layers(c, m)
  local rotated, every = c:table "no_rope_layers", c:count("no_rope_layer_interval", 4)
  window(c, m, "attention_chunk_size", function(i)
    local flag = rotated and rotated[i + 1]
    if flag ~= nil then return flag ~= 0 and flag ~= false end
    return (i + 1) % every ~= 0
  end)
  return m
end

-- Rotating half of each head changes nothing here; the load-balancing bias is a stored parameter.
function types.glm4_moe(c)
  local m = llama(c)
  local bias = c:flag("attention_bias", false)
  m.biases = { qkv = bias }
  m.qk_norm = c:flag("use_qk_norm", false)
  m.experts = parts.deepseek_experts(c, "n_routed_experts|num_experts", m.layers)
  m.experts.router_bias = true
  m.mtp = c:count("num_nextn_predict_layers", 0, 0)
  return m
end

-- The text model of GLM-4.5V and GLM-4.6V, whose class has another default.
function types.glm4v_moe_text(c)
  local m = types.glm4_moe(c)
  m.biases.qkv = c:flag("attention_bias", true)
  return m
end

-- Its query and key norms are over all heads at once. use_mtp = false: no modules; a module with several layers is
-- refused.
function types.minimax_m2(c)
  local m = llama(c)
  c:ignore "mlp_intermediate_size|layernorm_full_attention_beta|layernorm_linear_attention_beta|layernorm_mlp_beta"
  c:ignore "shared_moe_mode" -- a leftover of the previous model
  m.qk_norm = c:flag("use_qk_norm", false) and (c:text("qk_norm_type", "per_layer") == "per_layer" and "whole" or true)
  m.experts = experts(c, "num_local_experts|num_experts", m.ffn)
  m.experts.router_bias, m.experts.router_dtype = c:flag("use_routing_bias", false), "fp32"
  local modules, layers = c:count("num_mtp_modules", 0, 0), c:count("mtp_transformer_layers", 1)
  m.mtp = c:flag("use_mtp", false) and modules or 0
  if m.mtp > 0 and layers ~= 1 then
    c:fail("mtp_transformer_layers", "= %d is not modelled: a module has one layer (docs/architectures.md)", layers)
  end
  for i, kind in ipairs(c:table "attn_type_list" or {}) do
    if kind ~= 1 then
      c:fail("attn_type_list", "[%d] = %s is not full attention (1): not modelled, see docs/architectures.md", i,
        check.show(kind))
    end
  end
  return m
end

-- The name in MiniMax-M2's own files, shared with MiniMax-01's.
function types.minimax(c)
  local class = (c:table "architectures" or {})[1]
  if class == "MiniMaxM2ForCausalLM" then return types.minimax_m2(c) end
  c:fail("architectures", "[1] = %s is not MiniMaxM2ForCausalLM: its lightning attention is not modelled, see "
    .. "docs/architectures.md", check.show(class))
end

for _, more in ipairs {
  "latent", "gemma", "dense", "plain", "images", "recurrent", "hybrids", "encoders", "t5", "mixtures",
  "lfm2", "nemotron_nas", "deepseek_v4",
} do
  for name, describe in next, (require("tperf.describe.model.hf." .. more)) do types[name] = describe end
end

return types
