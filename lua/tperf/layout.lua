--- Lays out the ops of a model for one shape: the only place where Lua runs between the question and the core, once
-- for each shape.
local core = require "tperf.core"
local check = require "tperf.check"
local refusal = require "tperf.refusal"
local memo = require "tperf.memo"
local architecture = require "tperf.arch"
local strategy = require "tperf.strategy"

local layout = {}

local ELEMENT_BYTES = 2 -- of the activations that travel between pipeline stages
local CACHED = 16384    -- ops in all; each takes three quarters of a KiB

local VARIANTS = { "flash", "unfused", "recompute", "summa" }
layout.attention_checker = check.choice { VARIANTS, default = "flash" }

-- The different kinds of layers, and the model's layers as runs of { kind, layers }.
local function kinds_of(plan)
  local kinds, runs, number = {}, {}, {}
  for _, group in ipairs(plan.groups) do
    if not number[group.key] then
      kinds[#kinds + 1] = group
      number[group.key] = #kinds
    end
    runs[#runs + 1] = { number[group.key], group.count }
  end
  return kinds, runs
end

local function check_attention(s, attention)
  for _, name in ipairs(s.attention) do
    if name == attention then return end
  end
  refusal.raise("strategy '%s' has no attention '%s' (it has %s)", s.name, attention, table.concat(s.attention, ", "))
end

-- memory: nil for blocks or strategies of a script's own, which may do as they like.
local function ops_of(blocks, model, share, memory)
  local list = {}
  for i, block in ipairs(blocks) do
    list[i] = memory and memo.ops(memory, block, model, share) or block:ops(model, share)
  end
  return list
end

-- The block of attention among a group's, or all where none has that name.
local function attention_blocks(group)
  for _, block in ipairs(group.blocks) do
    if block.name == "attention" then return { block } end
  end
  return group.blocks
end

local cache, cached = {}, 0

-- The networks of one strategy and `prefix`, which is long, by what else decides them.
local function shapes_of(s, prefix)
  cache[s] = cache[s] or {}
  cache[s][prefix] = cache[s][prefix] or {}
  return cache[s][prefix]
end

local function remember(s, prefix, key, network)
  if cached >= CACHED then cache, cached = {}, 0 end
  shapes_of(s, prefix)[key] = network
  cached = cached + #network
  return network
end

-- A table's content as text, the same for equal content; functions stand for themselves.
local function write(value, out)
  if type(value) ~= "table" then
    out[#out + 1] = type(value) == "number" and ("%.17g"):format(value) or tostring(value)
    return
  end
  local keys = {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  out[#out + 1] = "{"
  for _, key in ipairs(keys) do
    out[#out + 1] = tostring(key) .. "="
    write(rawget(value, key), out)
    out[#out + 1] = ";"
  end
  out[#out + 1] = "}"
end

local signatures = setmetatable({}, { __mode = "k" })

--- A model's content as text: what decides its ops apart from the strategy and the shape; or a system's. Neither is
--- ever changed in place.
function layout.signature(model)
  if not signatures[model] then
    local out = {}
    write(model, out)
    signatures[model] = table.concat(out)
  end
  return signatures[model]
end

local VARIANT = { "recompute", "sequence_parallel", "mode", "seq", "context", "dtype", "weight_dtype", "kv_dtype",
  "matrix_dtype", "expert_dtype", "expert_matrix_dtype", "sampling", "part" }

local words = setmetatable({}, { __mode = "k" }) -- variant -> strategy -> what of a key it decides

local function words_of(s, variant)
  local known = words[variant]
  if not known then
    known = {}
    words[variant] = known
  end
  if not known[s] then
    local list = {}
    for i, name in ipairs(VARIANT) do list[i] = tostring(variant[name]) end
    for _, name in ipairs(s.option_names) do list[#list + 1] = variant[name] or s.options[name].choices[1] end
    known[s] = table.concat(list, " ")
  end
  return known[s]
end

local function key_of(s, sizes, micro_batch, variant)
  return micro_batch .. " " .. table.concat(sizes, " ") .. " " .. words_of(s, variant)
end

-- The networks of a model's parts in one strategy.
local function lay_out(model, s, attention, rules, apart)
  local plan = architecture.of(model, rules, apart)
  local kinds, runs = kinds_of(plan)
  -- Shapes without experts share too little for it to be worth the while.
  local memory = s.built_in and model.experts and not model.architecture and memo.new() or nil
  local prefix = layout.signature(model) .. attention .. " " .. rules.name .. (apart and " apart" or "")
  -- One GPU's share of layers with a sequence of their own.
  local function share_of(group, sizes, micro_batch, variant)
    local options = { seq = group.seq }
    for name, value in pairs(variant) do options[name] = value end
    local share = strategy.share(s, model, micro_batch, sizes, rules, options)
    share.attention = attention
    return share
  end
  local function build(sizes, micro_batch, variant)
    local share = strategy.share(s, model, micro_batch, sizes, rules, variant)
    share.attention = attention
    local sections, widest, part = {}, share:boundary(model.hidden), variant.part
    for i, group in ipairs(kinds) do
      local own = group.seq and share_of(group, sizes, micro_batch, variant) or share
      own.group = group
      local blocks = part == "last" and {} or part and attention_blocks(group) or group.blocks
      sections[i] = ops_of(blocks, model, own, memory)
      if group.seq then widest = math.max(widest, own:boundary(model.hidden)) end
    end
    share.group = nil
    sections[#kinds + 1] = ops_of(part and {} or plan.first, model, share, memory)
    sections[#kinds + 2] = ops_of(part == "attention" and {} or plan.last, model, share, memory)
    local boundary = ELEMENT_BYTES * widest
    return core.network(s.grid, sizes, boundary, sections)
  end
  local function network(sizes, micro_batch, variant)
    local key = key_of(s, sizes, micro_batch, variant)
    local known = shapes_of(s, prefix)[key]
    return known or remember(s, prefix, key, build(sizes, micro_batch, variant))
  end
  return { kinds = kinds, runs = runs, has_ends = #plan.first + #plan.last > 0, network = network }
end

local layouts = setmetatable({}, { __mode = "k" }) -- model -> rules -> strategy and the rest -> layout

--- Lays a model out by one strategy: { kinds, runs, has_ends, network = function(sizes, micro_batch, variant) }.
---@param variant table  recompute = "none" …, sequence_parallel = boolean; for inference also mode, seq, context and
---  dtypes, as options of strategy.share; nothing changes it any more
---@param apart boolean?  modules of multi-token prediction are layers of their own, behind all others
function layout.of(model, s, attention, rules, apart)
  check_attention(s, attention)
  layouts[model] = layouts[model] or setmetatable({}, { __mode = "k" })
  local known = layouts[model]
  known[rules] = known[rules] or {}
  local key = s.name .. " " .. attention .. (apart and " apart" or "")
  known[rules][key] = known[rules][key] or lay_out(model, s, attention, rules, apart)
  return known[rules][key]
end

return layout
