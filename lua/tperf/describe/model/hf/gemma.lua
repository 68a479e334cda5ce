--- Gemma models from Hugging Face files: model_type -> function(reader) -> description.
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, activation, tied, llama, window = parts.keys, parts.activation, parts.tied, parts.llama, parts.window

function types.gemma(c)
  local m = llama(c)
  m.head_dim = c:count("head_dim", 256)
  m.tied_embeddings = tied(c, true)
  m.activation = activation(c, "gelu_pytorch_tanh", "hidden_activation|hidden_act")
  return m
end

function types.gemma2(c)
  local m = types.gemma(c)
  m.norms_per_layer = 4 -- before and after attention, before and after the MLP
  window(c, m, "sliding_window", function(i) return i % 2 == 0 end)
  return m
end

-- Files omit fields that have the class's default. Five of six layers see only the last tokens.
function types.gemma3_text(c)
  local act = activation(c, "gelu_pytorch_tanh", "hidden_activation|hidden_act")
  local m = {
    layers = c:count(keys.layers, 26, 1, 1 << 16), hidden = c:count(keys.hidden, 2304), heads = c:count(keys.heads, 8),
    kv_heads = c:count(keys.kv_heads, 4), head_dim = c:count("head_dim", 256), ffn = c:count(keys.ffn, 9216),
    vocab = c:count("vocab_size", 262208), seq = c:count(keys.seq, 131072), norm = "rmsnorm", positions = "rotary",
    gated = true, qk_norm = true, norms_per_layer = 4, activation = act, tied_embeddings = tied(c, true),
  }
  local bias = c:flag("attention_bias", false)
  m.biases = { qkv = bias, attention_out = bias }
  local every = c:count("sliding_window_pattern|_sliding_window_pattern", 6)
  window(c, m, "sliding_window", function(i) return (i + 1) % every ~= 0 end)
  if c:flag("use_bidirectional_attention", false) then
    c:fail("use_bidirectional_attention", "= true is not modelled: describe it in tperf's own format "
      .. "(docs/architectures.md)")
  end
  return m
end
types.gemma3 = types.gemma3_text

return types
