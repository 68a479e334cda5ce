--- Decoders with LayerNorms from Hugging Face files: model_type -> function(reader) -> description.
local check = require "tperf.base.check"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local keys, tied, gpt, llama = parts.keys, parts.tied, parts.gpt, parts.llama

function types.gptj(c)
  local m = gpt(c, "gelu_new")
  m.seq, m.positions, m.tied_embeddings = c:count(keys.seq), "rotary", tied(c, false)
  c:ignore "rotary"
  m.head_dim = c:count("head_dim", false) -- in CodeGen 2's files
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

-- The kinds of GPT-Neo's layers: a list, or lists of kinds with their numbers of repeats.
local function kinds_of(c, layers)
  local listed, names = c:table "attention_layers", {}
  if listed then return listed end
  for i, run in ipairs(c:table "attention_types" or {}) do
    local kinds, times = type(run) == "table" and run[1], type(run) == "table" and run[2]
    if type(kinds) ~= "table" or math.type(times) ~= "integer" then
      c:fail("attention_types", "[%d] must be a list of kinds and the number of its repeats", i)
    end
    for _ = 1, times do
      if #names > layers then break end -- too many in any case
      table.move(kinds, 1, #kinds, #names + 1, names)
    end
  end
  return names
end

local function local_layers(c, layers)
  local names, letters = kinds_of(c, layers), {}
  local key = c:has "attention_layers|attention_types" or "attention_types"
  if #names ~= layers then c:fail(key, "has %d entries for %d layers", #names, layers) end
  for i, name in ipairs(names) do
    letters[i] = name == "local" and "w" or name == "global" and "f"
      or c:fail(key, "[%d] = %s is not global or local", i, check.show(name))
  end
  return table.concat(letters)
end

function types.gpt_neo(c)
  local m = gpt(c, "gelu_new")
  m.seq = c:count(keys.seq)
  m.biases = { qkv = false, attention_out = true, mlp = true }
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
  local m = parts.decoder(c)
  m.ffn, m.gated, m.activation = m.hidden * c:count("expansion_ratio", 4), false, "gelu"
  m.seq, m.unbounded, m.positions = c:count("max_seq_len", 2048), true, "alibi"
  m.norm, m.biases, m.tied_embeddings = "layernorm", { norm = false }, tied(c, true)
  return m
end

-- Llama with LayerNorms that have neither weights nor biases.
function types.olmo(c)
  local m = llama(c)
  c:ignore "clip_qkv"
  m.norm, m.norm_weights = "layernorm", false
  return m
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
