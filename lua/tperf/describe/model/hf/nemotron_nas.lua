--- NVIDIA's models made by architecture search (Llama-Nemotron, model_type nemotron-nas) from Hugging Face files: each
--- layer has attention with its own number of key and value heads, or none, or a linear product in its place, and
--- likewise an MLP of its own width. A layer without either is left out.
local attention = require "tperf.describe.arch.layer.attention"
local block = require "tperf.describe.block"
local check = require "tperf.base.check"
local composed = require "tperf.describe.arch.composed"
local config = require "tperf.input.config"
local mlp = require "tperf.describe.arch.layer.mlp"
local layers = require "tperf.describe.arch.layer.parts"
local parts = require "tperf.describe.model.hf.parts"

local types = {}

local MULTIPLE <const> = 256 -- of an MLP's width

-- One product in place of a sublayer, i-th of the layer's n.
local function linear(i, n)
  return block("linear", function(m, p)
    local bias = m.biases.attention_out
    local product = p:replicated { name = "linear", n_in = m.hidden, n_out = m.hidden, bias = bias }
    return layers.sublayer(m, p, i, n, { product })
  end)
end

-- The reader of one sublayer's settings; nil: the layer has none.
local function settings(c, layer, at, name)
  local given = type(layer) == "table" and layer[name]
  if type(given) ~= "table" then c:fail("block_configs", "[%d] needs a map '%s'", at, name) end
  local one = config.new(given, c.where, c.positions, ("block_configs[%d].%s"):format(at - 1, name))
  return not one:flag("no_op", false) and one or nil
end

-- Refuses what tperf cannot say of a sublayer.
local function check_rest(one)
  one:ignore "unshifted_sink|use_prefill_window_in_sink_attention|hidden_act|gated" -- without a window and sinks
  for _, key in ipairs(one:unread()) do
    one:fail(key, "= %s is not modelled (docs/architectures.md)", check.show(one.fields[key]))
  end
end

local function attention_of(m, one)
  if one:flag("replace_with_linear", false) then return { name = "linear" } end
  local group = one:count("n_heads_in_group", nil, 1)
  if m.heads % group ~= 0 then one:fail("n_heads_in_group", "= %d does not divide %d heads", group, m.heads) end
  return { name = "attention", kv_heads = m.heads // group }
end

-- Two thirds of a multiple of the stream's width, rounded up.
local function mlp_of(m, one)
  if one:flag("replace_with_linear", false) then return { name = "linear" } end
  local factor = one:value "ffn_mult"
  if type(factor) ~= "number" or factor <= 0 or factor > 64 then
    one:fail("ffn_mult", "= %s is not a factor", check.show(factor))
  end
  local width = math.floor(2 * factor * m.hidden / 3)
  return { name = "mlp", ffn = (width + MULTIPLE - 1) // MULTIPLE * MULTIPLE }
end

-- Blocks by kind and place, so that equal layers share them.
local function blocks()
  local known = {}
  return function(name, i, n)
    local key = ("%s %d of %d"):format(name, i, n)
    if not known[key] then
      known[key] = name == "attention" and attention.block(i, n) or name == "mlp" and mlp.block(i, n) or linear(i, n)
    end
    return known[key]
  end
end

local function layer_of(made, mixes, feeds)
  local n = (mixes and 1 or 0) + (feeds and 1 or 0)
  local layer = { kind = "dense", attention = mixes and mixes.kv_heads and "gqa" or "none", norms = n,
    mlp = feeds and feeds.ffn and "dense" or "none", ffn = feeds and feeds.ffn,
    own = mixes and mixes.kv_heads and { kv_heads = mixes.kv_heads } or nil, blocks = {} }
  if mixes then layer.blocks[1] = made(mixes.name, 1, n) end
  if feeds then table.insert(layer.blocks, made(feeds.name, n, n)) end
  return layer
end

types["nemotron-nas"] = function(c)
  local listed = c:table "block_configs" or c:fail("block_configs", "is missing: a list with every layer is needed")
  c:ignore("intermediate_size|num_key_value_heads", "each layer has its own")
  parts.only(c, { position_embedding_type = "rope" })
  local m = parts.decoder(c)
  if #listed ~= m.layers then c:fail("block_configs", "has %d entries for %d layers", #listed, m.layers) end
  local bias = c:flag("attention_bias", false)
  m.seq, m.norm, m.positions, m.gated = c:count(parts.keys.seq), "rmsnorm", "rotary", true
  m.tied_embeddings, m.activation = parts.tied(c, false), parts.activation(c, "silu")
  m.biases = { qkv = bias, attention_out = bias, mlp = c:flag("mlp_bias", false) }
  local made, list = blocks(), {}
  for at, layer in ipairs(listed) do
    local mixer, feed = settings(c, layer, at, "attention"), settings(c, layer, at, "ffn")
    local mixes, feeds = mixer and attention_of(m, mixer), feed and mlp_of(m, feed)
    if mixer then check_rest(mixer) end
    if feed then check_rest(feed) end
    if mixes or feeds then
      list[#list + 1] = layer_of(made, mixes, feeds)
      m.kv_heads = math.min(m.kv_heads or m.heads, mixes and mixes.kv_heads or m.heads)
      m.ffn = feeds and feeds.ffn or m.ffn
    end
  end
  m.layers, m.ffn = #list, m.ffn or 4 * m.hidden
  m.architecture = composed.of("nemotron-nas", list)
  return m
end

return types
