--- What tperf.infer and tperf.search_inference share: from arguments to a deployment for the core, and from the core's
-- result to a record. docs/inference.md.
local arguments = require "tperf.question.serving_arguments"
local axes = require "tperf.describe.strategy.axes"
local cache = require "tperf.describe.arch.cache"
local captured = require "tperf.describe.captured"
local check = require "tperf.base.check"
local check_served = require "tperf.question.infer.served"
local contexts = require "tperf.question.infer.contexts"
local core = require "tperf.core"
local lengths = require "tperf.question.infer.lengths"
local memo = require "tperf.base.memo"
local figures = require "tperf.question.infer.figures"
local visible_memory = require "tperf.describe.machine.visible_memory"
local workload = require "tperf.describe.workload"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local pipelines = require "tperf.question.search.pipelines"
local placement = require "tperf.question.placement"
local rank_order = require "tperf.question.rank_order"
local rules = require("tperf.describe.rules.sets").of
local stored = require "tperf.describe.stored"
local strategy = require "tperf.describe.strategy"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")

local serving = {}

local CACHED <const> = 512 -- shapes and the like
local FIELDS <const> = 48 -- of arguments

-- Bytes of an element, and the dtype name that ops use: 4 bits take the same room whatever the format.
local BYTES = { fp32 = 4, fp16 = 2, bf16 = 2, fp8 = 1, int8 = 1, fp4 = 0.5, int4 = 0.5 }
local op_dtype = { int4 = "fp4" }

local size = check.integer { min = 1, max = 1 << 31, default = 1 }
local optional_size = check.integer { min = 1, max = 1 << 31, optional = true }

--- The fields that both questions have.
serving.schema = arguments.schema "infer"
serving.size, serving.optional_size = size, optional_size

local usual = rules()

--- Adds the fields of a strategy to a schema: the sizes of its axes, and its options that apply to serving.
function serving.add_strategy(schema, s, axis_checker)
  for _, axis in ipairs(s.axes) do
    if axes.shows(axis, 0) then schema[axis.name] = axis_checker end
  end
  for name, option in pairs(s.options) do
    if option.serves then schema[name] = check.choice { option.choices, optional = true } end
  end
  schema.strategy = check.any { optional = true }
end

--- The fields of a question about a strategy: those of both questions, its axes and its options.
function serving.schema_of(s, axis_checker)
  local schema = {}
  for name, checker in pairs(serving.schema) do schema[name] = checker end
  serving.add_strategy(schema, s, axis_checker)
  return schema
end

-- What is remembered of a model: model -> rules' name and attention -> { layout, shapes, sized }.
local known = setmetatable({}, { __mode = "k" })

local function plan_of(m, s, set, attention, weights)
  local plans, key = known[m] or {}, table.concat({ set.name, attention, s.name, weights and weights.key or "",
    captured.of_strategy(s) }, " ")
  known[m] = plans
  plans[key] = plans[key]
    or { layout = workload.of(m, s, attention, set, { precision = weights }), shapes = memo.by_text(CACHED),
      sized = memo.by_text(CACHED) }
  return plans[key]
end

--- Turns checked arguments into a problem: model, system, rules and cached layouts.
---@return table problem  { what, o = a copy of the arguments with their dtypes filled in, model, system, strategy,
---  rules, weights = of tperf.describe.stored, passes = whether the model is an encoder, plan, price,
---  placed = of tperf.question.placement }
---@param order string?  the engine's order of ranks, if its software says
function serving.problem(what, given, order)
  local o = core.resource.sized(FIELDS)
  for name, value in next, given do o[name] = value end
  local p = { what = what, o = o, model = model(o.model), system = system(o.system) }
  p.rules, p.strategy = o.rules and rules(o.rules) or usual, axes.asked(o)
  placement.check(what, o)
  p.placed = placement.of(o, p.rules, { p.strategy }, order or rank_order.SERVING)
  check_served(what, p.model, p.strategy, o, p.rules)
  p.passes = rawget(p.model, "encoder") ~= nil
  p.weights = stored.fill(what, o, p.model, p.system)
  o.state_dtype = o.state_dtype or p.model.state_dtype
  p.plan = plan_of(p.model, p.strategy, p.rules, o.attention, p.weights)
  p.price = o.gpu_hour or p.system.price and p.system.price.gpu_hour
  return p
end

-- What the layers' description says that they keep; an encoder's nothing, as no token follows.
local function described_caches(p, sizes)
  local o, list = p.o, {}
  local share = strategy.share(p.strategy, p.model, 1, sizes, p.rules,
    { mode = "decode", seq = 1, state_dtype = o.state_dtype })
  for i, kind in ipairs(p.plan.layout.kinds) do
    local one = cache.of(p.model, share, kind)
    list[i] = {
      section = i, token_bytes = p.passes and 0 or one.elements * BYTES[o.kv_dtype],
      most_tokens = one.tokens or 0,
      state_bytes = one.state_bytes,
    }
  end
  return list
end

--- What the layers keep of a sequence, on one GPU: of an architecture, what its ops say.
---@param p table  a problem
---@param sizes integer[]  of the strategy's axes
---@return { section: integer, token_bytes: number, most_tokens: number, state_bytes: number }[] list  section: the
---  number of a kind of layer, then the first and the last end; most_tokens: 0 = all
function serving.caches(p, sizes)
  if not p.model.architecture then return described_caches(p, sizes) end
  return p.plan.layout.caches(sizes, function(context)
    return serving.variant(p.strategy, p.o, "decode", 1, context)
  end)
end

--- The values of a strategy's options, as text for a cache key.
function serving.chosen(s, o)
  local list = {}
  for i, name in ipairs(s.option_names) do list[i] = tostring(o[name]) end
  return table.concat(list, " ")
end

--- The variant of a strategy's workloads for `seq` new tokens of each sequence after `context` earlier ones.
function serving.variant(s, o, mode, seq, context)
  local variant = {
    recompute = "none", sequence_parallel = mode == "prefill" and o.sequence_parallel or false, mode = mode, seq = seq,
    context = context, weight_dtype = op_dtype[o.weight_dtype] or o.weight_dtype,
    kv_dtype = op_dtype[o.kv_dtype] or o.kv_dtype, matrix_dtype = o.other_dtype, sampling = o.sampler,
    delta = o.delta, eager_ops = o.eager_ops, state_dtype = o.state_dtype,
    logits = mode == "prefill" and o.logits == "all" and "all" or nil,
  }
  for _, name in ipairs(s.option_names) do variant[name] = o[name] end
  return variant
end

-- Numbers of keys between which the counts of a decode step are affine, and the steps with as many.
local function decode_steps(p, sizes, micro_batch)
  local o, laid = p.o, p.plan.layout
  local function variant(tokens) return serving.variant(p.strategy, o, "decode", 1, tokens) end
  if laid.steps then
    local step_of, first, last = laid.steps(sizes, micro_batch, variant(0)), o.prompt + 1, o.prompt + o.generate - 1
    local bends = p.plan.bends
    if not (bends and bends.first == first and bends.last == last) then bends = { first = first, last = last } end
    p.plan.bends = bends
    local keys, steps = contexts.of(first, last, function(n) return step_of(n - 1) end, bends.keys)
    bends.keys = keys
    return keys, steps
  end
  local keys, steps = lengths(laid.kinds, o.prompt + o.generate), {}
  for i, n in ipairs(keys) do steps[i] = laid.workload(sizes, micro_batch, variant(n - 1)) end
  return keys, steps
end

local function lay_out(p, sizes, pp, micro_batch, prefill_batch)
  local o, laid = p.o, p.plan.layout
  local function step_of(batch, mode, seq, context)
    return laid.workload(sizes, batch, serving.variant(p.strategy, o, mode, seq, context))
  end
  return {
    prefill = step_of(prefill_batch, "prefill", o.prompt, 0), single = step_of(1, "decode", 1, 0),
    decode = o.generate > 1 and core.decode(decode_steps(p, sizes, micro_batch)) or nil,
    caches = serving.caches(p, sizes),
    placements = {}, -- size of a domain and order of ranks -> those without demands
    pipelines = pipelines.make {
      pps = { pp }, schedules = { "1f1b" }, virtual_stages = {}, layers = p.model.layers, runs = laid.runs,
      has_ends = laid.has_ends,
    },
  }
end

--- What the blocks of an architecture leave out of prompts and steps laid out so; nil: nothing.
---@param p table
---@param own integer[]  sizes of the strategy's axes
---@param prompt integer
---@return string[]?
function serving.warnings(p, own, prompt)
  local layout, o, list, told = p.plan.layout, p.o, {}, {}
  if not layout.warnings then return nil end
  for _, mode in ipairs { "prefill", "decode" } do
    local variant = mode == "prefill" and serving.variant(p.strategy, o, mode, prompt, 0)
      or serving.variant(p.strategy, o, mode, 1, prompt)
    for _, text in ipairs(layout.warnings(own, 1, variant) or {}) do
      if not told[text] then list[#list + 1], told[text] = text, true end
    end
  end
  return list[1] and list or nil
end

local POSITIONS <const> = {} -- 1, 2 … as many as values decide a shape

local function shape_of(p, c, own, micro_batch)
  local o, s = p.o, p.strategy
  local deciding = { c.pp, micro_batch, c.prefill_batch, o.prompt, o.generate, o.weight_dtype, o.kv_dtype,
    o.compute_dtype, o.state_dtype or false, o.sequence_parallel, o.logits or false }
  local fixed, n = #deciding, #own
  table.move(own, 1, n, fixed + 1, deciding)
  for i, name in ipairs(s.option_names) do deciding[fixed + n + i] = o[name] or false end
  for i = #POSITIONS + 1, #deciding do POSITIONS[i] = i end
  return p.plan.shapes(core.resource.words(deciding, POSITIONS), function()
    return lay_out(p, own, c.pp, micro_batch, c.prefill_batch)
  end)
end

--- One GPU's share, for questions about sizes; c: sizes by axis name.
function serving.share(p, c)
  local options = { sequence_parallel = p.o.sequence_parallel or false }
  for _, name in ipairs(p.strategy.option_names) do options[name] = p.o[name] end
  local share = strategy.share(p.strategy, p.model, 1, {}, p.rules, options)
  for _, name in ipairs(p.strategy.axis_names) do share[name] = c[name] end
  return share
end

--- The sizes of the strategy's axes; sets those that c leaves open to their defaults.
---@return integer[] own
function serving.own_sizes(p, c)
  local own, share = {}, nil
  for i, axis in ipairs(p.strategy.axes) do
    if c[axis.name] == nil then
      if not share then
        share = serving.share(p, {})
        for j = 1, i - 1 do share[p.strategy.axis_names[j]] = own[j] end
      end
      c[axis.name] = axes.default(axis, p.model, share, p.rules)
    end
    own[i] = c[axis.name]
    if share then share[axis.name] = own[i] end
  end
  return own
end

--- The number of parts into which the axes cut a prompt.
function serving.shards(p, c)
  local share, shards = serving.share(p, c), 1
  if p.o.sequence_parallel then return p.strategy.sequence_shards(share) end
  for _, axis in ipairs(p.strategy.axes) do
    if axes.cuts(axis, "tokens") then shards = shards * c[axis.name] end
  end
  return shards
end

-- The placements to try: one, unless the fastest is asked for.
local function placements_of(p, c, own, shape)
  if c.parts then return { c.parts } end
  local s, domain, what = p.strategy, p.system.network.fast.domain, p.what .. ": "
  local order = p.placed.orders and p.placed.orders[s]
  local function all()
    if not order then return placement.all(what, s, own, c, domain) end
    return { rank_order.place(what, s, order, own, placement.sharing(s, own), c.pp, domain) }
  end
  if c.fast then return all() end
  local key = order and domain .. order.text or domain
  shape.placements[key] = shape.placements[key] or all()
  return shape.placements[key]
end

--- What a choice { pp, dp, batch, prefill_batch, fast or parts } with sizes of the strategy's axes is evaluated
--- with. fast: the parts of domains asked for; parts: of all axes, as the placement of another choice has them. Without
--- both, as the question places its GPUs: in the stack's order of ranks, or with the least latency.
---@return table laid { own, shape, run, placements }, which nothing changes
function serving.lay_out(p, c)
  local o = p.o
  local microbatches = math.min(c.pp, c.batch)
  local micro_batch = (c.batch + microbatches - 1) // microbatches
  local own = serving.own_sizes(p, c)
  local shape = shape_of(p, c, own, micro_batch)
  return { own = own, shape = shape, placements = placements_of(p, c, own, shape), run = {
    batch = c.batch, prefill_batch = c.prefill_batch, micro_batch = micro_batch, microbatches = microbatches,
    prompt = o.prompt, generate = o.generate, reserved = o.reserve,
  } }
end

--- What a problem's kernels run on, as timed in isolation.
function serving.platform(p)
  if p.platform_of ~= p.system then
    p.platform_of, p.platform = p.system, core.platform(p.system, p.rules, nil, true)
  end
  return p.platform
end

--- The record of a choice, whether it fits or not, as it was laid out; its shape and its placement, which nothing
--- changes.
---@param laid table?  of serving.lay_out
---@return table record, table shape, integer[] placement
function serving.evaluate(p, c, laid)
  local o, s = p.o, p.strategy
  laid = laid or serving.lay_out(p, c)
  local own, shape, microbatches = laid.own, laid.shape, laid.run.microbatches
  local r, chosen = core.infer(serving.platform(p), shape, laid.placements, laid.run)
  local fast = laid.placements[chosen]
  local groups = (c.batch + c.prefill_batch - 1) // c.prefill_batch
  local prompts = groups * r.prefill_busiest
  local steps = r.decode.time
  local replicas = c.dp * s.grid:batch(own)
  r.strategy, r.pp, r.dp, r.gpus = s.name, c.pp, c.dp, s.grid:gpus(own) * c.pp * c.dp
  r.fast = { dp = fast[1], pp = fast[2] }
  for i, axis in ipairs(s.axes) do
    if axes.shows(axis, own[i]) then r[axis.name], r.fast[axis.name] = own[i], fast[2 + i] end
  end
  placement.tell(r, p.placed, s)
  axes.tell_options(r, s, o)
  r.batch, r.sequences = c.batch, c.batch * replicas
  r.prefill_batch, r.microbatches, r.prompt, r.generate = c.prefill_batch, microbatches, o.prompt, o.generate
  r.software, r.precision = "none", p.weights and p.weights.name or o.weight_dtype
  r.ttft = r.prefill.time
  r.tpot = shape.decode and steps / (o.generate - 1) or nil
  r.latency = r.ttft + steps
  figures.add_steady(r, o, groups, steps)
  r.tokens_per_second = r.sequences * o.generate / (prompts + steps)
  r.tokens_per_second_per_gpu = r.tokens_per_second / r.gpus
  r.total_tokens_per_second = r.sequences * (o.prompt + o.generate) / (prompts + steps)
  r.prefill_tokens_per_second = replicas * c.prefill_batch * o.prompt / r.prefill_busiest
  r.decode_tokens_per_second = r.tpot and r.sequences / r.tpot
  r.memory.capacity = visible_memory(p.system) * (1 - o.reserve)
  r.feasible = c.batch <= r.max_batch
  figures.add_cost(r, p, replicas, prompts, steps)
  if p.passes then figures.of_passes(r) end
  return r, shape, fast
end

return serving
