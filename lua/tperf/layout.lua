--- Lays out the ops of one layer of a model for one shape: the only place where Lua runs between the question and the
-- core, once for each shape.
local core = require "tperf.core"
local check = require "tperf.check"
local gpt = require "tperf.arch.gpt"
local strategy = require "tperf.strategy"

local layout = {}

local ELEMENT_BYTES = 2 -- of the activations that travel between pipeline stages
local CACHED = 4096     -- layers; a layer of 14 ops takes 6 KiB

local VARIANTS = { "flash", "unfused", "recompute", "summa" }
layout.attention_checker = check.choice { VARIANTS, default = "flash" }

local attention = {}
for _, variant in ipairs(VARIANTS) do attention[variant] = gpt.attention(variant) end

-- What the blocks of arch/gpt.lua do not describe, and what says so.
local function refuse_unknown_parts(model)
  local part = model.gated and "a gated MLP" or model.kv_heads ~= model.heads and "grouped key and value heads"
    or model.experts and "experts" or model.mla and "multi-head latent attention"
    or model.mamba and "Mamba layers" or model.window and "sliding-window attention"
    or model.parallel_block and "parallel attention and MLP" or nil
  if part then
    check.fail("model '%s' has %s, which training time does not cover yet; its layers would be mistaken for GPT-3's",
      model.name, part)
  end
end

--- Refuses a model or an attention variant that the strategy cannot lay out.
function layout.check(model, s, variant)
  refuse_unknown_parts(model)
  for _, name in ipairs(s.attention) do
    if name == variant then return end
  end
  check.fail("strategy '%s' has no attention '%s' (it has %s)", s.name, variant, table.concat(s.attention, ", "))
end

local cache, cached = {}, 0

-- Everything that decides a layer's ops, apart from the strategy and the shape.
local function key_of(model, variant, rules)
  return ("%d %d %d %d %d %s %s"):format(model.hidden, model.ffn, model.heads, model.head_dim, model.seq, variant,
    rules.name)
end

local function build(model, s, variant, rules, sizes, micro_batch)
  local share = strategy.share(s, model, micro_batch, sizes, rules)
  local blocks = { gpt.mlp:ops(model, share), attention[variant]:ops(model, share) }
  local boundary = ELEMENT_BYTES * share:boundary(model.hidden)
  return core.layer(s.axis_names, sizes, s.gradient_mask, boundary, blocks)
end

--- A function(sizes, micro_batch) -> layer for one model, strategy, variant and set of rules.
function layout.layers(model, s, variant, rules)
  layout.check(model, s, variant)
  local key = key_of(model, variant, rules)
  return function(sizes, micro_batch)
    local of_strategy = cache[s]
    if not of_strategy then
      of_strategy = {}
      cache[s] = of_strategy
    end
    local shape = ("%s %d %s"):format(key, micro_batch, table.concat(sizes, " "))
    local layer = of_strategy[shape]
    if not layer then
      if cached >= CACHED then cache, cached, of_strategy = {}, 0, {} cache[s] = of_strategy end
      layer = build(model, s, variant, rules, sizes, micro_batch)
      of_strategy[shape] = layer
      cached = cached + 1
    end
    return layer
  end
end

return layout
