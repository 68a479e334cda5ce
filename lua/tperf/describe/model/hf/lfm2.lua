--- Liquid AI's LFM2 from Hugging Face files: gated short convolutions and attention, with an MLP or experts in every
--- layer.
local attention = require "tperf.describe.arch.layer.attention"
local check = require "tperf.base.check"
local composed = require "tperf.describe.arch.composed"
local mlp = require "tperf.describe.arch.layer.mlp"
local moe = require "tperf.describe.arch.layer.moe"
local parts = require "tperf.describe.model.hf.parts"
local short_conv = require "tperf.describe.arch.layer.short_conv"

local types = {}

local keys = parts.keys

-- The MLP's width: two thirds of the file's, times a factor, rounded up to a multiple, if the file asks for that.
local function width_of(c)
  local width = c:count("block_ff_dim|intermediate_size", 12288)
  local factor, multiple = c:has "block_ffn_dim_multiplier" and c:value "block_ffn_dim_multiplier", 256
  multiple = c:count("block_multiple_of", multiple)
  c:ignore "intermediate_size"
  if not c:flag("block_auto_adjust_ff_dim", true) then return width end
  width = 2 * width // 3
  if factor then
    if type(factor) ~= "number" or factor <= 0 or factor > 64 then
      c:fail("block_ffn_dim_multiplier", "= %s is not a factor", check.show(factor))
    end
    width = math.floor(factor * width)
  end
  return (width + multiple - 1) // multiple * multiple
end

-- Which layers have attention, from 1.
local function attends(c, layers)
  local listed, set = c:table "layer_types", {}
  if listed then
    if #listed ~= layers then c:fail("layer_types", "has %d entries for %d layers", #listed, layers) end
    for i, kind in ipairs(listed) do
      if kind ~= "full_attention" and kind ~= "conv" then
        c:fail("layer_types", "[%d] = %s is not full_attention or conv", i, check.show(kind))
      end
      set[i] = kind == "full_attention"
    end
    return set
  end
  for at, i in ipairs(c:table "full_attn_idxs" or {}) do
    if math.type(i) ~= "integer" or i < 0 or i >= layers then
      c:fail("full_attn_idxs", "[%d] = %s is not a layer from 0 to %d", at, check.show(i), layers - 1)
    end
    set[i + 1] = true
  end
  if not c:has "full_attn_idxs" then -- the class's default
    for i = 1, layers do set[i] = true end
  end
  return set
end

-- The layers: attention or a convolution, then an MLP or, from `sparse_from` on, experts.
local function layers_of(m, attending, taps, bias, sparse_from)
  local conv, feeds = short_conv.block(1, 2, taps, bias), { dense = mlp.block(2, 2), experts = moe.block(2, 2) }
  local mixes, list = attention.block(1, 2), {}
  for i = 1, m.layers do
    local feed = i >= sparse_from and "experts" or "dense"
    list[i] = {
      kind = attending[i] and feed or "conv", attention = attending[i] and "gqa" or "none", mlp = feed, norms = 2,
      recurrent = not attending[i] or nil, blocks = { attending[i] and mixes or conv, feeds[feed] },
    }
  end
  return list
end

local function decoder(c, ffn, ffn_default)
  c:ignore "norm_eps"
  local m = parts.decoder(c)
  m.kv_heads, m.seq, m.ffn = c:count(keys.kv_heads, 8), c:count(keys.seq, 128000), ffn or c:count(keys.ffn, ffn_default)
  m.norm, m.positions, m.gated, m.qk_norm, m.activation = "rmsnorm", "rotary", true, true, "silu"
  m.tied_embeddings, m.biases = parts.tied(c, true), false
  return m
end

-- Files of the first models keep names of the code that trained them: block_… and conv_….
function types.lfm2(c)
  c:ignore "block_dim|block_norm_eps|block_use_swiglu|block_mlp_init_scale|block_out_init_scale|block_use_xavier_init"
  c:ignore "conv_dim|conv_dim_out|conv_use_xavier_init|num_heads|use_pos_enc|theta"
  local m = decoder(c, width_of(c))
  local taps, bias = c:count("conv_L_cache", 3), c:flag("conv_bias", false)
  m.architecture = composed.of("lfm2", layers_of(m, attends(c, m.layers), taps, bias, m.layers + 1))
  return m
end

function types.lfm2_moe(c)
  local m = decoder(c, nil, 7168)
  local taps, bias = c:count("conv_L_cache", 3), c:flag("conv_bias", false)
  m.experts = parts.experts(c, "num_experts", c:count("moe_intermediate_size", 1792))
  m.experts.router_bias = c:flag("use_expert_bias", true)
  m.experts.dense_layers = c:count("num_dense_layers", 2, 0)
  m.architecture = composed.of("lfm2_moe", layers_of(m, attends(c, m.layers), taps, bias, m.experts.dense_layers + 1))
  return m
end

return types
