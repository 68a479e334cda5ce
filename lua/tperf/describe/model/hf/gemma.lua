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
  c:ignore "sliding_window_size" -- a second name of the window, which the class does not read
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

-- In every layer an MLP, which every token passes, beside the experts. Two norms more precede and follow these, one
-- follows the MLP, and the router's has weights of its own.
local function gemma4_experts(c, m)
  if not c:flag("enable_moe_block", false) then
    c:ignore "num_experts|top_k_experts"
    c:ignore "moe_intermediate_size|expert_intermediate_size"
    return
  end
  m.experts = {
    count = c:count "num_experts", top_k = c:count "top_k_experts",
    ffn = c:count "moe_intermediate_size|expert_intermediate_size", shared = 1, shared_ffn = m.ffn, router_bias = true,
  }
  m.norms_per_layer = 8
end

-- Full layers have wider and fewer heads of keys, which are their values, too. Values' norms have no weights and read
-- what the keys' norms read. Small models (E2B, E4B) have more: hf/per_layer_inputs.lua.
function types.gemma4_text(c)
  local width, shared = c:count("hidden_size_per_layer_input", 256, 0), c:count("num_kv_shared_layers", 0, 0)
  local rows, double = c:count("vocab_size_per_layer_input", 262144), c:flag("use_double_wide_mlp", false)
  if c:text("use_bidirectional_attention", "vision") ~= "vision" then -- images only
    c:fail("use_bidirectional_attention", "= \"all\" is not modelled: describe it in tperf's own format "
      .. "(docs/architectures.md)")
  end
  local m = llama(c)
  local tied_values, kv_heads, head_dim = c:flag("attention_k_eq_v", false), m.kv_heads, c:count("head_dim", 256)
  local full = c:count("num_global_key_value_heads", kv_heads)
  m.activation, m.tied_embeddings = activation(c, "gelu_pytorch_tanh", "hidden_activation|hidden_act"), tied(c, true)
  m.qk_norm, m.norms_per_layer, m.tied_values = true, 4, tied_values
  m.head_dim, m.kv_heads = c:count("global_head_dim", 512), tied_values and full or kv_heads
  gemma4_experts(c, m)
  window(c, m, "sliding_window", function(i) return (i + 1) % 6 ~= 0 end)
  if m.window then m.window.head_dim, m.window.kv_heads, m.window.tied_values = head_dim, kv_heads, false end
  if width == 0 and shared == 0 then return m end
  if m.experts or shared >= m.layers then
    c:fail(m.experts and "enable_moe_block" or "num_kv_shared_layers", "does not go with layers that share keys and "
      .. "values: not modelled (docs/architectures.md)")
  end
  return (require "tperf.describe.model.hf.per_layer_inputs")(m, { width = width, rows = rows, shared = shared,
    double = double })
end
types.gemma4_unified_text = types.gemma4_text

return types
