--- Further decoders, without mixers of their own, from Hugging Face files: model_type -> function(reader) -> model.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, activation, tied, llama, window = parts.keys, parts.activation, parts.tied, parts.llama, parts.window

-- Queries and keys have a norm over all heads. A layer's norms come after attention and the MLP, not before them.
function types.olmo2(c)
  local m = llama(c)
  m.qk_norm = "whole"
  return m
end

-- A window in all layers but every n-th.
local function full_every(c, m, every)
  window(c, m, "sliding_window", function(i) return (i + 1) % every ~= 0 end)
  return m
end

function types.olmo3(c) return full_every(c, types.olmo2(c), 4) end

function types.olmoe(c)
  local m = llama(c)
  m.qk_norm = "whole"
  m.experts = parts.experts(c, "num_experts|num_local_experts", m.ffn)
  c:ignore "clip_qkv"
  return m
end

-- Multipliers of the embedding, attention, residuals and logits are constants.
function types.granite(c)
  c:ignore "embedding_multiplier|logits_scaling|residual_multiplier|attention_multiplier"
  return llama(c)
end

function types.starcoder2(c)
  local m = llama(c)
  local bias = c:flag("use_bias", true)
  m.norm, m.gated, m.tied_embeddings = "layernorm", false, tied(c, true)
  m.activation = activation(c, "gelu_pytorch_tanh")
  m.biases = { qkv = bias, attention_out = bias, mlp = bias, norm = true }
  parts.only(c, { norm_type = "layer_norm", mlp_type = "default" })
  window(c, m, "sliding_window")
  return m
end

-- Its LayerNorms have biases, and store their weights minus one.
function types.nemotron(c)
  local m = llama(c)
  m.norm, m.gated, m.activation = "layernorm", false, activation(c, "relu2")
  m.biases.norm = true
  return m
end

-- Attention and MLP read one norm; norms of queries and keys have weights for each head.
function types.cohere(c)
  local m = llama(c)
  c:ignore "logit_scale|use_parallel_embedding|embedding_size"
  m.norm, m.norms_per_layer, m.parallel_block, m.tied_embeddings = "layernorm", 1, true, tied(c, true)
  m.qk_norm = c:flag("use_qk_norm", false) and "whole" or false
  m.biases.norm = false
  return m
end

-- Its full layers do not rotate queries and keys. Several fields tell Cohere's own code what the class does anyway.
function types.cohere2(c)
  local m = types.cohere(c)
  c:ignore "layer_switch"
  parts.only(c, {
    order_of_interleaved_layers = "local_attn_first", position_embedding_type = "rope_gptj", rotary_pct = 1,
    use_embedding_sharing = true, use_gated_activation = true, use_parallel_block = true,
  })
  return full_every(c, m, c:count("sliding_window_pattern|_sliding_window_pattern", 4))
end

function types.glm(c)
  local m = llama(c)
  m.kv_heads, m.head_dim = c:count(keys.kv_heads, 2), c:count("head_dim", 128)
  m.biases = { qkv = c:flag("attention_bias", true) }
  return m
end

-- Norms before and after attention and before and after the MLP.
function types.glm4(c)
  local m = types.glm(c)
  m.norms_per_layer = 4
  return m
end

types.glm4v_text = types.glm4 -- of GLM-4.1V

-- The same layers in the files of the models' own code: ChatGLM2, ChatGLM3, GLM-4-9B.
function types.chatglm(c)
  local heads = c:count(keys.heads)
  local bias, multi = c:flag("add_bias_linear", false), c:flag("multi_query_attention", false)
  c:ignore "apply_query_key_layer_scaling|fp32_residual_connection|original_rope" -- numerics; half a head is rotated
  parts.only(c, { post_layer_norm = true, rmsnorm = true })
  local layers = c:count("num_layers", nil, 1, 1 << 16)
  if c:count("num_hidden_layers", layers) ~= layers then
    c:fail("num_hidden_layers", '= %d is not "num_layers" = %d', c:count "num_hidden_layers", layers)
  end
  return {
    layers = layers, hidden = c:count(keys.hidden), heads = heads, head_dim = c:count("kv_channels", 128),
    kv_heads = multi and c:count("multi_query_group_num", 1) or heads, ffn = c:count "ffn_hidden_size",
    vocab = c:count "padded_vocab_size|vocab_size", seq = c:count(keys.seq), norm = "rmsnorm", positions = "rotary",
    gated = true, activation = "silu", tied_embeddings = tied(c, false),
    biases = { qkv = bias or c:flag("add_qkv_bias", false), attention_out = bias, mlp = bias },
  }
end

function types.seed_oss(c)
  local m = llama(c)
  m.biases.attention_out = c:flag("attention_out_bias", false)
  return m
end

-- One layer in four has no rotation, which costs next to nothing; a window, if there is any, is in these layers.
function types.smollm3(c)
  local m = llama(c)
  local listed, every = c:table "no_rope_layers", c:count("no_rope_layer_interval", 4)
  m.tied_embeddings = tied(c, true)
  parts.optional_window(c, m, function(i)
    local rotates = listed and listed[i + 1]
    if rotates == nil then return (i + 1) % every == 0 end
    return rotates == 0 or rotates == false
  end)
  return m
end

function types.ernie4_5(c)
  local m = llama(c)
  local bias = c:flag("use_bias", false)
  m.biases = { qkv = bias, attention_out = bias, mlp = bias }
  m.tied_embeddings = tied(c, true)
  return m
end

function types.hunyuan_v1_dense(c)
  local m = parts.hunyuan(c, "rms")
  parts.only(c, { use_qk_norm = true })
  m.qk_norm = true
  return m
end

-- EXAONE 3, 3.5 and Deep: Llama's layers under other names.
function types.exaone(c)
  local m = llama(c)
  m.tied_embeddings = tied(c, true)
  return m
end

-- Norms come after the sublayers, and on the heads of queries and keys. A pattern of letters, such as LLLG, leaves the
-- last layer global.
function types.exaone4(c)
  local m = llama(c)
  m.qk_norm = true
  if not c:has "sliding_window" then -- then the class ignores its pattern
    c:ignore "sliding_window_pattern"
    window(c, m, "sliding_window")
    return m
  end
  local every = c:has "sliding_window_pattern" and c:value "sliding_window_pattern" or 4
  if type(every) ~= "string" then return full_every(c, m, c:count("sliding_window_pattern", 4)) end
  if every == "" or every:find "[^LG]" then
    c:fail("sliding_window_pattern", "= %s must be made of L and G", check.show(every))
  end
  window(c, m, "sliding_window", function(i)
    local at = i % #every + 1
    return every:sub(at, at) == "L" and i < m.layers - 1
  end)
  return m
end

-- Muse Glimmer. Norms of queries and keys have no weights; a gate as wide as the queries multiplies attention's output.
-- Counted back from the last, every fourth layer sees all keys, without rotation. Factors are constants.
function types.muse_glimmer_text(c)
  local m = llama(c)
  c:ignore "qk_scale_factor|output_multiplier|layer_rope_theta"
  m.head_dim, m.qk_norm, m.attention_gate, m.norms_per_layer = c:count("head_dim", 128), "plain", true, 4
  window(c, m, "sliding_window", function(i) return (m.layers - 1 - i) % 4 ~= 0 end)
  return m
end

function types.arcee(c)
  local m = llama(c)
  m.gated, m.activation = false, activation(c, "relu2")
  return m
end

-- Its activation has two learned scalars in every layer.
function types.apertus(c)
  local m = llama(c)
  parts.only(c, { post_norm = false, qk_norm = true })
  m.gated, m.activation, m.qk_norm = false, activation(c, "xielu"), true
  return m
end

-- InternLM2's layers; the first InternLM has the same with biases and without groups of heads.
function types.internlm2(c)
  local m = llama(c)
  c:ignore "rotary" -- the base of the rotation
  local bias = c:flag("bias", true)
  m.biases = { qkv = bias, attention_out = bias }
  return m
end
types.internlm = types.internlm2

function types.internlm3(c)
  local m = llama(c)
  local bias = c:flag("bias", false)
  m.biases = { qkv = c:flag("qkv_bias", false), attention_out = bias, mlp = bias }
  return m
end

-- The 13B has ALiBi instead of rotation; only its files lack max_position_embeddings.
function types.baichuan(c)
  local rotary = c:has "max_position_embeddings" ~= nil
  local m = llama(c, nil, rotary and keys.seq or "model_max_length")
  c:ignore "z_loss_weight" -- of the training loss
  if not rotary then m.positions, m.unbounded = "alibi", true end
  return m
end

-- Multipliers of the embedding, residuals and logits are constants.
function types.minicpm(c)
  local m = llama(c)
  c:ignore "scale_emb|scale_depth|dim_model_base"
  m.tied_embeddings = tied(c, true)
  return m
end

-- The first Qwen, by its own code: a gate and an up projection share intermediate_size. Scaling of the scores beyond
-- seq_length is a constant per token.
function types.qwen(c)
  local m = llama(c)
  c:ignore "use_dynamic_ntk|use_logn_attn|seq_length|bf16|fp16|fp32|onnx_safe|softmax_in_fp32"
  m.head_dim = c:count("kv_channels", 128)
  local bias = not c:flag("no_bias", true)
  m.biases = { qkv = true, attention_out = bias, mlp = bias }
  if m.ffn % 2 ~= 0 then c:fail("intermediate_size", "= %d must be even", m.ffn) end
  m.ffn = m.ffn // 2
  return m
end

return types
