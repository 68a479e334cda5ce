--- Further decoders, without mixers of their own, from Hugging Face files: model_type -> function(reader) -> model.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, activation, tied, llama, gpt, window = parts.keys, parts.activation, parts.tied, parts.llama, parts.gpt,
  parts.window

function types.gptj(c)
  local m = gpt(c, "gelu_new")
  m.seq, m.positions, m.tied_embeddings = c:count(keys.seq), "rotary", tied(c, false)
  c:ignore "rotary"
  m.norms_per_layer, m.parallel_block, m.biases = 1, true, { mlp = true, head = true }
  return m
end

-- Queries and keys have a norm over all heads. A layer's norms come after attention and the MLP, not before them.
function types.olmo2(c)
  local m = llama(c)
  m.qk_norm = "whole"
  return m
end

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
  local norm, mlp = c:text("norm_type", "layer_norm"), c:text("mlp_type", "default")
  if norm ~= "layer_norm" then c:fail("norm_type", "= %s is not modelled: layer_norm is", check.show(norm)) end
  if mlp ~= "default" then c:fail("mlp_type", "= %s is not modelled: default is", check.show(mlp)) end
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

function types.glm(c)
  local m = llama(c)
  m.kv_heads, m.head_dim = c:count(keys.kv_heads, 2), c:count("head_dim", 128)
  m.biases = { qkv = c:flag("attention_bias", false) }
  return m
end

function types.seed_oss(c)
  local m = llama(c)
  m.biases.attention_out = c:flag("attention_out_bias", false)
  return m
end

-- One layer in four has no rotation, which costs next to nothing.
function types.smollm3(c)
  local m = llama(c)
  c:ignore "no_rope_layers|no_rope_layer_interval"
  m.tied_embeddings = tied(c, true)
  parts.optional_window(c, m)
  return m
end

return types
