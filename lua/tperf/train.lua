--- tperf.train: one training configuration, explained op by op.
local check = require "tperf.check"
local configuration = require "tperf.configuration"
local layer = require "tperf.layer"
local layout = require "tperf.layout"
local model = require "tperf.model"
local rules = require "tperf.rules"
local simulate = require "tperf.simulate"
local search = require "tperf.search"
local strategy = require "tperf.strategy"
local system = require "tperf.system"

local size = check.integer { min = 1, max = 1 << 31, default = 1 }
local optional_size = check.integer { min = 1, max = 1 << 31, optional = true }

local function schema_of(s)
  local schema, fast = layer.axis_fields(s, size)
  fast.dp, fast.pp = optional_size, optional_size
  schema.model, schema.system = check.any(), check.any()
  schema.strategy, schema.rules = check.any { optional = true }, check.any { optional = true }
  schema.attention = layout.attention_checker
  schema.global_batch = check.integer { min = 1, max = 1 << 31 }
  schema.micro_batch, schema.pp = size, size
  schema.gpus, schema.dp, schema.panels, schema.seq = optional_size, optional_size, optional_size, optional_size
  schema.fast = check.record_of(fast, { optional = true })
  schema.simulate = simulate.options
  return schema
end

local function divide(whole, part, what, whole_name)
  if whole % part ~= 0 then
    check.fail("tperf.train: %s = %d does not divide %s of %d", what, part, whole_name, whole)
  end
  return whole // part
end

-- gpus and dp follow from each other.
local function complete_sizes(o, s)
  local product = o.pp
  for _, name in ipairs(s.axis_names) do
    if o[name] > (1 << 31) // product then check.fail("tperf.train: more than 2^31 GPUs") end
    product = product * o[name]
  end
  if not o.dp then o.dp = o.gpus and divide(o.gpus, product, "the product of all axes but dp", "'gpus'") or 1 end
  if o.dp > (1 << 31) // product then check.fail("tperf.train: more than 2^31 GPUs") end
  if o.gpus and o.gpus ~= product * o.dp then
    check.fail("tperf.train: 'gpus' is %d, but the axes multiply to %d", o.gpus, product * o.dp)
  end
  o.gpus = product * o.dp
end

local function check_divisions(o, s, network, set)
  divide(network.layers, o.pp, "pp", "the model's layers")
  local replica = divide(o.global_batch, o.dp, "dp", "'global_batch'")
  divide(replica, o.micro_batch, "micro_batch", "the global batch of one replica,")
  local share = strategy.share(s, network, o.micro_batch, {}, set)
  for _, axis in ipairs(s.axes) do
    share[axis.name] = o[axis.name]
    local admitted, reason = axis.admits(network, share, set)
    if not admitted then check.fail("tperf.train: %s = %d %s", axis.name, o[axis.name], reason or "is not admitted") end
  end
  local shards = s.sequence_shards(share)
  divide(set.shards_divide_sequence and network.seq or o.micro_batch * network.seq, shards,
    "the number of sequence shards", "the sequence")
  return share
end

-- Every placement given: no search. Otherwise the fastest placement of these sizes that fits what is given.
local function placed(o, s, question, sizes)
  local fast, given = {}, o.fast or {}
  local domain, used, all = question.system.network.fast.domain, 1, given.dp and given.pp
  for i, name in ipairs(s.axis_names) do
    fast[i] = given[name]
    all = all and given[name]
  end
  if not all then return nil end
  local function take(name, whole)
    divide(whole, given[name], "fast." .. name, name)
    if given[name] > domain // used then
      check.fail("tperf.train: the placement takes more GPUs than the %d of a fast domain", domain)
    end
    used = used * given[name]
  end
  for i, name in ipairs(s.axis_names) do take(name, sizes[i]) end
  take("dp", o.dp)
  take("pp", o.pp)
  return {
    sizes = sizes, fast = fast, dp = o.dp, pp = o.pp, dp_fast = given.dp, pp_fast = given.pp,
    micro_batch = o.micro_batch,
  }
end

-- That candidate with the fastest of these numbers of panels.
local function fastest(question, s, built, found, panels)
  local best
  for _, number in ipairs(panels) do
    found.panels = number
    local c = configuration.of(question, s, built, found)
    if not best or c.time < best.time then best = c end
  end
  return best
end

local function best_placement(o, s)
  local request = {
    model = o.model, system = o.system, strategy = o.strategy, attention = o.attention, rules = o.rules, seq = o.seq,
    gpus = o.gpus, global_batch = o.global_batch, micro_batch = o.micro_batch, panels = o.panels, pp = o.pp,
    dp = o.dp, fast = o.fast, top = 1, infeasible = true,
  }
  for _, name in ipairs(s.axis_names) do request[name] = o[name] end
  local found = search.run(request)
  return found[1] or check.fail("tperf.train: no placement: %s", found.reason)
end

local function stages_of(c, network)
  local stages = {}
  for i = 1, c.pp do stages[i] = { stage = i, layers = network.layers // c.pp, memory = c.memory } end
  return stages
end

--- The time and memory of one configuration.
---@param given table
---  model, system, strategy, attention, rules, seq    as for tperf.search
---  global_batch       samples per iteration
---  tp | tp1, tp2 | tp, cp, pp, micro_batch            1 unless given
---  dp or gpus         either follows from the other
---  panels             of strategy summa; the fastest
---  fast               GPUs of each axis in one fast domain, { tp =, dp =, pp = }; the fastest placement of what
---                     is left open
---  simulate           true, a schedule's name or a table (see tperf.simulate): the iteration pass by pass, too
---@return table configuration  as tperf.search returns it, with layers (the ops of tperf.layer) and stages,
---  and simulated = { schedule, time, makespan, bubble_rate, activations (bytes) } where asked for
---@return table|nil timeline  of the simulation
local function run(given)
  local s = strategy.of(type(given) == "table" and given.strategy or "tensor")
  local o = check.record("tperf.train", given, schema_of(s))
  local machine, network, set = system(o.system), model(o.model), rules(o.rules)
  if o.seq then network = network:with { seq = o.seq } end
  complete_sizes(o, s)
  local share = check_divisions(o, s, network, set)
  local sizes = {}
  for i, name in ipairs(s.axis_names) do sizes[i] = o[name] end
  local question = { model = network, system = machine, gpus = o.gpus, global_batch = o.global_batch, rules = set }
  local panels = o.panels and { o.panels } or s.panels and s.panels(network, share, set) or { 1 }
  local found = placed(o, s, question, sizes)
  local built = layout.layers(network, s, o.attention, set)(sizes, o.micro_batch)
  local c = found and fastest(question, s, built, found, panels) or best_placement(o, s)
  local fast = {}
  for i, name in ipairs(s.axis_names) do fast[i] = c.fast[name] end
  c.layers = built:ops(machine, set, fast, c.panels or 1)
  c.stages = stages_of(c, network)
  if not o.simulate then return c end
  local t = simulate.run(question, s, c, o.simulate)
  c.simulated = { schedule = t.schedule, time = t.iteration_time, makespan = t.makespan, bubble_rate = t.bubble_rate,
    activations = t:most "peak_memory" }
  return c, t
end

return { run = run }
