--- Shared by Hugging Face architectures: spellings of keys and common parts of descriptions.
local check = require "tperf.base.check"
local harmless = require "tperf.describe.model.hf.harmless"

local parts = {}

-- Spellings: the plain key, then the class's alias, then the old name.
local keys = {
  layers = "num_hidden_layers|n_layer|num_layers|n_layers",
  hidden = "hidden_size|n_embd|d_model|n_embed",
  heads = "num_attention_heads|n_head|num_heads|n_heads",
  kv_heads = "num_key_value_heads|num_kv_heads|n_head_kv",
  ffn = "intermediate_size|ffn_dim|n_inner|ffn_hidden_size",
  seq = "max_position_embeddings|n_positions|seq_length|n_ctx",
}

local activations = {
  ["gelu-approximate"] = "gelu",
  gelu = "gelu", gelu_new = "gelu", gelu_fast = "gelu", gelu_pytorch_tanh = "gelu", gelu_python = "gelu",
  relu = "relu", relu2 = "relu2", silu = "silu", swish = "silu", quick_gelu = "quick_gelu", tanh = "tanh",
  xielu = "xielu",
}

local ACTIVATIONS <const> = "hidden_act|activation_function|hidden_activation"
local known_activations = check.names(activations)

--- The MLP's activation in tperf's names.
function parts.activation(c, default, names)
  names = names or ACTIVATIONS
  local name = c:text(names, default)
  return activations[name] or c:fail(c:has(names), "= %s is unknown%s; known: %s", check.show(name),
    check.suggest(name, known_activations), table.concat(known_activations, ", "))
end

-- NewGELUActivation and FastGELUActivation of transformers/activations.py.
local in_steps = { gelu_new = true, gelu_fast = true }

--- Whether the MLP's activation is written in steps of PyTorch, which only a compiler fuses.
function parts.activation_steps(c, default) return in_steps[c:text(ACTIVATIONS, default)] end

--- Whether the output shares the input's table.
function parts.tied(c, default)
  local here = c:flag("tie_word_embeddings")
  if here == nil and c.outer then here = c.outer:flag("tie_word_embeddings") end
  if here == nil then return default end
  return here
end

--- Refuses other values of fields than those that are modelled; absent fields have those by default.
---@param values table<string, any>
function parts.only(c, values)
  for _, key in ipairs(check.names(values)) do
    local found = c:has(key) and c:value(key)
    if c:has(key) and found ~= values[key] then
      c:fail(key, "= %s is not modelled: %s is (docs/architectures.md)", check.show(found), check.show(values[key]))
    end
  end
end

--- Refuses the fields of a map inside a file that nobody read.
---@param inner table  reader of the map
---@param of string    the model's name, for the message
function parts.nothing_else(inner, of)
  for _, key in ipairs(inner:unread()) do
    if not harmless(key) then
      inner:fail(key, "= %s is not known of %s: it may change what the model computes (docs/architectures.md)",
        check.show(inner.fields[key]), of)
    end
  end
end

--- The number of layers, at most what a description allows, so that patterns over the layers stay short. Where a file
--- lacks it, it is that of its list of kinds of layers.
function parts.layers(c)
  local listed = not c:has(keys.layers) and c:has "layer_types|layers_block_type|hybrid_override_pattern"
  local list = listed and c:value(listed)
  if list and (type(list) == "table" or type(list) == "string") and #list > 0 and #list <= 1 << 16 then return #list end
  return c:count(keys.layers, nil, 1, 1 << 16)
end

--- Fields common to all decoders.
function parts.decoder(c)
  return {
    layers = parts.layers(c), hidden = c:count(keys.hidden), heads = c:count(keys.heads),
    vocab = c:count "vocab_size",
  }
end

--- Plain transformers like GPT: LayerNorm, biases, no gate, tied tables, learned positions.
function parts.gpt(c, act)
  local m = parts.decoder(c)
  m.norm, m.biases, m.gated, m.tied_embeddings = "layernorm", true, false, parts.tied(c, true)
  m.ffn = c:count(keys.ffn, 4 * m.hidden)
  m.positions, m.activation = "learned", parts.activation(c, act)
  m.activation_steps = parts.activation_steps(c, act)
  return m
end

--- Llama and its descendants: RMSNorm, rotary positions, gated MLP, no biases, untied tables.
---@param ffn false?  false: the width of a dense MLP is optional
---@param seq string?  spellings of the longest context
function parts.llama(c, ffn, seq)
  local m = parts.decoder(c)
  m.kv_heads = c:count(keys.kv_heads, m.heads)
  m.head_dim = c:count("head_dim", false) -- never derived if the file gives it
  m.ffn = c:count(keys.ffn, ffn)
  m.seq = c:count(seq or keys.seq)
  m.norm, m.positions, m.gated, m.tied_embeddings = "rmsnorm", "rotary", true, parts.tied(c, false)
  m.activation = parts.activation(c, "silu")
  local attention, mlp = c:flag("attention_bias", false), c:flag("mlp_bias", false)
  m.biases = { qkv = attention, attention_out = attention, mlp = mlp }
  return m
end

--- Hunyuan's decoders. Files keep many fields of other models' heads and of image inputs. Layers that share keys and
--- values are not modelled.
---@param norm string  the only norm_type that is modelled
function parts.hunyuan(c, norm)
  local m = parts.llama(c)
  c:ignore "cla_share_factor|dense_list|pool_type|org_vocab_size|mask_init_id|pad_id"
  c:ignore "im_start_id|im_end_id|im_newline_id|text_start_id|text_end_id"
  parts.only(c, { norm_type = norm, use_cla = false, use_rotary_pos_emb = true })
  m.head_dim = c:count("head_dim|attention_head_dim", false)
  return m
end

--- Sets the windowed layers as a pattern of w and f: from layer_types if present, else from default(i), i from 0.
---@param longer boolean?  the list may go on, to modules for multi-token prediction
function parts.window(c, m, size_key, default, longer)
  local size, listed, letters = c:count(size_key, false), c:table "layer_types", {}
  if not size then
    for i, kind in ipairs(listed or {}) do
      if kind ~= "full_attention" then
        c:fail("layer_types", "[%d] = %s needs \"%s\", which is missing or null", i, check.show(kind), size_key)
      end
    end
    return
  end
  if listed and #listed ~= m.layers and not (longer and #listed > m.layers) then
    c:fail("layer_types", "has %d entries for %d layers", #listed, m.layers)
  end
  for i = 1, m.layers do
    local kind = listed and listed[i]
    if kind and kind ~= "full_attention" and kind ~= "sliding_attention" and kind ~= "chunked_attention" then
      c:fail("layer_types", "[%d] = %s is not full_attention, sliding_attention or chunked_attention",
        i, check.show(kind))
    end
    local windowed
    if kind then windowed = kind ~= "full_attention" else windowed = not default or default(i - 1) end
    letters[i] = windowed and "w" or "f"
  end
  local pattern = table.concat(letters)
  if pattern:find("w", 1, true) then m.window = { size = size, pattern = pattern } end
end

--- A window that is off unless use_sliding_window is true, and then skips the first layers (Qwen).
---@param has (fun(i: integer): boolean)?  which layers have it, from 0; default: those from max_window_layers on
function parts.optional_window(c, m, has)
  c:ignore "sliding_window|max_window_layers"
  local from = c:count("max_window_layers", 28, 0)
  if c:flag("use_sliding_window", false) then
    parts.window(c, m, "sliding_window", has or function(i) return i >= from end)
  elseif c:table "layer_types" then
    for i, kind in ipairs(c:table "layer_types") do
      if kind ~= "full_attention" then
        c:fail("layer_types", "[%d] = %s goes with use_sliding_window = true", i, check.show(kind))
      end
    end
  end
end

--- Routed experts of width ffn.
function parts.experts(c, names, ffn)
  local top_k = c:count "num_experts_per_tok|experts_per_token|num_experts_per_token"
  return { count = c:count(names), top_k = top_k, ffn = ffn }
end

-- Limits a token's experts to a few groups, if there are several.
local function limit_groups(c, e)
  local groups, chosen = c:count("n_group", false), c:count("topk_group", false)
  if groups and groups > 1 and chosen then e.groups, e.top_groups = groups, chosen end
end

-- The layers, from 1, whose entry in the list at `key` is not `sparse`; the other entry is `dense`.
local function listed_dense(c, key, layers, dense, sparse)
  local listed, found = c:table(key), {}
  if #listed < layers then c:fail(key, "has %d entries for %d layers", #listed, layers) end
  for i = 1, layers do -- further entries are of modules for multi-token prediction
    if listed[i] == dense then
      found[#found + 1] = i
    elseif listed[i] ~= sparse then
      c:fail(key, "[%d] = %s is not %s or %s", i, check.show(listed[i]), check.show(dense), check.show(sparse))
    end
  end
  return found
end

--- The dense layers of a mixture: a list of kinds if the file has one, else the first ones and those between experts.
---@param first integer?  default of first_k_dense_replace
---@return integer|integer[]  how many at the start, or which, from 1
function parts.dense_layers(c, layers, first)
  first = c:count("first_k_dense_replace", first or 0, 0)
  local listed = c:has "moe_layer_freq" and type(c:value "moe_layer_freq") == "table"
  local every = not listed and c:count("moe_layer_freq", 1) or 1
  if c:table "mlp_layer_types" then return listed_dense(c, "mlp_layer_types", layers, "dense", "sparse") end
  if c:table "is_moe_layer" then return listed_dense(c, "is_moe_layer", layers, false, true) end
  if listed then return listed_dense(c, "moe_layer_freq", layers, 0, 1) end
  if every == 1 then return first end
  local found = {}
  for i = 0, layers - 1 do
    if i < first or i % every ~= 0 then table.insert(found, i + 1) end
  end
  return found
end

--- DeepSeek's experts, and those named like them: shared ones as wide as routed ones; layer i (from 0) has experts if
--- i >= first_k_dense_replace and i is a multiple of moe_layer_freq, or by a list of the layers' kinds.
---@param names string  spellings of the number of routed experts
---@param layers integer
---@param defaults table?  the class's: { count, top_k, ffn, shared, dense }, each optional
function parts.deepseek_experts(c, names, layers, defaults)
  local d = defaults or {}
  local top_k = c:count("num_experts_per_tok|experts_per_token|num_experts_per_token", d.top_k)
  local e = { count = c:count(names, d.count), top_k = top_k, ffn = c:count("moe_intermediate_size", d.ffn) }
  e.shared = c:count("n_shared_experts|num_shared_experts", d.shared or 0, 0)
  limit_groups(c, e)
  e.dense_layers = parts.dense_layers(c, layers, d.dense)
  return e
end

parts.keys = keys

return parts
