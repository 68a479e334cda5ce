--- tperf.infer: latency, throughput, memory and cost of one way to serve a model. docs/inference.md.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local core = require "tperf.core"
local nearest = require "tperf.base.nearest"
local placement = require "tperf.question.placement"
local problem = require "tperf.question.problem"
local refusal = require "tperf.base.refusal"
local serving = require "tperf.question.infer.deployment"
local stated = require "tperf.describe.model.stated"
local units = require "tperf.base.units"
local questions = require "tperf.question.ranks.questions"
local warnings = require "tperf.question.warnings"

local infer = {}

local placed = serving.optional_size

local schema_of = check.once(function(s)
  local schema, fast = serving.schema_of(s, serving.optional_size), { pp = placed, dp = placed }
  for _, name in ipairs(s.axis_names) do fast[name] = placed end
  schema.pp, schema.dp, schema.batch = serving.size, serving.optional_size, serving.size
  schema.fast = check.record_of(fast, { optional = true })
  schema.ops = check.boolean { default = false }
  return schema
end)

--- Why a size of an axis is not admitted; nil if it is. given: sizes by axis, with those of the axes before it.
function infer.refusal(p, axis, given)
  local share = serving.share(p, given)
  if share[axis.name] == nil then share[axis.name] = axes.default(axis, p.model, share, p.rules) end
  local admitted, reason = axis.admits(p.model, share, p.rules)
  return not admitted and (reason or "is not admitted") or nil
end

local function allowed(p, axis, c)
  local most = axis.folds and (p.model.experts and p.model.experts.count or 1) or p.model.heads or p.model.hidden
  return nearest.sizes(function(n)
    local tried = setmetatable({ [axis.name] = n }, { __index = c })
    return not infer.refusal(p, axis, tried)
  end, most, c[axis.name])
end

local function check_shares(p, c, own)
  if p.strategy.grid:folds(own, c.dp) then return end
  local sharing = placement.sharing(p.strategy, own)
  local names, product = {}, 1
  for i, axis in ipairs(p.strategy.axes) do
    if axis.folds and axes.shows(axis, own[i]) then
      names[#names + 1], product = ("%s = %d"):format(axis.name, own[i]), product * own[i]
    end
  end
  refusal.raise("tperf.infer: %s take %d GPUs, which do not divide the %d of 'dp' = %d replicas; 'dp' must be a "
    .. "multiple of %d", table.concat(names, " and "), product, p.strategy.grid:gpus(own) * c.dp, c.dp, sharing)
end

-- Refuses sizes that the model, the strategy and the prompt do not admit; those that c leaves open are set.
local function check_new_sizes(p, c)
  local own = serving.own_sizes(p, c)
  for _, axis in ipairs(p.strategy.axes) do
    local reason = c[axis.name] > 1 and infer.refusal(p, axis, c)
    if reason then
      refusal.raise("tperf.infer: '%s' = %d %s; %s", axis.name, c[axis.name], reason, allowed(p, axis, c))
    end
  end
  local admitted, why = stated.admits(p.model, p.strategy, c)
  if not admitted then refusal.raise("tperf.infer: %s", why) end
  if c.pp > p.model.layers then
    refusal.raise("tperf.infer: 'pp' = %d is more than the model's %d layers", c.pp, p.model.layers)
  end
  local gpus = p.strategy.grid:gpus(own)
  c.dp = c.dp or gpus and placement.sharing(p.strategy, own) or 1
  if not gpus or gpus > (1 << 31) // c.pp or gpus * c.pp > (1 << 31) // c.dp then
    refusal.raise("tperf.infer: 'pp' x 'dp' x the strategy's axes is more than 2^31 GPUs")
  end
  check_shares(p, c, own)
  local shards = serving.shards(p, c)
  if p.o.prompt % shards ~= 0 then
    refusal.raise("tperf.infer: 'prompt' = %d is not divided by the %d GPUs that cut it; %s", p.o.prompt, shards,
      nearest.divisors(p.o.prompt, shards))
  end
end

-- What decides whether sizes are admitted: arguments of both tperf.infer and its strategy.
local deciding_of = check.once(function(s)
  local names = { "pp", "dp", "prompt", "sequence_parallel" }
  table.move(s.axis_names, 1, #s.axis_names, #names + 1, names)
  return table.move(s.option_names, 1, #s.option_names, #names + 1, names)
end)

-- The same, of which what was admitted once is remembered.
local function check_sizes(p, c)
  if c.prefill_batch > c.batch then
    refusal.raise("tperf.infer: 'prefill_batch' = %d is more than 'batch' = %d", c.prefill_batch, c.batch)
  end
  local sizes = p.plan.sized(core.resource.words(c, deciding_of(p.strategy)), function()
    check_new_sizes(p, c)
    local found = { dp = c.dp }
    for _, name in ipairs(p.strategy.axis_names) do found[name] = c[name] end
    return found
  end)
  for name, size in next, sizes do c[name] = size end
end

local SIZES <const> = { 2, 4, 8, 16, 32, 64, 128, 256 } -- to try of an axis

-- Single changes that may make one sequence fit: { name, values … }. Axes that multiply GPUs come before folded ones;
-- axes with a default of their own follow the others and are left out.
local function changes_of(s)
  local list, folded = { { "weight_dtype", "fp8", "int4" } }, {}
  local function add(to, name) to[#to + 1] = table.move(SIZES, 1, #SIZES, 2, { name }) end
  for _, axis in ipairs(s.axes) do
    if axes.shows(axis) and not axis.default then add(axis.folds and folded or list, axis.name) end
  end
  add(list, "pp")
  return table.move(folded, 1, #folded, #list + 1, list)
end

local function fits_with(o, s, name, value)
  local changed = { batch = 1, prefill_batch = 1 }
  for field, old in pairs(o) do changed[field] = changed[field] or old end
  changed[name] = value
  for _, axis in ipairs(s.axes) do
    if axis.default and s.index[name] then changed[axis.name], changed.dp = nil, nil end
  end
  return refusal.attempt(function()
    local p = serving.problem("tperf.infer", changed)
    check_sizes(p, changed)
    return serving.evaluate(p, changed).feasible
  end)
end

local function advice(o)
  local list, s = {}, axes.asked(o, true)
  for _, change in ipairs(changes_of(s)) do
    for i = 2, #change do
      local name, value = change[1], change[i]
      local known = name == "weight_dtype" or o[name] ~= nil
      if known and (math.type(value) == nil or value > o[name]) and fits_with(o, s, name, value) then
        list[#list + 1] = ("%s = %s"):format(name, check.show(value))
        break
      end
    end
  end
  return #list > 0 and "it would with " .. table.concat(list, ", or ") or "try more tp and pp, and smaller dtypes"
end

local function refuse(r, o)
  local m = r.memory
  local function bytes(n) return units.format(n, "bytes") end
  local remedy = r.max_batch > 0 and ("the largest batch that fits is %d"):format(r.max_batch)
    or "not even one sequence fits; " .. advice(o)
  refusal.raise("tperf.infer: 'batch' = %d does not fit: it needs %s per GPU (weights %s, cache %s, buffers %s), %s "
    .. "more than the %s there are; %s", r.batch, bytes(m.total), bytes(m.weights), bytes(m.cache), bytes(m.buffers),
    bytes(m.total - m.capacity), bytes(m.capacity), remedy)
end

-- The resource that limits an op: launch, compute, memory or network.
local function bound_by(row, accelerator, times)
  local launch, hbm = times * accelerator.launch, accelerator.hbm
  local memory = row.bytes / (hbm.bandwidth * hbm.efficiency)
  local best, most = "compute", row.compute_time - launch
  for _, other in ipairs { { "memory", memory }, { "network", row.comm_time }, { "launch", launch } } do
    if other[2] > most then best, most = other[1], other[2] end
  end
  return best
end

local function add_rows(rows, phase, part, layers, ops, accelerator)
  for _, op in ipairs(ops) do
    local pass = op.forward or op
    local row = {
      phase = phase, part = part, layers = layers, block = op.block, name = op.name, weight_bytes = op.weight_bytes,
      time = pass.time, compute_time = pass.compute_time, exposed_memory_time = pass.exposed_memory_time,
      comm_time = pass.comm_time, flops = pass.tensor_flops + pass.vector_flops, bytes = pass.bytes,
    }
    row.intensity = row.bytes > 0 and row.flops / row.bytes or nil
    row.bound = bound_by(row, accelerator, op.times or 1)
    rows[#rows + 1] = row
  end
end

local SUMMED <const> = { "time", "compute_time", "exposed_memory_time", "comm_time", "tensor_flops", "vector_flops",
  "bytes" }

-- The ops of all forms of a decode step as one list: an op of several forms is one.
local function merged(ops)
  local list, known, form, seen = {}, {}, 0, {}
  for _, op in ipairs(ops) do
    if op.form ~= form then form, seen = op.form, {} end
    local name = op.block .. " " .. op.name
    seen[name] = (seen[name] or 0) + 1
    name = name .. " " .. seen[name]
    local first = known[name]
    if first then
      for _, field in ipairs(SUMMED) do first[field] = first[field] + op[field] end
    else
      known[name], list[#list + 1] = op, op
    end
  end
  return list
end

-- The ops of both phases: those of each kind of layer, then those before and after the layers.
local function rows_of(p, shape, fast)
  local o, rows, kinds, on = p.o, {}, p.plan.layout.kinds, serving.platform(p)
  local counts = {}
  for _, run in ipairs(p.plan.layout.runs) do counts[run[1]] = (counts[run[1]] or 0) + run[2] end
  for _, phase in ipairs { "prefill", "decode" } do
    for section = 1, shape[phase] and #kinds + 2 or 0 do
      local kind = kinds[section]
      local part = kind and kind.key or section == #kinds + 1 and "first" or "last"
      local ops = phase == "prefill" and shape.prefill:ops(section, on, fast)
        or merged(shape.decode:ops(section, on, fast, o.prompt + 1, o.prompt + o.generate - 1))
      add_rows(rows, phase, part, counts[section] or 1, ops, p.system.accelerator)
    end
  end
  return rows
end

-- Everything that decides the answer: { o = checked arguments, p = problem, laid }.
local function prepare(given)
  local s = axes.asked(given, true)
  problem.refuse_axes("tperf.infer", given, { s })
  local o = check.record("tperf.infer", given, schema_of(s))
  o.strategy = s
  local p = serving.problem("tperf.infer", o)
  if p.passes and given.prefill_batch == nil then o.prefill_batch = o.batch end
  check_sizes(p, o)
  return { o = o, p = p, laid = serving.lay_out(p, o) }
end

--- The latency, throughput, memory and cost of one way to serve a model, for a static batch that starts at once, or one
--- that is always full (steady); tperf.serve simulates arrivals and queues. Times in seconds, sizes in bytes.
---@param given table  the arguments of serving (tperf.question.serving_arguments), and
---  fast                   GPUs of each axis in one fast domain: { tp =, ep =, pp = }, in place of the order of ranks;
---                         axes left open are placed with the least latency
---  ops                    whether to list ops (false)
---@return table record
---  ttft, tpot, latency    time to the first token of prefill_batch prompts; mean time of each further token (nil
---                         without any); time of all tokens of a request
---  steady                 { tpot, latency, interruptions } of a batch that is always full, where decode steps wait for
---                         the prompts of requests that replace others; interruptions: their total seconds.
---                         Prompts run in steps of their own: an engine that mixes them with decodes lies between
---                         tpot and steady.tpot
---  first_step, last_step  seconds of the first and the last decode step
---  tokens_per_second      output tokens of all replicas, over the time of prompts and steps; _per_gpu; total_ counts
---                         prompts' tokens, too; prefill_ and decode_ are those of each phase by itself
---  memory                 of the fullest GPU: { weights, cache, buffers, total, capacity }; max_batch
---  cache_sequence         the cache of one sequence, on one GPU of each stage
---  prefill, decode        { time, compute, memory, tensor_comm, pipeline_comm, wait } of one prefill, of all steps
---  cost                   dollars per million tokens { input, output, total, generated }; energy_per_token (J)
---  warnings               sentences: what of the model the figures take for granted; nil: nothing
---  sequences_per_second   of an encoder (embedding, reranking), which reads each batch in one pass: 'generate' is 1,
---                         'prefill_batch' the batch by default; ttft and latency are those of a batch,
---                         tokens_per_second counts the tokens read, and nothing is cached
---  ops                    { phase, part, layers, block, name, time, compute_time, exposed_memory_time, comm_time,
---                         flops, bytes, intensity, bound, weight_bytes } of one layer or end, averaged over steps
function infer.run(given)
  local t = prepare(given)
  local o, p = t.o, t.p
  local r, shape, fast = serving.evaluate(p, o, t.laid)
  if not r.feasible then refuse(r, o) end
  r.warnings = warnings.with(warnings.of_model(p.model, p.o), serving.warnings(p, t.laid.own, o.prompt))
  if o.ops then r.ops = rows_of(p, shape, fast) end
  return r
end

questions.register("infer", infer.run)

return infer
