--- The blocks of a model: those of its architecture, those that its description names (layer/transformer.lua), or the
-- published solver's layer, if the rules say so (layer/gpt.lua).
local block = require "tperf.describe.block"
local check = require "tperf.base.check"
local graphs = require "tperf.describe.arch.graphs"
local lazy = require "tperf.base.lazy"
local calls = lazy.module "tperf.describe.arch.calls"
local gpt = lazy.module "tperf.describe.arch.layer.gpt"
local mtp = lazy.module "tperf.describe.arch.layer.mtp"
local offload = require "tperf.describe.arch.offload"
local recompute = require "tperf.describe.arch.recompute"
local stated = require "tperf.describe.model.stated"
local transformer = require "tperf.describe.arch.layer.transformer"
local tuned = lazy.module "tperf.describe.arch.tuned"

local plan = {}

-- Under full recomputation a layer keeps only its input and runs again before its backward pass (arXiv 2205.05198,
-- section 5; 2 s b h in table 2); under selective recomputation only its modules do (recompute.lua).
local function recomputable(original, opens, closes, before)
  local one = block(original.name, function(m, p)
    local ops
    if m.architecture then
      ops = calls.block(original, m, p)
    else
      ops = original.build(m, p)
    end
    if opens and m.architecture then p.input = recompute.input(m, p, ops) end
    if p.tuning and not p.referring then ops = tuned.ops(ops, p, original.name, nil, before(m, p)) end
    if p.recompute ~= "none" then recompute.mark(m, p, ops, opens, closes) end
    if p.cuda_graphs then graphs.mark(p, ops, original.name) end
    return (p.offload or p.offload_modules) and offload.mark(p, ops) or ops
  end)
  one.unmarked, one.opens = original, opens
  return one
end

local function layer_of(blocks)
  local list = {}
  for i, one in ipairs(blocks) do
    list[i] = recomputable(one, i == 1, i == #blocks, function(m, p) -- builders of the preceding blocks
      local before = {}
      for k = 1, i - 1 do
        local earlier = blocks[k]
        before[k] = function()
          return tuned.ops(m.architecture and calls.block(earlier, m, p) or earlier.build(m, p), p, earlier.name)
        end
      end
      return before
    end)
  end
  return list
end

-- Blocks of a script before the first layer or after the last one: called as those of layers are.
local function ends_of(blocks)
  local list = {}
  for i, one in ipairs(blocks) do
    list[i] = one.of_script and block(one.name, function(m, p) return calls.block(one, m, p) end) or one
  end
  return list
end

local published = {} -- variant -> the published solver's layer
local function published_layer(m, p)
  published[p.attention] = published[p.attention] or gpt.attention(p.attention)
  return published[p.attention].build(m, p)
end

-- The features of a model that the published solver's layer lacks: it has attention of all heads over hidden and a
-- plain MLP.
local function beyond_published(m)
  local list = {}
  local function add(beyond, ...)
    if beyond then list[#list + 1] = string.format(...) end
  end
  add(m.architecture, "an architecture of its own")
  add(m.mamba, "Mamba layers (mamba)")
  add(m.mamba1, "Mamba layers (mamba1)")
  add(m.delta, "delta net layers (delta)")
  add(m.diffusion, "adaptive norms (diffusion)")
  add(m.encoder_stack, "an encoder and a decoder (encoder_stack)")
  add(m.encoder, "an encoder's ends (encoder)")
  add(m.attention_gate, "gated attention (attention_gate)")
  add(rawget(m, "layer_pattern"), "layers that differ (layer_pattern)")
  add(m.experts, "experts")
  add(m.mla, "latent attention (mla)")
  add(not m.heads and not m.mamba and not m.mamba1, "layers without attention")
  if m.heads and not m.mla then
    add(m.kv_heads ~= m.heads, "kv_heads = %d of %d heads", m.kv_heads, m.heads)
    add(m.value_dim or m.tied_values, "values unlike keys (value_dim, tied_values)")
    add(m.head_dim ~= m.hidden // m.heads, "head_dim = %d where hidden / heads is %d", m.head_dim, m.hidden // m.heads)
  end
  add(m.gated, "a gated MLP (gated)")
  add(m.window, "attention to a window of tokens (window)")
  add(m.parallel_block, "attention and MLP side by side (parallel_block)")
  return list
end

local function check_published(model, rules)
  local beyond = beyond_published(model)
  if #beyond == 0 then return end
  check.fail("rules '%s' only know GPT-3's layer and cannot describe what '%s' has: %s; use the rules 'default'",
    rules.name, model.name, table.concat(beyond, ", "))
end

local function groups_of(model, given)
  if given and given ~= gpt and given.groups then
    local groups = stated.groups(given, model)
    for _, group in ipairs(groups) do group.blocks = layer_of(group.blocks or given.layer) end
    return groups
  end
  if given == gpt then
    local blocks = { gpt.mlp, block("attention", published_layer, { dense = true, linear = true }) }
    return { { first = 1, count = model.layers, key = "gpt", blocks = blocks } }
  end
  local groups = given and model:groups() or transformer.groups(model)
  for _, group in ipairs(groups) do group.blocks = layer_of(given and given.layer or group.blocks) end
  return groups
end

-- Marks the ends for tuning; if there is a reference model, its copy of each block follows.
local function tune(parts, t)
  for name, where in pairs { first = "embedding", last = "head" } do
    local list = {}
    for i, one in ipairs(parts[name]) do list[i] = tuned.ending(one, where) end
    if t.reference then
      local both = tuned.with_reference(parts[name])
      table.move(both, #list + 1, #both, #list + 1, list)
    end
    parts[name] = list
  end
  for _, group in ipairs(t.reference and parts.groups or {}) do group.blocks = tuned.with_reference(group.blocks) end
end

--- The blocks of a model, in order.
---@param model table
---@param rules table?  (default: the default rules)
---@param apart boolean?  true: modules of multi-token prediction become separate layers after all others
---@param t table?  what is trained, see tperf/describe/tuning.lua (default: everything)
---@return table parts  { groups = the runs of equal layers of model:groups(), each with `blocks` (the same for the same
---   `key`), first = the blocks before the first layer, last = those after the last one }
function plan.of(model, rules, apart, t)
  local is_model = type(model) == "table" and type(model.groups) == "function"
  if not is_model then check.fail("tperf.architecture.of needs a model of tperf.model, got %s", check.show(model)) end
  if rules ~= nil and type(rules) ~= "table" then
    check.fail("tperf.architecture.of: 'rules' must be a set of tperf.rules, got %s", check.show(rules))
  end
  local given = model.architecture
  if rules and not rules.layers_from_description then
    check_published(model, rules)
    return { groups = groups_of(model, gpt), first = {}, last = {} }
  end
  local groups = groups_of(model, given)
  local last = given and given.last and ends_of(given.last) or transformer.last(model, groups)
  if t then
    tuned.check(t, groups)
    groups = tuned.groups(groups, t)
  end
  if apart and model.mtp > 0 and not (given and given.last) then
    last = { last[1] }
    local blocks = { mtp.single(transformer.module(model, groups)) }
    groups[#groups + 1] = { first = model.layers + 1, count = model.mtp, key = "mtp", blocks = blocks }
  end
  local first = given and given.first and ends_of(given.first) or transformer.first
  local parts = { groups = groups, first = first, last = last }
  if t then tune(parts, t) end
  return parts
end

return plan
