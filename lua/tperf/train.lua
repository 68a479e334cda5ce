--- tperf.train: one training configuration, explained op by op.
local check = require "tperf.check"
local configuration = require "tperf.configuration"
local divisors = require "tperf.divisors"
local nearest = require "tperf.nearest"
local pipelines = require "tperf.pipelines"
local problem = require "tperf.problem"
local refusal = require "tperf.refusal"
local search = require "tperf.search"
local shortage = require "tperf.shortage"
local simulate = require "tperf.simulate"
local space = require "tperf.space"
local strategy = require "tperf.strategy"
local sum = require "tperf.sum"

local train = {}

local size = check.integer { min = 1, max = 1 << 31, default = 1 }
local optional_size = check.integer { min = 1, max = 1 << 31, optional = true }

-- Search's fields, with one value each.
local function schema_of(s)
  local schema = problem.schema { s }
  for _, name in ipairs(s.axis_names) do schema[name] = size end
  schema.micro_batch, schema.pp, schema.virtual_stages = size, size, optional_size
  schema.gpus, schema.dp, schema.panels = optional_size, optional_size, optional_size
  schema.schedule = check.string { default = "1f1b" }
  schema.zero = check.integer { min = 0, max = 3, default = 1 }
  schema.recompute = check.choice { { "none", "selective", "full" }, default = "none" }
  schema.sequence_parallel = check.boolean { default = true }
  schema.simulate = simulate.options
  schema.explain = check.boolean { default = false }
  schema.configuration = check.any { optional = true }
  return schema
end

local function divide(whole, part, what, whole_name)
  if whole % part ~= 0 then
    refusal.raise("tperf.train: %s = %d does not divide %s of %d; %s", what, part, whole_name, whole,
      nearest.divisors(whole, part))
  end
  return whole // part
end

-- gpus and dp follow from each other.
local function complete_sizes(o, s)
  local product = o.pp
  for i, name in ipairs(s.axis_names) do
    if o[name] > (1 << 31) // product then refusal.raise("tperf.train: more than 2^31 GPUs") end
    if i ~= s.expert_axis then product = product * o[name] end
  end
  if not o.dp then o.dp = o.gpus and divide(o.gpus, product, "the product of all axes but dp", "'gpus'") or 1 end
  if o.dp > (1 << 31) // product then refusal.raise("tperf.train: more than 2^31 GPUs") end
  if o.gpus and o.gpus ~= product * o.dp then
    refusal.raise("tperf.train: 'gpus' is %d, but the axes multiply to %d", o.gpus, product * o.dp)
  end
  o.gpus = product * o.dp
end

-- "tp x cp": what cuts the sequence, for messages.
local function sharding(o, s)
  local names = {}
  for i, name in ipairs(s.axis_names) do
    if i ~= s.expert_axis and o[name] > 1 then names[#names + 1] = name end
  end
  return #names > 1 and "the number of shards of the sequence (" .. table.concat(names, ", ") .. ")" or names[1]
end

local function check_divisions(o, s, p)
  if o.pp > p.model.layers then
    refusal.raise("tperf.train: pp = %d is more than the model's %d layers", o.pp, p.model.layers)
  end
  if #p.pps == 0 then
    refusal.raise("tperf.train: pp = %d does not divide the model's %d layers, as the rules '%s' demand; %s", o.pp,
      p.model.layers, p.rules.name, nearest.divisors(p.model.layers, o.pp))
  end
  local replica = divide(o.global_batch, o.dp, "dp", "'global_batch'")
  divide(replica, o.micro_batch, "micro_batch", "the global batch of one replica,")
  if #p.pipeline_list == 0 then
    refusal.raise("tperf.train: %s", pipelines.why_none(o.schedule, o.pp, o.virtual_stages, p.model.layers))
  end
  local share = strategy.share(s, p.model, o.micro_batch, {}, p.rules)
  for _, axis in ipairs(s.axes) do
    share[axis.name] = o[axis.name]
    local admitted, reason = axis.admits(p.model, share, p.rules)
    if not admitted then
      refusal.raise("tperf.train: %s = %d %s; %s", axis.name, o[axis.name], reason or "is not admitted",
        space.nearest_sizes(axis, p.model, share, p.rules))
    end
  end
  local experts = s.axis_names[s.expert_axis]
  if experts then divide(o.dp, o[experts], experts, "dp") end
  divide(p.rules.shards_divide_sequence and p.model.seq or o.micro_batch * p.model.seq, s.sequence_shards(share),
    sharding(o, s), "the tokens of a micro-batch,")
  return share
end

-- The placement when all of it is given, checked; nil otherwise.
local function given_placement(o, s, domain)
  local given, used, fast = o.fast or {}, 1, {}
  local function take(name, whole)
    divide(whole, given[name], "fast." .. name, name)
    if given[name] > domain // used then
      refusal.raise("tperf.train: the placement takes more GPUs than the %d of a fast domain", domain)
    end
    used = used * given[name]
  end
  for _, name in ipairs { "dp", "pp", table.unpack(s.axis_names) } do
    if given[name] then divide(o[name], given[name], "fast." .. name, name) end
  end
  if not (given.dp and given.pp) then return nil end
  for i, name in ipairs(s.axis_names) do
    fast[i] = given[name] or i == s.expert_axis and divisors.gcd(o[name], given.dp)
    if not fast[i] then return nil end
  end
  for i, name in ipairs(s.axis_names) do
    if i ~= s.expert_axis then take(name, o[name]) end
  end
  take("dp", o.dp)
  take("pp", o.pp)
  return fast
end

-- That candidate, changed in place to have the fastest of these numbers of panels.
local function fastest(question, s, network, found, panels)
  local best, least
  for _, number in ipairs(#panels > 1 and panels or {}) do
    found.panels = number
    local time = configuration.of(question, s, network, found).time
    if not least or time < least then best, least = number, time end
  end
  found.panels = best or panels[1]
  return found
end

-- The fastest placement, and number of panels, of what is left open.
local function best_placement(o, s)
  local request = { top = 1, infeasible = true }
  for name, value in pairs(o) do request[name] = value end
  request.simulate, request.explain, request.strategy = nil, nil, s
  request.profile, request.software = nil, o.profile or "none"
  local found = search.within(request)
  if not found.complete then check.fail "tperf.train: interrupted" end
  local c = found[1] or refusal.raise("tperf.train: %s", found.reason)
  local fast = {}
  for i, name in ipairs(s.axis_names) do fast[i] = c.fast[name] end
  return fast, c.fast.dp, c.fast.pp, c.panels
end

-- By how much it misses, and what would help.
local function why_too_big(c, o, s, question)
  return ("does not fit: the fullest GPU needs %s; %s"):format(shortage.miss(c.memory.total, question),
    shortage.advice(o, { s }, question, search.least))
end

local function explain(c, t)
  local p, network, found = t.problem, t.network, t.found
  local question = p.questions[1]
  local function ops(section)
    return network:ops(section, question.system, p.rules, found.fast, found.panels, false, p.software)
  end
  local kinds = p.layouts[1].kinds
  c.kinds = {}
  for i, kind in ipairs(kinds) do c.kinds[i] = { key = kind.key, count = 0, ops = ops(i) } end
  for _, run in ipairs(p.layouts[1].runs) do c.kinds[run[1]].count = c.kinds[run[1]].count + run[2] end
  c.layers, c.first, c.last = c.kinds[1].ops, ops(#kinds + 1), ops(#kinds + 2)
  c.recompute, c.sequence_parallel = t.o.recompute, t.o.sequence_parallel
  c.stages = configuration.stages(question, network, found)
  return c
end

-- What a configuration that a search found says of itself.
local CHOSEN = {
  "strategy", "global_batch", "pp", "dp", "micro_batch", "panels", "fast", "zero", "schedule", "virtual_stages",
  "recompute", "sequence_parallel",
}

-- The arguments with what they do not say taken from their `configuration`.
local function with_configuration(given)
  local c, merged = given.configuration, {}
  if type(c) ~= "table" then check.fail("tperf.train: 'configuration' must be a table, got %s", check.show(c)) end
  for _, name in ipairs(CHOSEN) do merged[name] = c[name] end
  for _, name in ipairs(strategy.of(given.strategy or c.strategy).axis_names) do merged[name] = c[name] end
  for name, value in pairs(given) do merged[name] = value end
  merged.configuration = nil
  return merged
end

-- Everything that decides the answer: { o = checked arguments, strategy, problem, network, found }.
local function prepare(given)
  if type(given) == "table" and given.configuration ~= nil then given = with_configuration(given) end
  local s = strategy.of(type(given) == "table" and given.strategy or "tensor")
  problem.refuse_axes("tperf.train", given, { s })
  local o = problem.arguments("tperf.train", given, schema_of(s))
  problem.refuse_panels("tperf.train", o, { s })
  complete_sizes(o, s)
  local p = problem.of(o, { s })
  local share = check_divisions(o, s, p)
  local sizes = {}
  for i, name in ipairs(s.axis_names) do sizes[i] = o[name] end
  local question = p.questions[1]
  local t = { o = o, strategy = s, problem = p, network = p.layouts[1].network(sizes, o.micro_batch, p.variants[1]) }
  t.found = { sizes = sizes, dp = o.dp, pipeline = 1, micro_batch = o.micro_batch, zero = o.zero }
  t.found.fast = given_placement(o, s, question.system.network.fast.domain)
  if t.found.fast then
    t.found.dp_fast, t.found.pp_fast = o.fast.dp, o.fast.pp
    local panels = o.panels and { o.panels } or s.panels and s.panels(p.model, share, p.rules) or { 1 }
    fastest(question, s, t.network, t.found, panels)
  else
    local panels
    t.found.fast, t.found.dp_fast, t.found.pp_fast, panels = best_placement(o, s)
    t.found.panels = panels or 1
  end
  return t
end

--- The time of one configuration as a function of the software that runs it, for fits of software profiles.
---@param given table  as for train.run
---@return fun(terms: table): number seconds  of an iteration with these terms of a profile (runtime.terms)
---@return tperf.configuration configuration
function train.predictor(given)
  local t = prepare(given)
  local question = t.problem.questions[1]
  return configuration.predictor(question, t.network, t.found),
    configuration.of(question, t.strategy, t.network, t.found)
end

--- The time and memory of one configuration.
---@param given table  as for tperf.search, with one value each:
---  model, system, strategy, attention, rules, seq, schedule, virtual_stages, zero, recompute, sequence_parallel,
---  recompute_layers, optimizer, weights, gradients, master, moments, reserve, data_overlap, gradient_shard
---  global_batch       samples per iteration
---  tp, tp1, tp2, cp, ep, pp, micro_batch            1 unless given
---  dp, gpus           either follows from the other
---  panels             of strategy summa; the fastest
---  fast               GPUs of each axis in one fast domain, { tp =, dp =, pp = }; the fastest placement of what
---                     is left open
---  configuration      one that a search found: all that is not given is taken from it
---  simulate           true, a schedule's name or a table (see tperf.simulate): the iteration pass by pass, too
---  explain            true: the whole sum, term by term, in `sum`
---  software           what a training stack adds (see tperf.software): its name, a file or a table
---@return tperf.configuration configuration
---@return tperf.timeline? timeline  of the simulation
function train.run(given)
  local t = prepare(given)
  local o, p = t.o, t.problem
  local question = p.questions[1]
  local c = explain(configuration.of(question, t.strategy, t.network, t.found), t)
  if o.explain then c.sum = sum(c, configuration.sum(question, t.network, t.found)) end
  if not c.feasible then c.reason = why_too_big(c, o, t.strategy, question) end
  if not o.simulate then return c end
  local timeline = simulate.run(c, question, t.network, t.found, o.simulate)
  c.simulated = {
    schedule = timeline.schedule, time = timeline.iteration_time, makespan = timeline.makespan,
    bubble_rate = timeline.bubble_rate, activations = timeline:most "peak_memory",
  }
  return c, timeline
end

return train
