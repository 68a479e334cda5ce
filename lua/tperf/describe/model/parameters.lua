--- Exact parameter counts of a model by component: every weight, bias, norm and table.
-- Sums run in doubles, exact up to 2^53; `count` refuses larger ones, so no figure is ever rounded.
local lazy = require "tperf.base.lazy"
local counted = lazy.module "tperf.describe.layout.counted"
local groups = require "tperf.describe.model.groups"
local images = require "tperf.describe.model.images"
local stacks = require "tperf.describe.model.stacks"
local stated = require "tperf.describe.model.stated"
local windowed = require "tperf.describe.model.windowed"

local parameters = {}

local limit = 2.0 ^ 53

local function linear(n_in, n_out, bias)
  return 1.0 * n_in * n_out + (bias and n_out or 0)
end

local function norm(m, width)
  if m.norm_weights == false then return 0 end
  return m.norm == "layernorm" and m.biases.norm and 2 * width or width
end

-- Grouped-query attention: q, k, v and output projections; the sinks are one learned score per head (gpt-oss).
local function gqa(m)
  local query, key = 1.0 * m.heads * m.head_dim, 1.0 * m.kv_heads * m.head_dim
  local value, whole = windowed.value_dim(m), m.qk_norm == "whole"
  local output = 1.0 * m.heads * value
  local gate = m.attention_gate == "head" and m.heads or m.attention_gate and output or 0
  local made = query + key + (m.tied_values and 0 or m.kv_heads * value) + gate
  return {
    attention = linear(m.hidden, made, m.biases.qkv) + linear(output, m.hidden, m.biases.attention_out)
      + (m.attention_sinks and m.heads or 0),
    norms = whole and norm(m, query) + norm(m, key) or m.qk_norm == true and 2 * norm(m, m.head_dim) or 0,
  }
end

-- Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): queries and keys-values go through a
-- low-rank bottleneck, each with a norm; all heads share the rotary key. Without q_rank the queries are plain. An
-- indexer (DeepSeek-V3.2) has a product from the queries' latent, one from the stream with a LayerNorm, and its heads'
-- weights.
local function indexer(m, group)
  local s = m.sparse
  if not s or group.reuses then return 0 end
  return linear(m.mla.q_rank, 1.0 * s.heads * s.head_dim) + linear(m.hidden, s.head_dim) + 2 * s.head_dim
    + linear(m.hidden, s.heads)
end

local function mla(m, group)
  local a, h = m.mla, m.hidden
  local query = 1.0 * m.heads * (a.nope_dim + a.rope_dim)
  local down = a.q_rank and linear(h, a.q_rank, m.biases.qkv) or 0
  return {
    attention = down + linear(a.q_rank or h, query)
      + linear(h, a.kv_rank + a.rope_dim, m.biases.qkv) + linear(a.kv_rank, 1.0 * m.heads * (a.nope_dim + a.v_dim))
      + linear(1.0 * m.heads * a.v_dim, h, m.biases.attention_out) + indexer(m, group),
    norms = norm(m, a.kv_rank) + (a.q_rank and norm(m, a.q_rank) or 0),
  }
end

-- Mamba-2 (arXiv 2405.21060, section 7): one input projection to z, x, B, C and dt; a depthwise convolution over x, B
-- and C; A, D and the bias of dt per head; a gated norm; the output projection.
local function mamba(m)
  local s = m.mamba
  local inner = 1.0 * s.heads * s.head_dim
  local convolved = inner + 2.0 * s.groups * s.state
  return {
    mamba = linear(m.hidden, inner + convolved + s.heads, s.bias) + linear(inner, m.hidden, s.bias)
      + convolved * s.conv + (s.conv_bias and convolved or 0) + 3 * s.heads,
    norms = s.norm ~= false and norm(m, inner) or 0,
  }
end

-- Mamba-1 (arXiv 2312.00752, section 3.4): x and z, a depthwise convolution over x, projections to the steps' rank, B
-- and C and from that rank to the steps, A per feature and state element, D.
local function mamba1(m)
  local s = m.mamba1
  return {
    mamba = linear(m.hidden, 2.0 * s.inner, s.bias) + linear(s.inner, m.hidden, s.bias)
      + 1.0 * s.inner * s.conv + (s.conv_bias and s.inner or 0) + linear(s.inner, s.rank + 2 * s.state)
      + linear(s.rank, s.inner, true) + 1.0 * s.inner * s.state + s.inner,
    norms = s.norms == true and norm(m, s.rank) + 2 * norm(m, s.state) or 0,
  }
end

-- Gated delta net (arXiv 2412.06464, section 3.3): q, k, v and the gate z; decay and update strength per value head;
-- a depthwise convolution over q, k and v without bias; A and the decay's bias; one norm for all heads. Kimi Delta
-- Attention (arXiv 2510.26692, section 4) has a decay and its bias for every feature of a key.
local function delta(m)
  local d, h = m.delta, m.hidden
  local keys, values = 1.0 * d.heads * d.key_dim, 1.0 * d.value_heads * d.value_dim
  local decays = d.value_heads * (d.decay_rank and 1.0 * d.key_dim or 1.0)
  local function through(rank, width) return rank and linear(h, rank) + linear(rank, width) or linear(h, width) end
  return {
    delta = linear(h, 2 * keys + values + d.value_heads) + through(d.gate_rank, values) + through(d.decay_rank, decays)
      + linear(values, h) + (2 * keys + values) * d.conv + d.value_heads + decays,
    norms = norm(m, d.value_dim),
  }
end

-- hidden: the MLP's outer width (default: the stream's). xIELU has two learned scalars (arXiv 2411.13010).
local function mlp(m, width, hidden)
  hidden = hidden or m.hidden
  local scalars = m.activation == "xielu" and 2 or 0
  return scalars + linear(hidden, (m.gated and 2.0 or 1.0) * width, m.biases.mlp) + linear(width, hidden, m.biases.mlp)
end

local function experts(m)
  local e = m.experts
  return {
    experts = e.count * mlp(m, e.ffn, e.latent),
    active_experts = e.top_k * mlp(m, e.ffn, e.latent),
    latents = e.latent and linear(m.hidden, e.latent) + linear(e.latent, m.hidden) or nil,
    shared_experts = e.shared * mlp(m, e.shared_ffn or e.ffn) + (e.shared_gate and m.hidden or 0),
    router = linear(m.hidden, e.count + e.zero, e.router_bias),
  }
end

local function add(into, from)
  for name, n in pairs(from) do into[name] = (into[name] or 0) + n end
  return into
end

-- One layer of a group: parameters by component. active_experts is the part of `experts` that one token uses.
local function layer(m, group)
  local sum = { norms = m.diffusion and 0 or group.norms * norm(m, m.hidden) }
  if group.mamba then add(sum, m.mamba1 and mamba1(m) or mamba(m)) end
  if group.delta then add(sum, delta(m)) end
  if group.attention == "gqa" then add(sum, gqa(windowed.view(m, group))) end
  if group.cross then add(sum, { attention = gqa(m).attention }) end
  if group.attention == "mla" then add(sum, mla(m, group)) end
  if group.mlp == "dense" then sum.mlp = mlp(m, m.ffn) end
  if group.mlp == "experts" then add(sum, experts(m)) end
  if m.diffusion then sum.modulation = linear(m.hidden, 6.0 * m.hidden, true) end
  if m.output_scale then
    local mixes, feeds = group.attention ~= "none" or group.mamba or group.delta, group.mlp ~= "none"
    sum.scales = ((mixes and 1 or 0) + (feeds and 1 or 0)) * m.hidden
  end
  return sum
end

-- The ends of BERT-like encoders: token types; the projection from tables of another width; the transform before the
-- output table; the pooler; the classifier of tokens.
local function encoder(m)
  local e, h, width = m.encoder, m.hidden, m.embedding_width or m.hidden
  local widened = width ~= h and linear(width, h, true) or 0
  local transform = e.head and e.transform and linear(h, width, e.transform_bias) + norm(m, width) or 0
  local pooler = e.pooler and linear(h, h, true) + (e.pooler_classes and linear(h, e.pooler_classes, true) or 0) or 0
  local classifier = e.token_classes and linear(h, h, true) + linear(h, e.token_classes, true) or 0
  local projected = e.projection and linear(h, e.projection) or 0
  local contacts = e.contacts and linear(1.0 * m.layers * m.heads, 1, true) or 0
  return { positions = 1.0 * e.segments * width,
    projections = widened + transform + pooler + classifier + projected + contacts }
end

-- DiT's ends: time step and class; the last layer's modulation and its product to the pixels of a patch.
local function diffusion(m)
  local d, v, h = m.diffusion, m.vision, m.hidden
  return {
    conditioning = linear(d.frequency, h, true) + linear(h, h, true) + 1.0 * d.labels * h,
    modulation = linear(h, 2.0 * h, true), head = linear(h, 1.0 * v.patch ^ 2 * d.out_channels, true),
  }
end

-- The ends of an encoder stack, besides those that the decoder shares or has, too.
local function source(m)
  return {
    positions = 1.0 * (stacks.position_rows(m) or 0) * m.hidden,
    norms = ((m.embedding_norm and 1 or 0) + (m.final_norm and 1 or 0)) * norm(m, m.hidden),
  }
end

-- Parameters before and after the layers.
local function ends(m)
  local width = m.embedding_width or m.hidden
  local start = m.encoder and width or m.hidden -- of positions and the norm after them
  local sum = { norms = (m.final_norm and norm(m, m.hidden) or 0) + (m.embedding_norm and norm(m, start) or 0) }
  if m.vocab then
    sum.embedding = 1.0 * m.vocab * width
    local bare = m.encoder and not m.encoder.head
    local rows = m.classes or bare and 0 or m.vocab
    local own = m.classes or not m.tied_embeddings
    sum.head = (own and 1.0 * rows * (m.classes and m.hidden or width) or 0) + (m.biases.head and rows or 0)
    if width ~= start then sum.projections = 2.0 * width * m.hidden end -- in and out of the tables' width (OPT-350m)
  end
  if m.positions == "learned" then sum.positions = 1.0 * m.position_rows * start end
  if m.positions == "relative" then sum.positions = (m.encoder_stack and 2.0 or 1.0) * m.position_buckets * m.heads end
  if m.encoder_stack then add(sum, source(m)) end
  if m.vision then
    local v = m.vision
    local square = linear(m.hidden, m.hidden, true)
    sum.patches = linear(1.0 * v.channels * v.patch ^ 2, m.hidden, v.patch_bias) + images.vectors(v) * m.hidden
    sum.projections = (v.pooler and square or 0) + (v.projection and linear(m.hidden, v.projection) or 0)
      + (v.probe and 4 * square + norm(m, m.hidden) + mlp(m, m.ffn) or 0)
    sum.head = v.classes and (v.distillation == "classes" and 2 or 1) * linear(m.hidden, v.classes, true) or 0
  end
  if m.encoder then add(sum, encoder(m)) end
  if m.diffusion then add(sum, diffusion(m)) end
  return sum
end

-- A multi-token prediction module (DeepSeek-V3, arXiv 2412.19437, section 2.2): its layers, a projection from the
-- joined state and embedding, their two norms and a final one. The tables are shared with the model.
local function prediction(m, all)
  local one = {}
  for _, group in ipairs(groups.module(m, all)) do add(one, layer(m, group)) end
  add(one, { projections = linear(2 * m.hidden, m.hidden), norms = 3 * norm(m, m.hidden) })
  return one
end

local function total_of(components)
  local total, active = 0, 0
  for name, n in pairs(components) do
    if name ~= "active_experts" then total = total + n end
    if name ~= "experts" then active = active + n end
  end
  return total, active
end

--- The parameters that a token uses in one multi-token prediction module, without the shared tables.
---@param m table       a model with such modules
---@param all table[]   its groups of layers
---@return number
function parameters.prediction_active(m, all) return (select(2, total_of(prediction(m, all)))) end

local function whole(components)
  for name, n in pairs(components) do
    components[name] = math.tointeger(n)
  end
  return components
end

---@class tperf.parameters
---@field total integer parameters, without multi-token prediction modules
---@field active integer parameters that one token uses: all except the experts it is not routed to, with both tables
---@field embedding integer the input table
---@field head integer the output table; 0 if tied to the input table
---@field components table<string, integer> the parts of total: attention, mlp, experts, router, norms, …
---@field active_experts integer the part of components.experts that one token uses
---@field groups table[] as model:groups(), each with `layer` (components of one layer), `layer_total`, `layer_active`,
---   `total` and `active`
---@field mtp integer parameters of all multi-token prediction modules, without shared tables
---@field used? table<string, integer> of an architecture: the part of each component that one token uses
---@field stored? table<string, table<string, number>> of an architecture: component -> part of a layer
---   (tperf.describe.stored) -> weights of its products

-- The counts that a custom architecture states, in the same form.
local function of_statement(m, total, active)
  local whole_total, whole_active = math.tointeger(total), math.tointeger(active)
  if not whole_total or not whole_active or whole_total >= limit then
    return nil, ("the architecture states %s parameters, which is not an integer below 2^53"):format(total)
  end
  return {
    total = whole_total, active = whole_active, embedding = 0, head = 0, components = { stated = whole_total },
    active_experts = 0, groups = groups.of(m), mtp = 0,
  }
end

local function kind_of(m, group)
  local one = { layer = layer(m, group) }
  one.total, one.active = total_of(one.layer)
  return one
end

--- The parameters of a model's description, or of its architecture: those that it states, or its ops have.
---@param m table a model, or an unfinished description of one
---@return tperf.parameters? result
---@return string? message the error, if there is no result
function parameters.count(m)
  local said, active_said = stated.parameters(m)
  if said then return of_statement(m, said, active_said) end
  if m.architecture then return counted.parameters(m) end
  local sum, parts, known = ends(m), groups.of(m), {} -- known: by key, what equal layers have
  for _, group in ipairs(parts) do
    local one = known[group.key] or kind_of(m, group)
    known[group.key] = one
    for name, n in pairs(one.layer) do sum[name] = (sum[name] or 0) + n * group.count end
  end
  local own = m.mtp > 0 and m.mtp * total_of(prediction(m, parts)) or 0
  local total, active = total_of(sum)
  if total + own >= limit then
    return nil, ("%.3g parameters: more than can be counted exactly (2^53)"):format(total + own)
  end
  for _, group in ipairs(parts) do
    local one = known[group.key]
    group.layer = whole(add({}, one.layer))
    group.layer_total, group.layer_active = math.tointeger(one.total), math.tointeger(one.active)
    group.total, group.active = group.layer_total * group.count, group.layer_active * group.count
  end
  local components = whole(sum)
  local active_experts = components.active_experts or 0
  components.active_experts = nil
  return {
    total = math.tointeger(total), active = math.tointeger(active),
    embedding = components.embedding or 0, head = components.head or 0,
    components = components, active_experts = active_experts, groups = parts, mtp = math.tointeger(own),
  }
end

local known = setmetatable({}, { __mode = "k" })

--- The same, remembered: for a question's model, which is never changed in place.
---@return tperf.parameters? result  of which nothing may be changed
---@return string? message
function parameters.known(m)
  local message
  if not known[m] then known[m], message = parameters.count(m) end
  return known[m], message
end

return parameters
