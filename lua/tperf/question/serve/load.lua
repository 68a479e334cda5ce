--- Loads of tperf.serve: arrival times and lengths of requests. docs/serving.md.
local check = require "tperf.base.check"
local with = require "tperf.base.tables".with
local math = math

local load = {}

load.COUNT = 1000 -- the fewest requests of a run if not said otherwise

local LONGEST <const> = 1 << 29 -- tokens, as in tperf/serve.h
local MOST <const> = (1 << 31) - 2 -- requests

local positive = { above = 0, max = 1e12 }

local rate = check.number(with(positive, { optional = true }))
local duration = check.number(with(positive, { unit = "s" }))

load.schema = {
  concurrency = check.integer { min = 1, max = MOST, optional = true },
  think = check.number { min = 0, max = 1e12, unit = "s", optional = true },
  rate = rate,
  stages = check.list(check.record_of { rate = check.number(positive), duration = duration },
    { min = 1, max = 1e6, optional = true }),
  process = check.choice { { "poisson", "gamma", "uniform" }, optional = true },
  cv = check.number { min = 0.001, max = 1000, optional = true },
  burst = check.integer { min = 1, max = MOST, optional = true },
}

-- --- lengths ---

local KINDS = { fixed = 0, uniform = 1, lognormal = 2, exponential = 3, values = 4 }
local length = check.integer { min = 1, max = LONGEST }
local optional_length = check.integer { min = 1, max = LONGEST, optional = true }
local mean = check.number { min = 1, max = LONGEST, optional = true }

local distribution = check.record_of {
  uniform = check.list(length, { min = 2, max = 2, optional = true }),
  lognormal = check.record_of({
    median = mean, sigma = check.number { min = 0, max = 20, optional = true },
    mean = mean, cv = check.number { min = 0, max = 1000, optional = true },
  }, { optional = true }),
  exponential = mean,
  values = check.list(length, { min = 1, max = 1e8, optional = true }),
  min = optional_length, max = optional_length,
}

--- Checks a length: a number of tokens, or a distribution.
load.lengths = check.one_of(optional_length, distribution)

-- Median and sigma of a lognormal distribution, given as such or by its mean and coefficient of variation.
local function lognormal(what, d)
  if d.median and d.sigma and not d.mean and not d.cv then return d.median, d.sigma end
  if d.mean and d.cv and not d.median and not d.sigma then
    return d.mean / math.sqrt(1 + d.cv ^ 2), math.sqrt(math.log(1 + d.cv ^ 2))
  end
  check.fail("tperf.serve: '%s.lognormal' needs median and sigma, or mean and cv", what)
end

--- A length in the core's form: { fields, values }.
local function encode(what, given)
  if type(given) == "number" then
    return { { kind = KINDS.fixed, a = given, b = 0, least = 1, most = LONGEST } }
  end
  local kinds = {}
  for name in pairs(KINDS) do
    if given[name] then kinds[#kinds + 1] = name end
  end
  if #kinds ~= 1 then
    check.fail("tperf.serve: '%s' must be a number of tokens, or one of { uniform = { 100, 200 } }, { lognormal = "
      .. "{ median = 500, sigma = 1 } }, { exponential = 200 } and { values = { 10, 20 } }", what)
  end
  local kind = kinds[1]
  local a, b = 0, 0
  if kind == "uniform" then a, b = given.uniform[1], given.uniform[2] end
  if a > b then check.fail("tperf.serve: '%s.uniform' goes from %d to %d, downwards", what, a, b) end
  if kind == "exponential" then a = given.exponential end
  if kind == "lognormal" then a, b = lognormal(what, given.lognormal) end
  local least, most = given.min or 1, given.max or LONGEST
  if least > most then check.fail("tperf.serve: '%s.min' is more than its max", what) end
  return { { kind = KINDS[kind], a = a, b = b, least = least, most = most }, given.values }
end

-- The most tokens that a checked length can have; nil: there is no limit.
local function most_of(given)
  if type(given) ~= "table" then return given end
  local most = given.max or given.uniform and math.max(given.uniform[1], given.uniform[2])
  for _, n in ipairs(not most and given.values or {}) do most = math.max(most or 0, n) end
  return most
end

-- The same of a list of requests, which is not checked yet.
local function longest_of(list)
  local most
  local rawget, tointeger, type = rawget, math.tointeger, type -- of a list of a million, too
  for i = 1, rawlen(list) do
    local one = rawget(list, i)
    if type(one) ~= "table" then return nil end
    local prompt, output = tointeger(rawget(one, "prompt")), tointeger(rawget(one, "output"))
    if not (prompt and output and prompt <= LONGEST and output <= LONGEST) then return nil end
    if not most or prompt + output > most then most = prompt + output end
  end
  return most
end

--- The most tokens that a request of the load can have, prompt and answer together; nil if that is not known.
---@param o table  checked arguments of tperf.serve
function load.longest(o)
  if o.requests then return type(o.requests) == "table" and longest_of(o.requests) or nil end
  local prompt, output = most_of(o.prompt), most_of(o.output)
  return prompt and output and prompt + output + (o.prefix and o.prefix.tokens or 0)
end

-- --- arrivals ---

local PROCESSES = { poisson = 0, gamma = 1, uniform = 2 }

local function refuse(o, names, reason)
  for _, name in ipairs(names) do
    if o[name] then check.fail("tperf.serve: 'load.%s' does not go with %s", name, reason) end
  end
end

-- The stages of an open loop in the core's form; nil for a closed loop and for the arrivals of a trace.
local function stages_of(o, count)
  if not o.rate and not o.stages then
    refuse(o, { "process", "cv", "burst" }, "requests whose arrivals are given: it needs a rate")
    return nil
  end
  if o.rate and o.stages then check.fail "tperf.serve: 'load' has both a rate and stages" end
  local process = o.process or o.cv and "gamma" or "poisson"
  if o.cv and process ~= "gamma" then check.fail("tperf.serve: 'load.cv' is for gamma, not %s", process) end
  if process == "gamma" and not o.cv then check.fail "tperf.serve: 'load.process' = gamma needs a cv" end
  local list, start = {}, 0
  for i, stage in ipairs(o.stages or { { rate = o.rate } }) do
    local n = stage.duration and math.floor(stage.rate * stage.duration + 0.5) or count
    if n > MOST then check.fail("tperf.serve: stage %d of 'load' has %.0f requests; %d are the most", i, n, MOST) end
    list[i] = { process = PROCESSES[process], burst = o.burst or 1, cv = o.cv or 1, rate = stage.rate, count = n,
      start = start, fill = stage.duration ~= nil }
    start = start + (stage.duration or 0)
  end
  return list
end

local function total(stages)
  local n = 0
  for _, stage in ipairs(stages) do n = n + stage.count end
  return n
end

-- The number of requests to draw; nil if they are listed, or if stages decide it. usual: if nothing is said of it.
local function count_of(o, usual)
  if o.requests then
    for _, name in ipairs { "count", "prompt", "output", "prefix" } do
      if o[name] then check.fail("tperf.serve: '%s' does not go with 'requests'", name) end
    end
    return nil
  end
  if not o.load then
    check.fail "tperf.serve: 'requests' or 'load' is missing: a list or a file of requests, or how to draw them"
  end
  if not o.prompt or not o.output then
    check.fail("tperf.serve: '%s' is missing: how many tokens each has", o.prompt and "output" or "prompt")
  end
  if o.load.stages then
    if o.count then check.fail "tperf.serve: 'count' does not go with 'load.stages', which say how many come" end
    return nil
  end
  return o.count or usual or load.COUNT
end

--- The draw settings for the core: nil if everything is given.
---@param o table  checked arguments of tperf.serve
---@param listed integer?  number of requests given
---@param usual integer?   how many to draw if the arguments do not say it
function load.of(o, listed, usual)
  local given, count = o.load or {}, count_of(o, usual)
  if given.concurrency then
    refuse(given, { "rate", "stages", "process", "cv", "burst" }, "concurrency: requests then come as answers leave")
  elseif given.think then
    check.fail "tperf.serve: 'load.think' needs a concurrency"
  elseif not o.requests and not given.rate and not given.stages then
    check.fail "tperf.serve: 'load' needs a concurrency, a rate or stages"
  end
  local stages = not given.concurrency and stages_of(given, count or listed or 0) or nil
  if o.requests then return stages and { stages = stages } end
  count = count or total(stages)
  if count < 1 then check.fail "tperf.serve: the stages of 'load' are so short that no request comes" end
  local prefix = o.prefix or { tokens = 0, groups = 1 }
  return {
    stages = stages, prompt = encode("prompt", o.prompt), output = encode("output", o.output),
    drawn = { count = count, prefix_tokens = prefix.tokens, prefix_groups = prefix.groups },
  }
end

return load
