--- tperf.infer: how one way of serving a model answers: latency, throughput, memory, cost. docs/inference.md.
local check = require "tperf.check"
local nearest = require "tperf.nearest"
local refusal = require "tperf.refusal"
local serving = require "tperf.serving"
local strategy = require "tperf.strategy"
local units = require "tperf.units"

local infer = {}

local placed = serving.optional_size
local schema = {
  tp = serving.size, pp = serving.size, ep = serving.size, dp = serving.optional_size, batch = serving.size,
  fast = check.record_of({ tp = placed, ep = placed, pp = placed }, { optional = true }),
  ops = check.boolean { default = false },
}
for name, checker in pairs(serving.schema) do schema[name] = checker end

local tensor = strategy.of "tensor"

--- Why a size of an axis is not admitted; nil when it is. given: the sizes of the axes before it, too.
function infer.refusal(p, axis, given)
  local share = strategy.share(tensor, p.model, 1, { given.tp, given.ep }, p.rules)
  local admitted, reason = axis.admits(p.model, share, p.rules)
  return not admitted and (reason or "is not admitted") or nil
end

local function allowed(p, axis, c)
  local tensor_axis = axis.name == "tp"
  local most = tensor_axis and (p.model.heads or p.model.hidden) or p.model.experts and p.model.experts.count or 1
  return nearest.sizes(function(n)
    return not infer.refusal(p, axis, tensor_axis and { tp = n, ep = 1 } or { tp = c.tp, ep = n })
  end, most, c[axis.name])
end

local function check_sizes(p, c)
  for _, axis in ipairs(tensor.axes) do
    local reason = c[axis.name] > 1 and infer.refusal(p, axis, c)
    if reason then
      refusal.raise("tperf.infer: '%s' = %d %s; %s", axis.name, c[axis.name], reason, allowed(p, axis, c))
    end
  end
  if c.pp > p.model.layers then
    refusal.raise("tperf.infer: 'pp' = %d is more than the model's %d layers", c.pp, p.model.layers)
  end
  if c.dp % c.ep ~= 0 then
    refusal.raise("tperf.infer: 'ep' = %d does not divide 'dp' = %d; %s", c.ep, c.dp, nearest.divisors(c.dp, c.ep))
  end
  if c.tp > (1 << 31) // c.pp or c.tp * c.pp > (1 << 31) // c.dp then
    refusal.raise("tperf.infer: 'tp' x 'pp' x 'dp' is more than 2^31 GPUs")
  end
  if c.prefill_batch > c.batch then
    refusal.raise("tperf.infer: 'prefill_batch' = %d is more than 'batch' = %d", c.prefill_batch, c.batch)
  end
  if p.o.sequence_parallel and p.o.prompt % c.tp ~= 0 then
    refusal.raise("tperf.infer: 'prompt' = %d is not divided by 'tp' = %d, as sequence_parallel wants; %s", p.o.prompt,
      c.tp, nearest.divisors(p.o.prompt, c.tp))
  end
end

-- Single changes with which one sequence fits, least first, found by trying: { name, values … }.
local CHANGES = {
  { "weight_dtype", "fp8", "int4" }, { "tp", 2, 4, 8, 16, 32, 64 }, { "pp", 2, 4, 8, 16, 32, 64 },
  { "ep", 2, 4, 8, 16, 32, 64, 128, 256 },
}

local function fits_with(o, name, value)
  local changed = { batch = 1, prefill_batch = 1 }
  for field, old in pairs(o) do changed[field] = changed[field] or old end
  changed[name] = value
  if name == "ep" then changed.dp = value end
  return refusal.attempt(function()
    local p = serving.problem("tperf.infer", changed)
    check_sizes(p, changed)
    return serving.evaluate(p, changed).feasible
  end)
end

local function advice(o)
  local list = {}
  for _, change in ipairs(CHANGES) do
    for i = 2, #change do
      local name, value = change[1], change[i]
      if (math.type(value) == nil or value > o[name]) and fits_with(o, name, value) then
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

-- What holds an op up most: launch, compute, memory or network.
local function bound_by(row, accelerator)
  local launch, hbm = accelerator.launch, accelerator.hbm
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
    row.bound = bound_by(row, accelerator)
    rows[#rows + 1] = row
  end
end

-- The ops of both phases: of each kind of layer, then before and after the layers.
local function rows_of(p, r, shape)
  local o, rows, kinds, fast = p.o, {}, p.plan.layout.kinds, { r.fast.tp, r.fast.ep }
  local counts = {}
  for _, run in ipairs(p.plan.layout.runs) do counts[run[1]] = (counts[run[1]] or 0) + run[2] end
  for _, phase in ipairs { "prefill", "decode" } do
    for section = 1, shape[phase] and #kinds + 2 or 0 do
      local kind = kinds[section]
      local part = kind and kind.key or section == #kinds + 1 and "first" or "last"
      local ops = phase == "prefill" and shape.prefill:ops(section, p.system, p.rules, fast, 1, true)
        or shape.decode:ops(section, p.system, p.rules, fast, o.prompt + 1, o.prompt + o.generate - 1)
      add_rows(rows, phase, part, counts[section] or 1, ops, p.system.accelerator)
    end
  end
  return rows
end

--- How one way of serving a model answers, statically: one batch that starts at once, or one that is always full
--- (steady); no arrivals and no queue, which tperf.serve simulates. Times in seconds, sizes in bytes.
---@param given table
---  model, system          a name, a file, a table
---  prompt, generate       tokens that a request brings and wants
---  batch                  sequences that one replica decodes at a time (1)
---  prefill_batch          prompts that it takes in at a time (1)
---  tp, pp                 GPUs of a replica: that cut layers, that hold layers in turn (1)
---  ep                     replicas that share experts, and so run in step (1)
---  dp                     replicas, a multiple of ep (ep)
---  weight_dtype, kv_dtype  how weights and the cache are stored ("bf16"; fp32, fp16, fp8, int8, fp4, int4)
---  compute_dtype          in which products with weights multiply ("bf16"; fp16, fp8, int8, fp4)
---  attention              "flash" (default), "unfused"
---  sequence_parallel      whether tp cuts the residual stream of prompts by tokens (false)
---  fast                   GPUs of each axis in one fast domain: { tp =, ep =, pp = }; as many as fit
---  reserve                part of the HBM that stays free (0.1)
---  gpu_hour               dollars per GPU-hour, in place of the system's price
---  rules                  "default"
---  ops                    whether to list ops (false)
---@return table record
---  ttft, tpot, latency    to the first token of prefill_batch prompts; of each further token, on average (nil
---                         without); of all tokens of a request
---  steady                 { tpot, latency, interruptions } of a batch that is always full, where decode steps wait for
---                         the prompts of requests that take the place of others; interruptions: how long in all.
---                         Prompts have steps of their own: an engine that mixes them with decodes is between
---                         tpot and steady.tpot
---  first_step, last_step  the first and the last decode step
---  tokens_per_second      generated by all replicas, prompts included in the time; _per_gpu; total_ with prompts'
---                         tokens; prefill_ and decode_ of each phase on its own
---  memory                 of the fullest GPU: { weights, cache, buffers, total, capacity }; max_batch
---  cache_sequence         the cache of one sequence, on one GPU of each stage
---  prefill, decode        { time, compute, memory, tensor_comm, pipeline_comm, wait } of one prefill, of all steps
---  cost                   dollars per million tokens { input, output, total, generated }; energy_per_token (J)
---  ops                    { phase, part, layers, block, name, time, compute_time, exposed_memory_time, comm_time,
---                         flops, bytes, intensity, bound, weight_bytes } of one layer or end, averaged over steps
function infer.run(given)
  local o = check.record("tperf.infer", given, schema)
  local p = serving.problem("tperf.infer", o)
  o.dp = o.dp or o.ep
  check_sizes(p, o)
  local r, shape = serving.evaluate(p, o)
  if not r.feasible then refuse(r, o) end
  if o.ops then r.ops = rows_of(p, r, shape) end
  return r
end

return infer
