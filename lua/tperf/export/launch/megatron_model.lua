--- A model of tperf in Megatron-Core's settings, by a stack's names for them (import/launch/stack/core/model.lua).
-- What Megatron-Core has no setting for is an error: without it the launch would train another model.
local windowed = require "tperf.describe.model.windowed"

-- What these settings cannot say of a model: field -> words, for fields that are set.
local UNSAID <const> = { delta = "gated delta nets", mamba = "Mamba layers", mamba1 = "Mamba layers",
  sparse = "sparse attention", value_dim = "values unlike keys", tied_values = "keys that are values",
  encoder = "a text encoder", encoder_stack = "an encoder", vision = "images", diffusion = "diffusion",
  parallel_block = "attention and MLP side by side", embedding_norm = "a norm after the embedding",
  output_scale = "a factor for each feature", embedding_width = "an embedding of another width",
  mtp_pattern = "layers of its prediction modules", classes = "a head of classes" }

-- Values that Megatron-Core takes for granted.
local GRANTED <const> = { norms_per_layer = 2, first_norm = true, final_norm = true, norm_weights = true,
  causal = true }

local POSITIONS <const> = { rotary = "rope", none = "none", learned = "learned_absolute" }
local GATED <const>, PLAIN <const> = { silu = "swiglu", quick_gelu = "quick_geglu" },
  { gelu = "gelu", relu2 = "squared_relu" }

-- The words for what cannot be said; nil: all can.
local function unsaid(m)
  for _, field in ipairs(require "tperf.base.check".names(UNSAID)) do
    if m[field] then return UNSAID[field] end
  end
  for _, field in ipairs(require "tperf.base.check".names(GRANTED)) do
    if m[field] ~= GRANTED[field] then return ("%s = %s"):format(field, tostring(m[field])) end
  end
  if rawget(m, "layer_pattern") or m.mixers then return "layers that differ" end
  if m.qk_norm == "whole" then return "norms of all queries at once" end
  if m.qk_norm == "plain" then return "norms of queries without weights" end
  if m.attention_gate == "head" then return "a gate for each head of attention" end
  if #windowed.kinds(m) > 1 then return "windowed layers with heads of their own" end
  if m.experts and m.experts.zero > 0 then return "experts that compute nothing" end
  if not POSITIONS[m.positions] then return ("positions = %s"):format(m.positions) end
  if not (m.gated and GATED or PLAIN)[m.activation] then
    return ("the activation %s%s"):format(m.activation, m.gated and ", gated" or "")
  end
  local b = m.biases
  local linear = b.attention_out and b.mlp
  if b.head or m.norm == "layernorm" and not b.norm or b.attention_out ~= b.mlp or linear and not b.qkv then
    return "its biases"
  end
  if m.positions == "learned" and m.position_rows ~= m.context then return "rows of its table of positions" end
end

-- Zeros and ones by layer as Megatron writes them: "[0]*3+[1]*58"; a pattern that repeats is written once.
local function list_of(values)
  local function runs(first, last)
    local parts, i = {}, first
    while i <= last do
      local stop = i
      while stop < last and values[stop + 1] == values[i] do stop = stop + 1 end
      parts[#parts + 1] = ("[%d]*%d"):format(values[i], stop - i + 1)
      i = stop + 1
    end
    return table.concat(parts, "+")
  end
  for period = 2, #values // 2 do
    local repeats = #values % period == 0
    for i = period + 1, repeats and #values or 0 do repeats = repeats and values[i] == values[i - period] end
    if repeats then return ("(%s)*%d"):format(runs(1, period), #values // period) end
  end
  return runs(1, #values)
end

-- Which layers have experts; nil: all.
local function frequency(m)
  local e, dense, values, any = m.experts, {}, {}, false
  if type(e.dense_layers) == "table" then
    for _, layer in ipairs(e.dense_layers) do dense[layer] = true end
  end
  local first = type(e.dense_layers) == "number" and e.dense_layers or 0
  for i = 1, m.layers do
    local has = i > first and not dense[i] and (i - first) % e.every == 0
    values[i], any = has and 1 or 0, any or not has
  end
  return any and list_of(values) or nil
end

-- Which layers have the window, by the pattern that repeats over them; nil: all.
local function skipping(m)
  local values = {}
  for i = 1, m.layers do
    local at = (i - 1) % #m.window.pattern + 1
    values[i] = m.window.pattern:sub(at, at) == "w" and 1 or 0
  end
  return m.window.pattern:find "f" and list_of(values) or nil
end

local function experts(m, put)
  local e = m.experts
  put("experts", e.count)
  put("top_k", e.top_k)
  put("expert_ffn", e.ffn)
  if e.shared > 0 then put("shared_ffn", e.shared * (e.shared_ffn or e.ffn)) end
  if e.shared_gate then put("shared_gate", true) end
  put("frequency", frequency(m))
  put("router_groups", e.groups)
  put("top_groups", e.top_groups)
  put("latent_experts", e.latent)
  put("capacity", e.capacity_factor)
  if e.router_bias and not m.biases.mlp then put("router_bias", true) end
end

local function attention(m, put)
  if m.mla then
    put("latent", true)
    put("qk_norm", true) -- of the latents
    for name, value in pairs { q_rank = m.mla.q_rank or false, kv_rank = m.mla.kv_rank, nope_dim = m.mla.nope_dim,
      rope_dim = m.mla.rope_dim, v_dim = m.mla.v_dim } do put(name, value or nil) end
  else
    if m.kv_heads ~= m.heads then put("groups", m.kv_heads) end
    if m.head_dim * m.heads ~= m.hidden then put("head_dim", m.head_dim) end
    if m.qk_norm then put("qk_norm", true) end
  end
  if m.window then
    put("window", ("%d,0"):format(m.window.size - 1)) -- tokens before the query
    put("skip", skipping(m))
  end
  if m.attention_gate then put("gate", true) end
  if m.attention_sinks then put("sinks", "learnable") end
end

--- Puts the facts of a model: put(field, value) for each that is not Megatron-Core's default, with the names of the
--- reader's fields; and the switches swiglu, quick_geglu, squared_relu, no_linear_bias, untied, vocab.
---@param m table   a model of tperf
---@param w table   the writer
---@param put fun(field: string, value: any)
return function(m, w, put)
  local beyond = unsaid(m)
  if beyond then w.cannot("model", m.name, "cannot be told of " .. beyond) end
  put("layers", m.layers)
  put("hidden", m.hidden)
  put("heads", m.heads)
  if m.ffn then put("ffn", m.ffn) end
  attention(m, put)
  put((m.gated and GATED or PLAIN)[m.activation], true)
  if m.limited_activation then put("clamp", 7.0) end
  put("norm", m.norm == "rmsnorm" and "RMSNorm" or "LayerNorm")
  if not m.biases.mlp then put("no_linear_bias", true) end
  if m.biases.qkv and not m.biases.mlp then put("qkv_bias", true) end
  if not m.dropout then
    put("attention_dropout", 0)
    put("hidden_dropout", 0)
  end
  if not m.tied_embeddings then put("untied", true) end
  put("positions", POSITIONS[m.positions])
  put("max_positions", m.context or m.seq)
  put("vocab", m.vocab)
  if (m.mtp or 0) > 0 then put("mtp", m.mtp) end
  if m.experts then experts(m, put) end
  w.note("rotary base, scaling of positions, norm epsilon and the like are %s's: they change neither time nor memory",
    m.name)
end
