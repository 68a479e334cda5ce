--- Lays out the ops of a model for one shape. Between the question and the core, Lua runs only here, once
-- per shape.
local axes = require "tperf.describe.strategy.axes"
local captured = require "tperf.describe.captured"
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"
local idle = lazy.module "tperf.describe.layout.idle"
local caches = lazy.module "tperf.describe.layout.kept"
local stated = require "tperf.describe.model.stated"
local memo = require "tperf.describe.layout.memo"
local adapters = require "tperf.describe.strategy.adapters"
local sections = require "tperf.describe.layout.sections"

local layout = {}

local CACHED <const> = 16384 -- in all: workloads, and ops that are one workload's alone; each takes two KiB
local SERIES <const> = 8 -- as many are what the workloads of some sizes share

local VARIANTS = { "flash", "unfused", "recompute", "summa" }
layout.attention_checker = check.choice { VARIANTS, default = "flash" }

local function check_attention(s, attention)
  for _, name in ipairs(s.attention) do
    if name == attention then return end
  end
  refusal.raise("strategy '%s' has no attention '%s' (it has %s)", s.name, attention, table.concat(s.attention, ", "))
end

local cache, cached, generation = {}, 0, 0

local function forget() cache, cached, generation = {}, 0, generation + 1 end
memo.when_forgotten(forget)

-- The workloads of one strategy, `prefix` (a long string) and the rest of the key: { of = by micro-batch, series (see
-- tperf/describe/layout/sections.lua), said = by name }.
local function shapes_of(s, prefix, key)
  cache[s] = cache[s] or {}
  cache[s][prefix] = cache[s][prefix] or {}
  local of_prefix = cache[s][prefix]
  of_prefix[key] = of_prefix[key] or { of = {} }
  return of_prefix[key]
end

local function by_text(a, b) return tostring(a) < tostring(b) end

-- Numbers of functions. Their addresses would do only while they live: a later one may get an earlier one's.
local identities, last_identity = setmetatable({}, { __mode = "k" }), 0

local function identity_of(value)
  if not identities[value] then
    last_identity = last_identity + 1
    identities[value] = last_identity
  end
  return type(value) .. " " .. identities[value]
end

-- Writes a table's content as text, the same for equal content; functions compare by identity.
local function write(value, out)
  local kind = type(value)
  if kind == "function" or kind == "userdata" then
    out[#out + 1] = identity_of(value)
  elseif kind ~= "table" then
    out[#out + 1] = kind == "number" and ("%.17g"):format(value) or tostring(value)
  end
  if kind ~= "table" then
    return
  end
  local keys, are_names = {}, true
  for key in next, value do
    keys[#keys + 1] = key
    are_names = are_names and type(key) == "string"
  end
  table.sort(keys, not are_names and by_text or nil)
  out[#out + 1] = "{"
  for _, key in ipairs(keys) do
    out[#out + 1] = tostring(key) .. "="
    write(rawget(value, key), out)
    out[#out + 1] = ";"
  end
  out[#out + 1] = "}"
end

local signatures = setmetatable({}, { __mode = "k" })

--- A model's or a system's content as text. A model's decides its ops, apart from the strategy and the shape.
function layout.signature(model)
  if not signatures[model] then
    local out = {}
    write(lazy.settle(model), out)
    local own = rawget(model, "architecture")
    out[#out + 1] = own and captured.of(own) or ""
    signatures[model] = table.concat(out)
  end
  return signatures[model]
end

local VARIANT <const> = {}
for _, names in ipairs { memo.fields.class, memo.fields.ends, memo.fields.recomputed } do
  table.move(names, 1, #names, #VARIANT + 1, VARIANT)
end

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

-- Returns a function from sizes and a variant to what shapes_of has of them. Shapes that differ in the micro-batch
-- alone follow each other.
local function finder(s, prefix)
  local recent, count = { sizes = {} }, #s.axes
  return function(sizes, variant)
    if cached >= CACHED then forget() end
    local known, dp = recent.sizes, sizes.dp
    local same = recent.generation == generation and recent.variant == variant and recent.dp == dp
    for i = 1, same and count or 0 do
      if known[i] ~= sizes[i] then
        same = false
        break
      end
    end
    if not same then
      local key = table.concat(sizes, " ") .. " " .. words_of(s, variant)
      recent = {
        generation = generation, variant = variant, dp = dp, sizes = table.move(sizes, 1, count, 1, {}),
        shapes = shapes_of(s, prefix, dp and key .. " x " .. dp or key),
      }
    end
    return recent.shapes
  end
end

-- The options that affect a layout, as text.
local function words_of_options(o)
  return (o.apart and " apart" or "") .. (o.twins and " " .. o.twins or "")
    .. (o.precision and " " .. o.precision.key or "") .. (o.tuning and " tuned " .. o.tuning.key or "")
end

-- Sums over a whole model's sections: parameters, trained parameters, those of adapters, and FLOPs on the matrix units
-- in both passes. kinds: the number of kinds of layers, which come first.
local function totals_of(all, runs, kinds)
  local sum = { parameters = 0.0, trained = 0.0, adapters = 0.0, flops = 0.0 }
  local times = {}
  for i = kinds + 1, #all do times[i] = 1 end
  for _, run in ipairs(runs) do times[run[1]] = (times[run[1]] or 0) + run[2] end
  for i, blocks in ipairs(all) do
    for _, list in ipairs(blocks) do
      for _, one in ipairs(list) do
        local c = one:counts()
        local own = c.tied and i == kinds + 2 and 0 or 1
        sum.parameters = sum.parameters + own * times[i] * c.parameters
        sum.trained = sum.trained + own * times[i] * c.trained
        sum.adapters = sum.adapters + (adapters.is(one) and times[i] * c.trained or 0)
        sum.flops = sum.flops + times[i] * (c.forward.tensor_flops + c.backward.tensor_flops)
      end
    end
  end
  return sum
end

-- What a byte through the memory counts for beside FLOPs: about what training GPUs compute meanwhile (an H100 295).
local FLOPS_OF_BYTE <const> = 300

-- How long a forward pass of a layer of each kind takes, in no unit: the same on every machine, so that none decides
-- which pipelines are simulated. What cannot be laid out on one GPU counts as very different.
local function works_of(kinds, laid_out, all)
  local list = {}
  for kind = 1, kinds do
    list[kind] = laid_out and 0 or 10.0 ^ kind
    for _, ops in ipairs(laid_out and all[kind] or {}) do
      for _, op in ipairs(ops) do
        local forward = op:counts().forward
        list[kind] = list[kind] + forward.tensor_flops + forward.vector_flops + FLOPS_OF_BYTE * forward.bytes
      end
    end
  end
  return list
end

-- A function of sizes that blocks which know the number of replicas are called by: 1, unless it is given.
local function with_replicas(model, f)
  return stated.replicas(model) and f and function(sizes, ...)
    return f(sizes.dp and sizes or table.move(sizes, 1, #sizes, 1, { dp = 1 }), ...)
  end or f
end

-- The sizes of a strategy's axes that cut nothing.
local function one_gpu(s)
  local sizes = {}
  for i, axis in ipairs(s.axes) do sizes[i] = axes.cuts(axis, "state") and 0 or 1 end
  return sizes
end

-- The workloads of a model's parts in one strategy.
local function lay_out(model, s, attention, rules, o, strategys)
  local prefix = layout.signature(model) .. attention .. " " .. rules.name .. strategys .. words_of_options(o)
  local all, sums, find = sections.new(model, s, attention, rules, o), nil, finder(s, prefix)
  local function build(sizes, micro_batch, variant, kept)
    local list, boundary, parts = all:blocks(sizes, micro_batch, variant, kept)
    return core.workload(s.grid, sizes, boundary, list, parts)
  end
  local uncut, works = one_gpu(s), nil
  local function totals()
    if not sums then
      local list = all:ops(uncut, 1, { recompute = "none", sequence_parallel = true })
      sums = totals_of(list, all.runs, #all.kinds)
    end
    return sums
  end
  local function work()
    works = works or works_of(#all.kinds, pcall(function()
      return all:ops(uncut, 1, { recompute = "none", sequence_parallel = true })
    end))
    return works
  end
  local function workload(sizes, micro_batch, variant)
    local shapes = find(sizes, variant)
    if shapes.of[micro_batch] then return shapes.of[micro_batch] end
    local before, since = shapes.series, generation
    local made = build(sizes, micro_batch, variant, shapes)
    if generation ~= since then shapes = find(sizes, variant) end
    shapes.of[micro_batch] = made
    cached = cached + 1 + (all:remembers(variant) and 0 or #made) + (shapes.series ~= before and SERIES or 0)
    return made
  end
  local function steps(sizes, micro_batch, variant)
    local list_at, boundary, parts = all:steps(sizes, micro_batch, variant)
    return function(tokens) return core.workload(s.grid, sizes, boundary, list_at(tokens), parts) end
  end
  local function workloads(sizes, variant) return find(sizes, variant).of end
  -- What is said of the shapes of some sizes, by name.
  local function remember(sizes, variant, name, say)
    local said = find(sizes, variant).said
    if said and said[name] ~= nil then return said[name] end
    local value, shapes = say(), find(sizes, variant)
    shapes.said = shapes.said or {}
    shapes.said[name] = value
    return value
  end
  return {
    kinds = all.kinds, runs = all.runs, has_ends = all.has_ends, workloads = workloads, totals = totals, work = work,
    workload = with_replicas(model, workload), steps = with_replicas(model, all.scripted and steps or nil),
    caches = function(sizes, variant_of)
      return remember(sizes, variant_of(0), "caches", function() return caches.of(all, sizes, variant_of) end)
    end,
    warnings = model.architecture and function(sizes, micro_batch, variant)
      return remember(sizes, variant, micro_batch, function()
        return idle.warnings(all, sizes, micro_batch, variant) or false
      end) or nil
    end,
  }
end

local layouts = setmetatable({}, { __mode = "k" }) -- model -> rules -> strategy and options -> layout

--- Lays out a model in one strategy: { kinds, runs, has_ends, workload = function(sizes, micro_batch, variant),
--- workloads = function(sizes, variant): those laid out so far, by micro-batch, totals, work = function(): how long a
--- layer of each kind takes for a sequence on one GPU, in no unit, steps = if functions of a script make them:
--- function(sizes, micro_batch, variant) -> function(earlier tokens) -> a decode step's workload, caches =
--- function(sizes, variant_of), warnings = function(sizes, micro_batch, variant): of an architecture, see kept.lua and
--- idle.lua beside sections.lua }.
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
  local strategys = captured.of_strategy(s)
  local key = s.name .. " " .. attention .. words_of_options(o) .. strategys
  known[rules][key] = known[rules][key] or lay_out(model, s, attention, rules, o, strategys)
  return known[rules][key]
end

return layout
