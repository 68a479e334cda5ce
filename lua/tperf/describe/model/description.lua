--- The fields of a model's description, their defaults, and their consistency checks.
-- Defaults describe a plain block: multi-head attention, a GELU MLP of 4 hidden, LayerNorms, biases.
local lazy = require "tperf.base.lazy"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local fields = require "tperf.describe.model.fields"
local groups = require "tperf.describe.model.groups"
local images = require "tperf.describe.model.images"
local nearest = lazy.module "tperf.base.nearest"
local packing = require "tperf.describe.arch.packing"
local records = require "tperf.describe.model.records"
local stacks = require "tperf.describe.model.stacks"
local windowed = require "tperf.describe.model.windowed"

local description = {}

local flag, size, some = fields.flag, fields.size, fields.some

--- Field -> checker: the whole format of models/*.yaml.
description.schema = {
  name = check.string { name = true }, -- name in messages and reports
  source = check.string(some), -- origin of the numbers
  family = check.string(some), -- model family, for display
  layers = size { max = 1 << 16 }, -- number of layers
  hidden = size(), -- width of the residual stream
  heads = size(some), -- query heads; absent in a model without attention
  kv_heads = size(some), -- key and value heads; default heads
  head_dim = size(some), -- features of a head; default hidden // heads
  value_dim = size(some), -- features of a head's value if it differs from head_dim
  tied_values = flag(false), -- keys before their norm and rotation are the values, too: one product for both (Gemma 4)
  ffn = size(some), -- inner width of a dense MLP; default 4 hidden
  vocab = size(some), -- size of the vocabulary; default: no embedding tables
  seq = size(some), -- tokens of a training sequence; derived from the image size for vision models
  packing = check.record_of(records.packing, some), -- a training sequence holds several documents
  training_tokens = check.number { min = 1, max = 1e18, optional = true }, -- tokens of its training run
  context = size(some), -- most tokens per sequence; default seq
  unbounded = flag(false), -- no context limit: nothing in the model depends on it
  gated = flag(false), -- the MLP has three matrices (SwiGLU, GeGLU) instead of two
  activation = check.choice { -- of the MLP; default gelu, silu if gated
    { "gelu", "relu", "relu2", "silu", "quick_gelu", "tanh", "xielu" }, optional = true,
  },
  norm = check.choice { { "layernorm", "rmsnorm" }, default = "layernorm" }, -- kind of norm
  norm_weights = flag(true), -- norms have learned weights (not in the first OLMo)
  norms_per_layer = check.integer { min = 0, max = 8, default = 2 }, -- norms of a layer, without those in attention
  embedding_norm = flag(false), -- a norm after the embedding tables
  output_scale = flag(false), -- a learned factor for each feature of every sublayer's output (DINOv2)
  first_norm = flag(true), -- false: the first layer's first sublayer has no norm before it (ModernBERT)
  final_norm = flag(true), -- a norm before the head
  -- Norms of queries and keys: true, per head; "plain", likewise without weights (Muse Glimmer); "whole", over all
  -- heads together (MiniMax-M2).
  qk_norm = check.one_of(flag(false), check.choice { { "whole", "plain" } }),
  -- A second query projection gates attention's output (Qwen3-Next); "head": with one number per head (Step-3.5).
  attention_gate = check.one_of(flag(false), check.choice { { "head" } }),
  tied_embeddings = flag(false), -- output and input share one table
  -- Width of the tables if it differs from hidden (OPT-350m); in an encoder also of positions, token types and the norm
  -- after them, and projections to and from it have biases (ELECTRA).
  embedding_width = size(some),
  -- Position encoding; "relative": tables with a bias for every distance (T5).
  positions = check.choice { { "learned", "rotary", "alibi", "relative", "none" }, default = "none" },
  position_rows = size(some), -- rows of the learned table; default context (OPT: 2 more)
  position_buckets = size(some), -- rows of the tables of relative positions
  parallel_block = flag(false), -- attention and MLP side by side (PaLM, Falcon)
  biases = check.one_of(check.boolean(some), check.record_of(records.biases, some)), -- default: all, none with RMSNorm
  attention_sinks = flag(false), -- one learned score per head (gpt-oss)
  activation_steps = flag(false), -- the activation is written in steps of PyTorch (Hugging Face's gelu_new, gelu_fast)
  limited_activation = flag(false), -- both halves of a gated activation are limited to a range (gpt-oss)
  window = check.record_of(records.window, some), -- attention to the last tokens only
  causal = flag(), -- a causal mask; default true, false for images and encoders
  dropout = flag(), -- in training, of scores and both branches; default: true for LayerNorms and plain MLPs (GPT-3)
  experts = check.record_of(records.experts, some), -- mixture of experts
  mla = check.record_of(records.mla, some), -- multi-head latent attention
  sparse = check.record_of(records.sparse, some), -- an indexer selects the tokens that latent attention sees
  mamba = check.record_of(records.mamba, some), -- Mamba-2 layers
  mamba1 = check.record_of(records.mamba1, some), -- Mamba-1 layers
  delta = check.record_of(records.delta, some), -- gated delta net layers
  -- In which those layers keep a request's state between tokens; default: as the serving engine.
  state_dtype = check.choice { records.states, optional = true },
  -- One letter per layer with a mixer and an MLP or experts, repeated: M Mamba, D gated delta net, * attention,
  -- B Mamba-2 beside attention.
  mixers = check.string(some),
  layer_pattern = check.string(some), -- hybrids, one letter per layer: M mamba, * attention, - MLP, E experts
  vision = check.record_of(records.vision, some), -- images instead of tokens
  towers = check.list(check.record_of(records.tower), some), -- beside the text model, whose parameters alone count
  diffusion = check.record_of(records.diffusion, some), -- a diffusion model: predicts the noise of its images
  encoder = check.record_of(records.encoder, some), -- a text encoder, trained on masked words
  encoder_stack = check.record_of(records.encoder_stack, some), -- the first layers encode; the others attend to them
  -- Rows of a head in place of the output table: of a classifier or a reward model; 0: no head.
  classes = check.integer { min = 0, max = 1 << 30, optional = true },
  stored = check.record_of(records.stored, some), -- formats of the checkpoint's weights, for serving
  mtp = check.integer { min = 0, max = 64, default = 0 }, -- multi-token prediction modules
  mtp_pattern = check.string(some), -- a module's layers, in letters of layer_pattern; default: one like the last layer
  architecture = check.any(some), -- made by tperf.architecture; default: the other fields describe it
}

local function all_biases(yes) return { qkv = yes, attention_out = yes, mlp = yes, head = false, norm = yes } end

-- Defaults derived from other fields, computed on access, so that :with { hidden = … } changes them too.
local derived = {
  kv_heads = function(m) return m.heads end,
  head_dim = function(m) -- with latent attention: the width of a query and a key
    return m.mla and m.mla.nope_dim + m.mla.rope_dim or m.heads and m.hidden // m.heads
  end,
  ffn = function(m) return not m.gated and 4 * m.hidden or nil end,
  seq = function(m) return m.vision and images.tokens(m.vision) end,
  context = function(m) return not m.unbounded and m.seq or nil end,
  position_rows = function(m) return m.positions == "learned" and m.context or nil end,
  causal = function(m) return not (m.vision or m.encoder) end,
  dropout = function(m) return m.norm == "layernorm" and not (m.gated or m.parallel_block or m.vision) end,
  activation = function(m) return m.gated and "silu" or "gelu" end,
  biases = function(m) return all_biases(m.norm == "layernorm") end,
  layer_pattern = function(m) return (m.mamba or m.mamba1) and not m.mixers and ("M"):rep(m.layers) or nil end,
}

--- Absent field -> function(model) -> its value, or nil.
description.derived = derived

local function check_attention(m)
  if not m.heads and m.architecture then return end -- its blocks say what they have
  if not m.heads then return "'heads' is missing", "" end
  local message, path = windowed.disagreement(m)
  if message then return message, path end
  if not m.mla and not rawget(m, "head_dim") and m.hidden % m.heads ~= 0 then
    return ("'heads' (%d) does not divide 'hidden' (%d): %s, or give 'head_dim'"):format(m.heads, m.hidden,
      nearest.divisors(m.hidden, m.heads)), "heads"
  end
  if m.mla and m.window then return "'window' does not go with 'mla'", "window" end
  local pattern = m.sparse and m.sparse.pattern or "F"
  if pattern:find "[^FS]" or pattern:sub(1, 1) ~= "F" then
    return ("'sparse.pattern' must be made of F (selects) and S (reuses the selection before it), and begin with F, "
      .. "got %s"):format(check.show(pattern)), "sparse.pattern"
  end
  if m.sparse and not (m.mla and m.mla.q_rank) then
    return "'sparse' needs 'mla' with a 'q_rank', from whose latents its indexer works", "sparse"
  end
end

-- Returns a message if the groups that limit a token's experts are inconsistent.
local function groups_fault(e)
  if not (e.groups and e.top_groups) then return "'experts.groups' and 'experts.top_groups' go together" end
  if e.count % e.groups ~= 0 then
    return ("'experts.groups' (%d) must divide 'experts.count' (%d)"):format(e.groups, e.count)
  end
  local most = e.top_groups * (e.count // e.groups)
  if e.top_groups > e.groups or e.top_k > most then
    return ("'experts.top_groups' must be from %d to the %d groups, got %d"):format(
      -(-e.top_k // (e.count // e.groups)), e.groups, e.top_groups)
  end
end

local function check_mlp(m, uses)
  local e = m.experts
  if uses.dense and not m.ffn and not m.architecture then
    return "'ffn' is missing: a gated MLP has no usual width", ""
  end
  if uses.experts and not e then return "'layer_pattern' has layers of experts, but 'experts' is missing", "" end
  if e and not uses.experts then
    return "no layer has experts: 'experts.dense_layers' and 'experts.every' leave none", "experts"
  end
  for i, layer in ipairs(e and type(e.dense_layers) == "table" and e.dense_layers or {}) do
    if layer > m.layers then
      return ("'experts.dense_layers[%d]' is %d, but there are %d layers"):format(i, layer, m.layers),
        ("experts.dense_layers[%d]"):format(i)
    end
  end
  if e and e.top_k > e.count then
    return ("'experts.top_k' (%d) is more than 'experts.count' (%d)"):format(e.top_k, e.count), "experts.top_k"
  end
  local fault = e and (e.groups or e.top_groups) and groups_fault(e)
  if fault then return fault, "experts.groups" end
end

local function check_mamba(m)
  local s = m.mamba
  if not s then return "'layer_pattern' has Mamba layers, but 'mamba' is missing", "" end
  if s.heads % s.groups ~= 0 then
    return ("'mamba.groups' (%d) must divide 'mamba.heads' (%d)"):format(s.groups, s.heads), "mamba.groups"
  end
  if s.expand and s.heads * s.head_dim ~= s.expand * m.hidden then
    return ("'mamba.heads' x 'mamba.head_dim' (%d) is not 'mamba.expand' x 'hidden' (%.15g)"):format(
      s.heads * s.head_dim, s.expand * m.hidden), "mamba.expand"
  end
end

local function check_recurrent(m, uses)
  if uses.delta and not m.delta then return "'mixers' has delta net layers, but 'delta' is missing", "" end
  if uses.delta and m.delta.value_heads % m.delta.heads ~= 0 then
    return ("'delta.heads' (%d) must divide 'delta.value_heads' (%d)"):format(m.delta.heads,
      m.delta.value_heads), "delta.heads"
  end
  if not uses.mamba then return end
  if m.mamba and m.mamba1 then return "'mamba1' does not go with 'mamba': layers M must be of one kind", "mamba1" end
  if not m.mamba1 then return check_mamba(m) end
end

local function check_patterns(m)
  local pattern, window = rawget(m, "layer_pattern"), m.window
  if m.state_dtype and not (groups.recur(m) or m.architecture) then
    return "'state_dtype' is of mamba, mamba1 and delta", "state_dtype"
  end
  if m.mixers and m.mixers:find "[^MDB*]" or m.mixers == "" then
    return ("'mixers' must be made of M (Mamba), D (gated delta net), * (attention) and B (Mamba beside attention), "
      .. "got %s"):format(check.show(m.mixers)), "mixers"
  end
  if m.mixers and m.mixers:find "B" and (m.mamba1 or m.mla or m.window) then
    return "layers B of 'mixers' have Mamba-2 beside plain attention: not 'mamba1', 'mla' or 'window'", "mixers"
  end
  local module = m.mtp_pattern
  if module and (module == "" or #module > 64 or module:find "[^M*E%-]") then
    return ("'mtp_pattern' must be made of up to 64 letters M, *, - and E, got %s"):format(check.show(module)),
      "mtp_pattern"
  end
  if m.mixers and pattern then return "'mixers' does not go with 'layer_pattern'", "mixers" end
  if pattern then
    local odd = pattern:match "[^M*E%-]"
    if odd then
      return ("'layer_pattern' has the letter %s; known: M mamba, * attention, - MLP, E experts"):format(
        check.show(odd)), "layer_pattern"
    end
    if #pattern ~= m.layers then
      return ("'layer_pattern' has %d letters for %d layers"):format(#pattern, m.layers), "layer_pattern"
    end
  end
  if window and window.pattern:find "[^wf]" then
    return ("'window.pattern' must be made of w (windowed layer) and f (full layer), got %s"):format(
      check.show(window.pattern)), "window.pattern"
  end
end

local function check_sublayers(m)
  for _, other in ipairs { "parallel_block", "diffusion", "encoder_stack" } do
    if m[other] and m.output_scale then
      return ("'output_scale' does not go with '%s'"):format(other), "output_scale"
    end
    if m[other] and not m.first_norm then
      return ("'first_norm' = false does not go with '%s'"):format(other), "first_norm"
    end
  end
  if not m.first_norm and m.norms_per_layer == 0 then
    return "'first_norm' = false needs norms in a layer", "first_norm"
  end
end

-- An encoder's own ends.
local function check_encoder(m)
  local e, width = m.encoder, m.embedding_width or m.hidden
  if e and e.head and width ~= m.hidden and not e.transform then
    return "'encoder.transform' must lead from 'hidden' to the 'embedding_width' of the output table", "encoder"
  end
  if e and e.head and e.token_classes then
    return "'encoder.token_classes' takes the place of an output table: 'encoder.head' must be false", "encoder"
  end
end

local function check_ends(m)
  local v, context = m.vision, rawget(m, "context")
  if m.diffusion and not v then return "'diffusion' needs 'vision', which says how large images are", "diffusion" end
  if m.diffusion and (images.vectors(v) > 0 or v.classes) then
    return "'diffusion' does not go with 'vision.class_token' and other tokens, and 'vision.classes'", "diffusion"
  end
  if context and m.unbounded then return "'context' does not go with 'unbounded'", "context" end
  if context and m.seq and context < m.seq then
    return ("'context' (%d) is less than 'seq' (%d)"):format(context, m.seq), "context"
  end
  if not v then
    if not m.seq then return "'seq' is missing", "" end
    return
  end
  for _, name in ipairs { "vocab", "classes" } do
    if m[name] then return ("'%s' does not go with 'vision'"):format(name), name end
  end
  if v.image % v.patch ~= 0 then
    return ("'vision.patch' (%d) must divide 'vision.image' (%d)"):format(v.patch, v.image), "vision.patch"
  end
  if v.image // v.patch > 1 << 15 then
    return ("'vision.image' (%d) over 'vision.patch' (%d) is more than 32768"):format(v.image, v.patch), "vision.image"
  end
  local tokens = derived.seq(m)
  if m.seq ~= tokens then return ("'seq' is %d, but the image makes %d tokens"):format(m.seq, tokens), "seq" end
end

--- Checks the consistency of a description that passed the schema: returns a message and the field's path, or nothing.
---@param m table changed in place: biases given as true or false become a record
---@return string? message
---@return string? path
function description.disagreement(m)
  local message, path = check_patterns(m)
  if message then return message, path end
  if m.architecture and not require "tperf.describe.arch".is(m.architecture) then
    return "'architecture' must be what tperf.architecture returned", "architecture"
  end
  m.architecture = frozen.plain(m.architecture)
  if type(m.biases) == "boolean" then m.biases = all_biases(m.biases) end
  message, path = stacks.disagreement(m)
  if message then return message, path end
  local uses = {}
  local all = groups.of(m)
  if m.mtp > 0 then table.move(groups.module(m, all), 1, #groups.module(m, all), #all + 1, all) end
  for _, group in ipairs(all) do
    uses[group.mlp] = true
    uses.attention = uses.attention or group.attention ~= "none"
    uses.mamba, uses.delta = uses.mamba or group.mamba, uses.delta or group.delta
  end
  if uses.attention then message, path = check_attention(m) end
  if not message then message, path = check_recurrent(m, uses) end
  if not message then message, path = check_mlp(m, uses) end
  if not message then message, path = check_sublayers(m) end
  if not message then message, path = check_encoder(m) end
  if not message then message, path = check_ends(m) end
  if not message then message, path = packing.disagreement(m) end
  return message, path
end

return description
