--- Decoders with LayerNorms from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, tied, gpt, llama = parts.keys, parts.tied, parts.gpt, parts.llama

function types.gptj(c)
  local m = gpt(c, "gelu_new")
  m.seq, m.positions, m.tied_embeddings = c:count(keys.seq), "rotary", tied(c, false)
  c:ignore "rotary"
  m.norms_per_layer, m.parallel_block, m.biases = 1, true, { mlp = true, head = true }
  return m
end
types.codegen = types.gptj

-- Attention and MLP read one norm, and every product has a bias.
function types.phi(c)
  local m = gpt(c, "gelu_new")
  m.seq, m.positions, m.tied_embeddings = c:count(keys.seq), "rotary", tied(c, false)
  m.kv_heads, m.qk_norm = c:count(keys.kv_heads, m.heads), c:flag("qk_layernorm", false)
  m.norms_per_layer, m.parallel_block = 1, true
  m.biases = { qkv = true, attention_out = true, mlp = true, head = true }
  return m
end

-- The name in these files before transformers supported them.
types["phi-msft"] = function(c)
  c:ignore "flash_attn|flash_rotary|fused_dense" -- the kernels of its code
  return types.phi(c)
end

-- GPT-2 whose heads share a key and a value.
function types.gpt_bigcode(c)
  local m = gpt(c, "gelu_pytorch_tanh")
  m.seq = c:count(keys.seq)
  m.kv_heads = c:flag("multi_query", true) and 1 or m.heads
  c:ignore "scale_attention_softmax_in_fp32|pad_key_length|validate_runner_input|max_sequence_length|max_batch_size"
  c:ignore "inference_runner|pre_allocate_kv_cache|runner_max_sequence_length" -- execution of its code
  return m
end

-- Letters of GPT-Neo's layers: from a list of names, else from lists of names and their numbers of repeats.
local function local_layers(c, layers)
  local names = c:table "attention_layers"
  if not names then
    names = {}
    for _, run in ipairs(c:value "attention_types") do
      for _ = 1, run[2] do table.move(run[1], 1, #run[1], #names + 1, names) end
    end
  end
  if #names ~= layers then c:fail("attention_types", "has %d entries for %d layers", #names, layers) end
  local letters = {}
  for i, name in ipairs(names) do
    letters[i] = name == "local" and "w" or name == "global" and "f"
      or c:fail("attention_layers", "[%d] = %s is not global or local", i, check.show(name))
  end
  return table.concat(letters)
end

function types.gpt_neo(c)
  local m = gpt(c, "gelu_new")
  m.seq = c:count(keys.seq)
  m.biases = { qkv = false, attention_out = true, mlp = true }
  c:ignore "attention_types"
  local pattern = local_layers(c, m.layers)
  if pattern:find "w" then m.window = { size = c:count("window_size", 256), pattern = pattern } end
  return m
end

-- ALiBi: no limit but the training length. Neither products nor norms have biases.
function types.mpt(c)
  local attention = c:nested "attn_config" or c:fail("attn_config", "must be a map")
  attention:ignore "attn_impl|clip_qkv|softmax_scale|alibi_bias_max|attn_uses_sequence_id"
  parts.only(attention, { alibi = true, attn_type = "multihead_attention", prefix_lm = false, qk_ln = false })
  parts.only(c, { no_bias = true, norm_type = "low_precision_layernorm" })
  c:ignore "init_config|init_device|learned_pos_emb|embedding_fraction|logit_scale|tokenizer_name|verbose"
  local hidden = c:count(keys.hidden)
  return {
    layers = parts.layers(c), hidden = hidden, heads = c:count(keys.heads), ffn = hidden * c:count("expansion_ratio", 4),
    vocab = c:count "vocab_size", seq = c:count("max_seq_len", 2048), unbounded = true, positions = "alibi",
    norm = "layernorm", gated = false, activation = "gelu", tied_embeddings = tied(c, true), biases = { norm = false },
  }
end

-- Llama with LayerNorms. Norms of queries and keys have weights of their own for each head and no biases, unlike the
-- other norms.
function types.stablelm(c)
  local m = llama(c)
  parts.only(c, { qk_layernorm = false })
  m.norm, m.parallel_block = "layernorm", c:flag("use_parallel_residual", false)
  m.norms_per_layer = m.parallel_block and 1 or 2
  m.biases = { qkv = c:flag("use_qkv_bias", false), norm = true }
  return m
end

return types
