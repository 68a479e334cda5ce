--- What a model's description may say, its defaults, and what must agree with what.
-- What is not said is as in GPT-3: plain GELU MLP of 4 hidden, LayerNorm, learned positions, tied tables, biases.
local check = require "tperf.check"
local groups = require "tperf.arch.groups"

local description = {}

local function size(options)
  options = options or {}
  return check.integer { min = options.min or 1, max = options.max or 1 << 24, default = options.default,
    optional = options.optional }
end
local some = { optional = true }
local function flag(default) return check.boolean { default = default, optional = default == nil } end

local biases = {
  qkv = flag(false), attention_out = flag(false), mlp = flag(false), head = flag(false),
  norm = flag(), -- of LayerNorms; true unless said otherwise
}

local experts = {
  count = size { min = 2, max = 1 << 16 },
  top_k = size { max = 1 << 16 },
  ffn = size(), -- width of one routed expert
  shared = check.integer { min = 0, max = 1 << 16, default = 0 }, -- experts every token meets
  shared_ffn = size(some), -- width of one shared expert; that of a routed one if absent
  shared_gate = flag(false), -- one learned vector scales the shared experts' output (Qwen1.5-MoE, Qwen2-MoE)
  router_bias = flag(false),
  capacity_factor = check.number { above = 0, max = 1e6, optional = true }, -- absent: dropless
  imbalance = check.number { min = 1, max = 1e6, default = 1 }, -- load of the busiest expert over the mean
  -- The first k layers, or these, are dense.
  dense_layers = check.one_of(check.integer { min = 0, max = 1 << 16, default = 0 }, check.list(size())),
  every = size { default = 1 }, -- of the other layers every n-th (n, 2 n, …) has experts
}

local mla = {
  q_rank = size(some), -- absent: one full query projection
  kv_rank = size(), nope_dim = size(), rope_dim = size(), v_dim = size(),
}

local mamba = {
  state = size(), heads = size(), head_dim = size(), groups = size { default = 1 }, conv = size { default = 4 },
  expand = check.number { above = 0, max = 1024, optional = true }, -- heads head_dim / hidden, checked when given
  chunk = size { default = 256 }, -- tokens of one block of the scan
  bias = flag(false), conv_bias = flag(true),
}

local vision = {
  image = size(), patch = size(), channels = size { default = 3 }, -- pixels
  classes = size(some), -- of the classification head; absent: a bare encoder
  class_token = flag(true),
}

--- Field -> checker, for tperf.check.record.
description.schema = {
  name = check.string(some), source = check.string(some), family = check.string { default = "gpt" },
  layers = size { max = 1 << 16 }, hidden = size(),
  heads = size(some), kv_heads = size(some), head_dim = size(some), ffn = size(some),
  vocab = size { max = 1 << 30, optional = true },
  seq = size { max = 1 << 30, optional = true }, -- tokens of context
  unbounded = flag(false), -- seq is no limit: nothing in the model depends on it
  gated = flag(false),
  activation = check.choice { { "gelu", "relu", "relu2", "silu", "quick_gelu", "tanh" }, optional = true },
  norm = check.choice { { "layernorm", "rmsnorm" }, default = "layernorm" },
  norms_per_layer = check.integer { min = 0, max = 8, default = 2 },
  embedding_norm = flag(false), final_norm = flag(true), qk_norm = flag(false),
  tied_embeddings = flag(true),
  embedding_width = size(some), -- of the tables, when it differs from hidden (OPT-350m)
  positions = check.choice { { "learned", "rotary", "alibi", "none" }, default = "learned" },
  position_rows = size { max = 1 << 30, optional = true }, -- of the learned table, if not seq (OPT: 2 more)
  parallel_block = flag(false), -- attention and MLP side by side (PaLM, Falcon)
  biases = check.one_of(check.boolean(some), check.record_of(biases, some)), -- true or false: all of them
  attention_sinks = flag(false), -- one learned score per head (gpt-oss)
  window = check.record_of({ size = size { max = 1 << 30 }, pattern = check.string { default = "w" } }, some),
  causal = flag(),
  experts = check.record_of(experts, some), mla = check.record_of(mla, some), mamba = check.record_of(mamba, some),
  layer_pattern = check.string(some), -- hybrids, one letter a layer: M mamba, * attention, - MLP, E experts
  vision = check.record_of(vision, some),
  mtp = check.integer { min = 0, max = 64, default = 0 }, -- multi-token prediction modules
}

local function fail(m, format, ...)
  return nil, ("model '%s': "):format(m.name or "?") .. format:format(...)
end

local function complete_biases(m)
  local plain = m.norm == "layernorm"
  if m.biases == nil then m.biases = plain end
  if type(m.biases) == "boolean" then
    local all = m.biases
    m.biases = { qkv = all, attention_out = all, mlp = all, head = false, norm = all }
  end
  if m.biases.norm == nil then m.biases.norm = plain end
  if not plain then m.biases.norm = false end -- RMSNorm has none
end

local function complete_attention(m)
  if not m.heads then return fail(m, "'heads' is missing") end
  m.kv_heads = m.kv_heads or m.heads
  if m.heads % m.kv_heads ~= 0 then
    return fail(m, "'kv_heads' = %d must divide 'heads' = %d", m.kv_heads, m.heads)
  end
  if m.mla then
    m.head_dim = m.mla.nope_dim + m.mla.rope_dim -- what a query and a key are wide
  elseif not m.head_dim then
    if m.hidden % m.heads ~= 0 then
      return fail(m, "'heads' = %d does not divide 'hidden' = %d: give 'head_dim'", m.heads, m.hidden)
    end
    m.head_dim = m.hidden // m.heads
  end
  return true
end

local function complete_mlp(m, uses)
  if uses.dense and not m.ffn then
    if m.gated then return fail(m, "'ffn' is missing (a gated MLP has no usual width)") end
    m.ffn = 4 * m.hidden
  end
  local e = m.experts
  if not e then
    return not uses.experts or fail(m, "'layer_pattern' has layers of experts, but 'experts' is missing")
  end
  e.shared_ffn = e.shared_ffn or e.ffn
  if e.top_k > e.count then
    return fail(m, "'experts.top_k' = %d is more than 'experts.count' = %d", e.top_k, e.count)
  end
  return uses.experts or fail(m, "no layer has experts: 'experts.dense_layers' and 'experts.every' leave none")
end

local function check_layers(m)
  local pattern, window = m.layer_pattern, m.window
  if pattern then
    if #pattern ~= m.layers then
      return fail(m, "'layer_pattern' has %d letters for %d layers", #pattern, m.layers)
    end
    local odd = pattern:match "[^M*E%-]"
    if odd then
      return fail(m, "'layer_pattern' has a letter %s; known: M mamba, * attention, - MLP, E experts", check.show(odd))
    end
  end
  if window and window.pattern:find "[^wf]" then
    return fail(m, "'window.pattern' = %s must be made of w (windowed layer) and f (full layer)",
      check.show(window.pattern))
  end
  if m.mla and window then return fail(m, "'window' does not go with 'mla'") end
  return true
end

local function complete_mamba(m)
  local s = m.mamba
  if not s then return fail(m, "'layer_pattern' has Mamba layers, but 'mamba' is missing") end
  if s.heads % s.groups ~= 0 then
    return fail(m, "'mamba.groups' = %d must divide 'mamba.heads' = %d", s.groups, s.heads)
  end
  if s.expand and s.heads * s.head_dim ~= s.expand * m.hidden then
    return fail(m, "'mamba.heads' x 'mamba.head_dim' = %d is not 'mamba.expand' x 'hidden' = %.15g",
      s.heads * s.head_dim, s.expand * m.hidden)
  end
  return true
end

local function complete_ends(m)
  local v = m.vision
  if v then
    if v.image % v.patch ~= 0 then
      return fail(m, "'vision.patch' = %d must divide 'vision.image' = %d", v.patch, v.image)
    end
    local tokens = (v.image // v.patch) ^ 2 + (v.class_token and 1 or 0)
    if m.seq and m.seq ~= tokens then
      return fail(m, "'seq' = %d, but the image makes %d tokens", m.seq, tokens)
    end
    m.seq = math.tointeger(tokens)
  elseif not m.vocab then
    return fail(m, "'vocab' is missing")
  elseif not m.seq then
    return fail(m, "'seq' is missing")
  end
  if m.causal == nil then m.causal = not v end
  if m.positions == "learned" then m.position_rows = m.position_rows or m.seq end
  m.activation = m.activation or (m.gated and "silu" or "gelu")
  return true
end

--- Fills in what follows from the rest and refuses what disagrees.
---@param m table a description that passed the schema; changed in place
---@return table? m
---@return string? message
function description.complete(m)
  local ok, message = check_layers(m)
  if not ok then return nil, message end
  if m.mamba and not m.layer_pattern then m.layer_pattern = ("M"):rep(m.layers) end
  complete_biases(m)
  local uses = {}
  for _, group in ipairs(groups.of(m)) do
    uses[group.mlp] = true
    uses.attention = uses.attention or group.attention ~= "none"
    uses.mamba = uses.mamba or group.mamba
  end
  if uses.attention then ok, message = complete_attention(m) end
  if ok and uses.mamba then ok, message = complete_mamba(m) end
  if ok then ok, message = complete_mlp(m, uses) end
  if ok then ok, message = complete_ends(m) end
  if not ok then return nil, message end
  return m
end

return description
