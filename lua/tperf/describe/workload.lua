--- Lays out the ops of a model for one shape. Between the question and the core, Lua runs only here, once
-- per shape.
local axes = require "tperf.describe.strategy.axes"
local core = require "tperf.core"
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"
local memo = require "tperf.base.memo"
local adapters = require "tperf.describe.strategy.adapters"
local narrowed = require "tperf.describe.arch.narrowed"
local architecture = require "tperf.describe.arch"
local strategy = require "tperf.describe.strategy"

local layout = {}

local ELEMENT_BYTES = 2 -- per activation sent between pipeline stages
local CACHED = 16384    -- ops in total; each takes three quarters of a KiB

local VARIANTS = { "flash", "unfused", "recompute", "summa" }
layout.attention_checker = check.choice { VARIANTS, default = "flash" }

-- The part of a group within the model's layers from..to; at: the group's first layer; nil: empty. wide: stays in 16
-- bits.
local function part_of(group, at, from, to, wide)
  local count = math.min(at + group.count - 1, to) - math.max(at, from) + 1
  if count <= 0 then return nil end
  return setmetatable({ count = count, wide = wide, key = wide and group.key .. " in 16 bits" or group.key },
    { __index = group })
end

-- The groups, split so that the first and last layers that a precision leaves in 16 bits are separate.
local function groups_of(plan, model, precision)
  local first, last = precision and precision.first_layers or 0, precision and precision.last_layers or 0
  if first + last == 0 then return plan.groups end
  local list, at, from, to = {}, 1, first + 1, model.layers - last
  for _, group in ipairs(plan.groups) do
    list[#list + 1] = part_of(group, at, 1, math.min(first, model.layers), true)
    list[#list + 1] = part_of(group, at, from, to, false)
    list[#list + 1] = part_of(group, at, math.max(from, to + 1), model.layers, true)
    if at > model.layers then list[#list + 1] = group end -- modules of multi-token prediction
    at = at + group.count
  end
  return list
end

-- The distinct kinds of layers, and the model's layers as runs of { kind, layers }.
local function kinds_of(all)
  local kinds, runs, number = {}, {}, {}
  for _, group in ipairs(all) do
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

-- memory: nil for custom blocks or strategies, which may have side effects.
local function ops_of(blocks, model, share, memory)
  local list = {}
  for i, block in ipairs(blocks) do
    list[i] = memory and memo.ops(memory, block, model, share) or block:ops(model, share)
  end
  return list
end

-- The ops in a precision. blocks: those around the layers, of which only blocks with layers of their own are narrowed.
local function in_precision(lists, precision, blocks)
  if not precision then return lists end
  for i, list in ipairs(lists) do
    local narrows = not blocks or blocks[i].has_layers
    if narrows and precision.stored then
      lists[i] = narrowed.stored(list, precision.stored, precision.products)
    elseif narrows then
      lists[i] = narrowed.block(list, precision)
    end
  end
  return lists
end

-- A group's block named attention, or all blocks if there is none.
local function attention_blocks(group)
  for _, block in ipairs(group.blocks) do
    if block.name == "attention" then return { block } end
  end
  return group.blocks
end

local cache, cached = {}, 0

-- The workloads of one strategy and `prefix` (a long string), by the rest of the key.
local function shapes_of(s, prefix)
  cache[s] = cache[s] or {}
  cache[s][prefix] = cache[s][prefix] or {}
  return cache[s][prefix]
end

local function remember(s, prefix, key, workload)
  if cached >= CACHED then cache, cached = {}, 0 end
  shapes_of(s, prefix)[key] = workload
  cached = cached + #workload
  return workload
end

-- Writes a table's content as text, the same for equal content; functions compare by identity.
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

--- A model's or a system's content as text. A model's decides its ops, apart from the strategy and the shape. Neither
--- is ever changed in place.
function layout.signature(model)
  if not signatures[model] then
    local out = {}
    write(model, out)
    signatures[model] = table.concat(out)
  end
  return signatures[model]
end

local VARIANT = { "recompute", "recompute_modules", "offload_modules", "loss", "fused_activation",
  "overlap_shared_experts", "cuda_graphs",
  "sequence_parallel", "mode", "seq", "context", "dtype", "weight_dtype", "kv_dtype", "matrix_dtype", "sampling",
  "part" }

local words = setmetatable({}, { __mode = "k" }) -- variant -> strategy -> its part of a key

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

-- Duplicates the kinds after all others, if some layers are recomputed, or offloaded, and others are not.
local TWINS <const> = { recompute = ", recomputed", offload = ", offloaded" }

local function with_twins(kinds, how)
  local all = table.move(kinds, 1, #kinds, 1, {})
  for i, kind in ipairs(kinds) do
    all[#kinds + i] = setmetatable({ key = kind.key .. how, group = kind }, { __index = kind })
  end
  return all
end

-- The options that affect a layout, as text.
local function words_of_options(o)
  return (o.apart and " apart" or "") .. (o.twins and " " .. o.twins or "")
    .. (o.precision and " " .. o.precision.key or "") .. (o.tuning and " tuned " .. o.tuning.key or "")
end

-- Sums over a whole model's sections: parameters, trained parameters, those of adapters, and FLOPs on the matrix units
-- in both passes.
local function totals_of(sections, runs)
  local sum = { parameters = 0.0, trained = 0.0, adapters = 0.0, flops = 0.0 }
  local times = { [#sections - 1] = 1, [#sections] = 1 }
  for _, run in ipairs(runs) do times[run[1]] = (times[run[1]] or 0) + run[2] end
  for i, blocks in ipairs(sections) do
    for _, list in ipairs(blocks) do
      for _, one in ipairs(list) do
        local c = one:counts()
        local own = c.tied and i == #sections and 0 or 1
        sum.parameters = sum.parameters + own * times[i] * c.parameters
        sum.trained = sum.trained + own * times[i] * c.trained
        sum.adapters = sum.adapters + (adapters.is(one) and times[i] * c.trained or 0)
        sum.flops = sum.flops + times[i] * (c.forward.tensor_flops + c.backward.tensor_flops)
      end
    end
  end
  return sum
end

-- The workloads of a model's parts in one strategy.
local function lay_out(model, s, attention, rules, o)
  local precision, tuning = o.precision, o.tuning
  local plan = architecture.of(model, rules, o.apart, tuning)
  local kinds, runs = kinds_of(groups_of(plan, model, precision))
  local plain = o.twins and #kinds or 0 -- number of kinds without full recomputation
  if o.twins then kinds = with_twins(kinds, TWINS[o.twins]) end
  local trains = precision and not precision.stored and precision or nil
  -- Shapes without experts share too few ops to be worth it.
  local memory = s.built_in and model.experts and not model.architecture and memo.new() or nil
  local prefix = layout.signature(model) .. attention .. " " .. rules.name .. words_of_options(o)
  local sequences = tuning and tuning.sequences or 1 -- per sample
  -- One GPU's share, with the group's own sequence length if it has one.
  local function share_of(group, sizes, micro_batch, variant)
    local options = { seq = group.seq, precision = not group.wide and trains or nil }
    for name, value in pairs(variant) do options[name] = value end
    local share = strategy.share(s, model, micro_batch * sequences, sizes, rules, options)
    share.attention, share.tuning = attention, tuning
    return share
  end
  local function sections_of(sizes, micro_batch, variant)
    local share = share_of({}, sizes, micro_batch, variant)
    local sections, widest, part = {}, share:boundary(model.hidden), variant.part
    for i, group in ipairs(kinds) do
      local own = (group.seq or group.wide) and share_of(group, sizes, micro_batch, variant) or share
      own.group = group.group or group
      own.recompute = i <= plain and variant.recompute == "full" and "none" or variant.recompute
      own.offload = o.twins == "offload" and i > plain or nil
      local blocks = part == "last" and {} or part and attention_blocks(group) or group.blocks
      sections[i] = in_precision(ops_of(blocks, model, own, memory), not group.wide and precision)
      if group.seq then widest = math.max(widest, own:boundary(model.hidden)) end
    end
    share.group, share.recompute, share.offload = nil, variant.recompute, nil
    sections[#kinds + 1] = ops_of(part and {} or plan.first, model, share, memory)
    local last = part == "attention" and {} or plan.last
    sections[#kinds + 2] = in_precision(ops_of(last, model, share, memory), precision, last)
    -- A reference model's activations are sent forward, too: one message in three.
    return sections, ELEMENT_BYTES * widest * (tuning and tuning.reference and 1.5 or 1)
  end
  local function build(sizes, micro_batch, variant)
    local sections, boundary = sections_of(sizes, micro_batch, variant)
    return core.workload(s.grid, sizes, boundary, sections)
  end
  local sums
  local function totals()
    local sizes = {}
    for i, axis in ipairs(s.axes) do sizes[i] = axes.cuts(axis, "state") and 0 or 1 end
    sums = sums or totals_of(sections_of(sizes, 1, { recompute = "none", sequence_parallel = true }), runs)
    return sums
  end
  local function workload(sizes, micro_batch, variant)
    local key = key_of(s, sizes, micro_batch, variant)
    local known = shapes_of(s, prefix)[key]
    return known or remember(s, prefix, key, build(sizes, micro_batch, variant))
  end
  return { kinds = kinds, runs = runs, has_ends = #plan.first + #plan.last > 0, workload = workload, totals = totals }
end

local layouts = setmetatable({}, { __mode = "k" }) -- model -> rules -> strategy and options -> layout

--- Lays out a model in one strategy: { kinds, runs, has_ends, workload = function(sizes, micro_batch, variant), totals
--- }.
---@param variant table  recompute = "none" …, sequence_parallel = boolean; for inference also mode, seq, context and
---   dtypes, as options of strategy.share; it is never changed afterwards
---@param o table?  options:
---   apart      true: modules of multi-token prediction are separate layers after all others
---   twins      "recompute", "offload": every kind of layer appears twice: first unchanged, then, after all of these,
---              fully recomputed or offloaded
---   precision  of the layers' products: from precision.resolve or precision.stored; default 16 bits
---   tuning     what is trained, see tperf/describe/tuning.lua; the result's totals() sums it up
function layout.of(model, s, attention, rules, o)
  o = o or {}
  check_attention(s, attention)
  layouts[model] = layouts[model] or setmetatable({}, { __mode = "k" })
  local known = layouts[model]
  known[rules] = known[rules] or {}
  local key = s.name .. " " .. attention .. words_of_options(o)
  known[rules][key] = known[rules][key] or lay_out(model, s, attention, rules, o)
  return known[rules][key]
end

return layout
