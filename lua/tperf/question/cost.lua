--- tperf.cost: time, GPU-hours, money and energy of a training run, with its failures.
local check = require "tperf.base.check"
local energy = require "tperf.question.energy"
local goodput = require "tperf.question.goodput"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local straggling = require "tperf.question.goodput.straggling"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")

local HOUR <const>, DAY <const> = 3600.0, 86400.0 -- seconds
local GRAMS_PER_JOULE <const> = 1 / 3.6e6 -- 1 gram per kilowatt-hour

local schema = {
  tokens = check.number { min = 1, max = 1e18, optional = true },
  model = check.any { optional = true }, system = check.any { optional = true },
  price = check.number { min = 0, max = 1e9, optional = true }, -- dollars per GPU-hour
  power = check.number { min = 0, max = 1e9, unit = "W", optional = true }, -- per GPU
  waiting_power = energy.field,
  straggling = straggling.field,
  carbon = check.number { min = 0, max = 1e5, optional = true }, -- grams of CO2 per kilowatt-hour
  pue = check.number { min = 1, max = 10, default = 1 },
}
for name, checker in pairs(goodput.fields) do schema[name] = checker end

-- Sweeps ask about the same few names in many rows.
local made = { [model] = {}, [system] = {} }
local function once(constructor, value)
  if value == nil or type(value) == "table" and getmetatable(value) then return value end
  if type(value) ~= "string" then return constructor(value) end
  local known = made[constructor]
  known[value] = known[value] or constructor(value)
  return known[value]
end

local above_0 = check.number { above = 0, max = 1e300, optional = true }
local at_least_0 = check.number { min = 0, max = 1e300, optional = true }
-- Fields read from a configuration.
local read = {
  gpus = check.integer { min = 1, max = 1 << 53 }, tokens_per_second = above_0, time = above_0,
  checkpoint_bytes = above_0, idle = at_least_0, pp = check.integer { min = 1, optional = true },
  dp = check.integer { min = 1, optional = true },
}
-- Records read from a configuration, if it has them.
local records = {
  breakdown = { compute = check.number { min = 0 }, memory = check.number { min = 0 },
    tensor_comm = check.number { min = 0 }, bubble = check.number { min = 0 }, host = at_least_0,
    optimizer = at_least_0 }, -- all that straggling and energy read
  interval = { low = check.number { above = 0 }, high = check.number { above = 0 } },
  straggling = { seconds = check.number { min = 0 }, low = check.number { min = 0 }, high = check.number { min = 0 } },
}

local function fields_of(from, checkers, path)
  local copy = {}
  for _, name in ipairs(check.names(checkers)) do
    local value, message = checkers[name](from[name], path .. name)
    if message then check.fail("tperf.cost: the configuration's %s", message) end
    copy[name] = value
  end
  return copy
end

-- ", but 'tokens_per_secnd' (did you mean …)": what a table without a speed has.
local function nearest(c)
  local names, texts = check.names(c), {}
  for i = 1, math.min(#names, 5) do texts[i] = check.show(names[i]) end
  return texts[1] and (", but %s%s"):format(table.concat(texts, ", "), names[6] and " …" or "") or ""
end

-- A configuration, or a row like one, with the fields that are read, each checked once.
local function configuration_of(given, o)
  local c = fields_of(given, read, "")
  for name, checkers in pairs(records) do
    local record = given[name]
    local wanted = type(record) == "table" and (name ~= "breakdown" or o.straggling)
    if wanted then c[name] = fields_of(record, checkers, name .. ".") end
  end
  if not c.breakdown and energy.tells(given.breakdown) then
    c.breakdown = fields_of(given.breakdown, energy.parts, "breakdown.")
  end
  return c
end

-- GPU-hours, dollars, energy and CO2 of `seconds` with `paid` GPUs, of which `running` draw power.
local function bill(seconds, paid, running, o)
  local gpu_hours = seconds / HOUR * paid
  local joules = o.watts and o.watts * running * seconds * o.pue
  return {
    seconds = seconds, days = seconds / DAY, gpu_hours = gpu_hours, dollars = o.price and o.price * gpu_hours,
    energy = joules, co2 = joules and o.carbon and joules * o.carbon * GRAMS_PER_JOULE / 1000,
  }
end

-- The effect of unequal GPUs on an iteration, and its factor on the time: 1 if tperf.train's time includes it already.
local function straggle(c, o)
  if not o.straggling then return c.straggling, 1.0 end
  if c.straggling then
    check.fail "tperf.cost: 'straggling' is in the configuration's time already: tperf.train was asked for it"
  end
  if not (c.time and c.breakdown) then
    check.fail "tperf.cost: 'straggling' needs a configuration with its breakdown, as tperf.train and tperf.search give"
  end
  local s = straggling.of(c, o.straggling)
  return s, 1 + s.seconds / c.time
end

-- The 5 % and 95 % quantiles of the time as ratios to the expected time. The three sources (spread of the software's
-- runs, of failures and of clusters) are independent, so their logarithms add in quadrature.
local function band_of(c, failed, s)
  local low, high, any = 0.0, 0.0, false
  local function add(ratio_low, ratio_high)
    low, high, any = low + math.log(ratio_low) ^ 2, high + math.log(ratio_high) ^ 2, true
  end
  if c.interval and c.time then add(math.min(c.interval.low / c.time, 1), math.max(c.interval.high / c.time, 1)) end
  if failed and failed.failures then add(failed.low / failed.seconds, failed.high / failed.seconds) end
  if s then
    local whole = c.straggling and c.time or c.time + s.seconds
    add(1 + (s.low - s.seconds) / whole, 1 + (s.high - s.seconds) / whole)
  end
  if any then return math.exp(-math.sqrt(low)), math.exp(math.sqrt(high)) end
end

--- The cost of a training run with a configuration.
---@param c table  a configuration, or a sweep's row: gpus and tokens_per_second
---@param given table
---  tokens    tokens of the whole run; by default the model's `training_tokens`
---  model     a name, a file or a table
---  system    supplies the price per GPU-hour and the power limit
---  price     dollars per GPU-hour, in place of the system's
---  power     watts per GPU while it computes, in place of the system's limit
---  waiting_power  watts per GPU while it waits: in bubbles, for messages, for the host (a quarter of `power`). A row
---            without a breakdown computes all the time
---  carbon    grams of CO2 per kilowatt-hour of the grid
---  pue       power usage effectiveness: watts that the building draws per watt of the GPUs (1)
---  straggling  standard deviation of a GPU's time as a part of the mean, such as 0.02, or { deviation, screened = GPUs
---              slower by more than this part do not run }: the slowest GPU sets the step. By default nothing is added:
---              the software profile includes the spread of the runs that it was fitted to
---  mtbf      mean seconds between failures: { gpu = } or { node =, gpus_per_node = } or { cluster = }; requires
---            checkpoint and restart
---  checkpoint  { interval or steps (else the best), size (weights and optimizer), bandwidth (of a GPU), store (of
---            the whole store), write, async, copy (of a GPU to its host), block, load }, see docs/goodput.md
---  restart   seconds from the detection of a failure until the run trains again, without loading the checkpoint
---  detection   seconds until a failure is detected (0)
---  spares    { nodes, repair (s), part (of the failures that take a node out, 1), gpus_per_node }: standby nodes
---@return table cost  { tokens, seconds, days, gpu_hours, dollars, energy (J), co2 (kg) }: dollars, energy and CO2 only
---  if price, power and carbon are known; empty for a row with a `reason` in place of a configuration, so that its
---  fields are gaps. GPUs
---  that the placement leaves idle and spare GPUs are paid for, but draw no power. With failures also goodput (a part
---  of the time); failures; mtbf (of the cluster); checkpoint { bytes, write, block, load, interval, young, daly, best,
---  count }; lost { checkpoints, rework, restarts, waiting } in seconds; straggling. low, high: the same records at the
---  ends of the interval that holds 90 % of runs
return function(c, given)
  local o = check.record("tperf.cost", given or {}, schema)
  if type(c) ~= "table" then check.fail("tperf.cost needs a configuration, got %s", check.show(c)) end
  if c.tokens_per_second == nil then
    if c[1] then check.fail("tperf.cost needs one configuration, such as found[1], not a list of them") end
    if c.reason ~= nil or c.feasible == false then return {} end
    check.fail("tperf.cost: the configuration has no 'tokens_per_second'%s; a row of a sweep without a configuration "
      .. "has the reason", nearest(c))
  end
  c = configuration_of(c, o)
  local machine, described = once(system, o.system), once(model, o.model)
  local tokens = o.tokens or described and described.training_tokens
  if not tokens then
    check.fail("tperf.cost: how many tokens? Give tokens, or a model that says it (training_tokens)")
  end
  o.price = o.price or machine and machine.price and machine.price.gpu_hour
  o.power = o.power or machine and machine.accelerator.power
  if o.carbon and not o.power then
    check.fail "tperf.cost: 'carbon' needs the power of a GPU: give 'power', or a system that says it"
  end
  local s, slower = straggle(c, o)
  o.watts = o.power and energy.watts(c.breakdown, c.time and c.time * slower, o.power, o.waiting_power)
  local work = tokens / c.tokens_per_second * slower
  local failed = goodput.of(c, o, work, machine)
  local seconds = failed and failed.seconds or work
  local paid = c.gpus + (c.idle or 0) + (failed and failed.spare_gpus or 0)
  local cost = bill(seconds, paid, c.gpus, o)
  cost.tokens, cost.straggling = tokens, o.straggling and s or nil
  if failed then
    cost.goodput, cost.failures, cost.mtbf = failed.part, failed.failures, failed.mtbf
    cost.checkpoint, cost.lost = failed.checkpoint, failed.lost
  end
  local low, high = band_of(c, failed, s)
  if low then cost.low, cost.high = bill(seconds * low, paid, c.gpus, o), bill(seconds * high, paid, c.gpus, o) end
  return cost
end
