--- tperf.search_serving: the deployment that serves a rate within limits on the fewest GPUs. docs/serving.md.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local deployments = require "tperf.question.serve.deployments"
local pareto = require "tperf.plot.pareto"
local pool = require "tperf.question.ranks.pool"
local progress = require "tperf.base.progress"
local questions = require "tperf.question.ranks.questions"
local refusal = require "tperf.base.refusal"
local saturation = require "tperf.question.serve.saturation"
local serve = require "tperf.question.serve"
local steady = require "tperf.question.serve.steady"
local strategies_of = require "tperf.question.search.strategies"
local strategy = require "tperf.describe.strategy"
local warnings = require "tperf.question.warnings"

local search = {}

-- Of the rate of one group of ranks, from which the number of groups is guessed: its precision, and the requests of a
-- run that decides.
local TOLERANCE <const>, EFFORT <const> = 0.05, 4000
local SURE <const>, EACH <const> = 8000, 200 -- requests of a run that judges a fleet: in all, and for each group
local CONFIRM <const> = 50000 -- requests, which no size was chosen by, that confirm the best
local TOO_MANY <const> = 1.5 -- times the best's GPUs: what needs as many is left out unless sizes are given

local some = check.integer { min = 1, max = 1 << 20 }
local function sizes(default)
  local checker = check.one_of(some, check.list(some, { min = 1, max = 64 }))
  return function(value, path)
    if value == nil then return default end
    value = type(value) == "number" and { value } or value
    return checker(value, path)
  end
end

local own = {
  rate = check.number { above = 0, max = 1e9, optional = true },
  gpus = check.integer { min = 1, max = 1 << 20, default = 1024 },
  pp = sizes { 1 }, attention_dp = sizes(nil), max_num_seqs = sizes { 256, 1024 },
  max_num_batched_tokens = sizes { 2048, 8192 },
  top = check.integer { min = 1, max = 1 << 20, default = 10 },
  count = check.integer { min = 100, max = 1 << 30, default = 1000 },
  pareto = check.boolean { default = false }, strategy = check.any { optional = true, many = true },
}

-- With the axes of all strategies, each a size or a list; problem.refuse_axes refuses those of others.
local schema_of = check.once(function()
  local schema = {}
  for _, s in ipairs(strategy.all()) do
    for _, axis in ipairs(s.serves and s.axes or {}) do
      if axes.shows(axis, 0) then schema[axis.name] = sizes(nil) end
    end
  end
  for name, checker in pairs(own) do schema[name] = checker end
  return schema
end)

local REFUSED <const> = { replicas = "there are as many as 'rate' needs", keep = "ask tperf.serve for it",
  prefill = "pools are not looked for: ask tperf.serve", decode = "pools are not looked for: ask tperf.serve" }

-- Splits the arguments into those of the search and those of tperf.serve.
local function read(given)
  if type(given) ~= "table" then check.fail("tperf.search_serving needs a table, got %s", check.show(given)) end
  local mine, q = {}, { engine = {}, strategies = strategies_of("tperf.search_serving", given) }
  local schema = schema_of(#strategy.all())
  for _, name in ipairs(check.names(given)) do
    if REFUSED[name] then
      check.fail("tperf.search_serving: leave out '%s': %s", name, REFUSED[name])
    end
    if schema[name] then
      mine[name] = given[name]
    elseif name ~= "engine" then
      q[name] = given[name]
    end
  end
  local o = check.record("tperf.search_serving", mine, schema)
  if not o.rate and not o.pareto then check.fail "tperf.search_serving: 'rate' is missing: requests a second" end
  saturation.check_load("tperf.search_serving", q.load, "'rate' says what comes")
  if q.model == nil or q.system == nil then
    check.fail("tperf.search_serving: '%s' is missing", q.model == nil and "model" or "system")
  end
  if given.engine ~= nil and type(given.engine) ~= "table" then
    check.fail("tperf.search_serving: 'engine' must be a table, got %s", check.show(given.engine))
  end
  for _, name in ipairs(check.names(given.engine or {})) do q.engine[name] = given.engine[name] end
  for _, name in ipairs(deployments.LIMITS) do
    if q.engine[name] ~= nil then
      check.fail("tperf.search_serving: 'engine.%s' is looked for: give '%s', a size or a list", name, name)
    end
  end
  return o, q
end

-- Sets the rate that one group serves; notes why it serves none. A larger max_num_seqs that changes nothing, because so
-- many requests never run at once, is not a deployment of its own.
local function take_rate(d, found, o, reasons, before)
  reasons.able = reasons.able or found.rate > 0
  if found.rate == 0 then
    reasons[#reasons + 1] = found.reason
    return false
  end
  d.saturation_rate, d.answer = found.rate, found.answer
  d.guess = math.ceil(o.rate / found.rate)
  for _, other in ipairs(before) do
    if other.of == d.of and other.max_num_batched_tokens == d.max_num_batched_tokens
      and other.saturation_rate == d.saturation_rate then return false end
  end
  return true
end

-- Whether so many groups serve the rate, and the run that says so.
local function judged(d, q, o, groups)
  local asked = deployments.question(q, d, groups)
  return saturation.judge(asked, o.rate, math.max(o.count, EACH * groups), d.ask, SURE)
end

-- The least number of groups that serve the rate, between one that does not and one that does: from the guess by steps
-- that double, then by bisection. Several groups see a smoother load than one, and the last may have capacity to spare.
-- most: groups beyond which the answer does not matter.
local function size(d, q, o, most)
  local low, high = 0, nil -- groups that do not serve the rate, and that do
  local function at(groups)
    local holds, r = judged(d, q, o, groups)
    if holds then high, d.served = groups, r else low = groups end
    return holds
  end
  local step, groups = 1, math.min(d.guess, most)
  if at(groups) then
    while high > 1 and low == 0 and at(math.max(high - step, 1)) do step = 2 * step end
  else
    while not high and low < most do
      at(math.min(low + step, most))
      step = 2 * step
    end
  end
  if not high then return nil end
  while high - low > 1 do at((low + high) // 2) end
  d.replicas, d.gpus = high * d.of.ranks, high * d.of.gpus
  return d
end

-- Orders by fewer GPUs, then more spare rate, then strategy and smaller sizes.
local function better(q)
  local orders, rank = {}, {}
  for i, one in ipairs(q.strategies) do
    local names = one.strategy.axis_names
    local order = table.move(names, 1, #names, 1, {})
    orders[one.strategy.name] = table.move({ "pp", table.unpack(deployments.LIMITS) }, 1, 3, #order + 1, order)
    rank[one.strategy.name] = i
  end
  return function(a, b)
    if a.gpus ~= b.gpus then return a.gpus < b.gpus end
    local x, y = a.saturation_rate / a.of.gpus, b.saturation_rate / b.of.gpus
    if x ~= y then return x > y end
    if a.strategy ~= b.strategy then return rank[a.strategy] < rank[b.strategy] end
    for _, name in ipairs(orders[a.strategy]) do
      if a[name] ~= b[name] then return a[name] < b[name] end
    end
    return false
  end
end

-- How many times the GPUs of the best deployment another may need: sizes that were asked for are compared.
local function leeway(o, q)
  for _, one in ipairs(q.strategies) do
    for _, name in ipairs(one.strategy.axis_names) do
      if o[name] then return math.huge end
    end
  end
  return (o.attention_dp or o.pp[2]) and math.huge or TOO_MANY
end

-- What deployments need, the most promising first: those that may be among the best `top`.
local function sized(list, q, o, tell)
  for _, d in ipairs(list) do d.gpus = d.guess * d.of.gpus end
  local found, order, times = {}, better(q), leeway(o, q)
  table.sort(list, order)
  for i, d in ipairs(list) do
    local best, worst, one = found[1], found[o.top], d.of.gpus
    local most = math.min(o.gpus, best and times * best.gpus or o.gpus, worst and worst.gpus or o.gpus) // one
    most = math.tointeger(most)
    if most >= 1 and d.guess - 1 <= most then
      tell(i, #list)
      d = size(d, q, o, most)
      if d then
        found[#found + 1] = d
        table.sort(found, order)
      end
    end
  end
  return found
end

-- Confirms the best by a long run of other requests: a deployment that does not keep its limits gets a group more, and
-- may then no longer be the best. What it got that for is run again with as many.
local function confirm(found, q, o)
  local order, count, grown = better(q), math.max(o.count, CONFIRM), {}
  while found[1] do
    local d = found[1]
    local groups = d.gpus // d.of.gpus
    local asked = deployments.question(q, d, groups)
    asked.seed = (q.seed or 1) + 1
    local holds, r = saturation.judge(asked, o.rate, count, d.ask, count)
    grown[d] = not holds and groups + 1 or nil
    if holds then
      d.served = r
      break
    end
    d.replicas, d.gpus = grown[d] * d.of.ranks, grown[d] * d.of.gpus
    if d.gpus > o.gpus then table.remove(found, 1) end
    table.sort(found, order)
  end
  for i = 1, math.min(#found, o.top) do
    local d = found[i]
    if grown[d] then
      local _, r = judged(d, q, o, grown[d])
      d.served = r
    end
  end
end

-- --- the Pareto front ---

local function point(d, one, concurrency, ask)
  local all = concurrency * d.of.ranks
  one.load = { concurrency = all }
  local r = refusal.attempt(function()
    if one.requests then return ask(one) end
    return steady.sized(function(count)
      one.count = count
      return ask(one)
    end, all)
  end)
  if not (r and r.tpot) then return nil end
  local p = { gpus = d.of.gpus, concurrency = all, tokens_per_second_per_user = 1 / r.tpot.mean,
    tokens_per_second_per_gpu = r.tokens_per_second_per_gpu, served = r }
  p.per_user, p.per_gpu = p.tokens_per_second_per_user, p.tokens_per_second_per_gpu -- deprecated
  for name, value in pairs(d) do
    if name ~= "of" then p[name] = value end
  end
  return p
end

--- Closed-loop runs of a deployment, from one request in flight up to max_num_seqs.
---@param one table  the question to tperf.serve
---@param d table    the deployment
function search.closed_loops(one, d)
  local points, ask = {}, questions.prepared(serve.run)
  for _, concurrency in ipairs(deployments.doublings(d.max_num_seqs)) do
    local p = point(d, one, concurrency, ask)
    if not p then break end
    p.x, p.y = p.tokens_per_second_per_user, p.tokens_per_second_per_gpu
    points[#points + 1] = p
  end
  return points
end

local function front_of(list, q, tell)
  local points, front, asked = {}, {}, {}
  for i, d in ipairs(list) do asked[i] = { deployments.question(q, d, 1), d } end
  local loops = pool.map("tperf.question.search.serving", "closed_loops", asked, function(done) tell(done, #list) end)
  for _, some_points in ipairs(loops) do table.move(some_points, 1, #some_points, #points + 1, points) end
  for i, index in ipairs(pareto.front(points, "max", "max")) do
    front[i] = points[index]
    front[i].x, front[i].y = nil, nil
  end
  return front
end

local function most_common(reasons)
  local counts, best = {}, nil
  for _, reason in ipairs(reasons) do
    counts[reason] = (counts[reason] or 0) + 1
    if not best or counts[reason] > counts[best] then best = reason end
  end
  return best
end

-- The deployments of each group of ranks, those of the fewest GPUs first: lists.
local function by_group(list)
  local of, ordered = {}, {}
  for i, d in ipairs(list) do
    if not of[d.of] then
      of[d.of] = { at = i, gpus = d.of.gpus }
      ordered[#ordered + 1] = of[d.of]
    end
    table.insert(of[d.of], d)
  end
  table.sort(ordered, function(a, b)
    if a.gpus ~= b.gpus then return a.gpus < b.gpus end
    return a.at < b.at
  end)
  return ordered
end

-- Finds the rates of deployments. near: a rate that each may be near to.
local function rate(list, q, o, reasons, able, tell, near)
  local asked = {}
  for i, d in ipairs(list) do
    d.ask = questions.prepared(serve.run)
    local how = { effort = EFFORT, near = near and near[i], unconfirmed = true }
    asked[i] = { deployments.question(q, d, 1), TOLERANCE, o.count, how, here = d.ask }
  end
  local rates = pool.map("tperf.question.serve.saturation", "attempt", asked, function(done) tell(done, #list) end)
  for i, found in ipairs(rates) do
    if take_rate(list[i], found, o, reasons, able) then able[#able + 1] = list[i] end
  end
end

-- The fewest GPUs that deployments need by their rates.
local function fewest(list)
  local least = math.huge
  for _, d in ipairs(list) do least = math.min(least, d.guess * d.of.gpus) end
  return least
end

-- The deployments whose groups serve some rate, with it. Of each group the first limits are looked at; then the others,
-- where that rate says that the group may be among those that need the fewest GPUs. Groups that alone are too many GPUs
-- are not looked at, once smaller ones suffice.
local function rated(list, q, o, reasons, tell)
  local groups, able, tried, at, times = by_group(list), {}, 0, 1, leeway(o, q)
  while groups[at] and groups[at].gpus <= times * fewest(able) do
    local wave, gpus = {}, groups[at].gpus
    while groups[at] and groups[at].gpus == gpus do wave[#wave + 1], at = groups[at][1], at + 1 end
    rate(wave, q, o, reasons, able, tell)
    tried = tried + #wave
  end
  local others, near, most = {}, {}, times * fewest(able)
  for i = 1, at - 1 do
    local first = groups[i][1]
    local promising = not first.guess or (first.guess - 1) * first.of.gpus <= most
    for k = 2, promising and #groups[i] or 0 do
      others[#others + 1], near[#others + 1] = groups[i][k], first.saturation_rate
    end
  end
  rate(others, q, o, reasons, able, tell, near)
  return able, tried + #others
end

--- The deployments that serve a rate within limits, fewest GPUs first. Searches the sizes of the strategy's axes, ranks
--- that share experts, the engine's limits, and the number of replicas that the rate needs. The rate of one group of
--- ranks is found by bisection (tperf.saturation), the number of groups by simulating them all behind the router;
--- 50,000 other requests confirm the best.
---@param given table
---  rate                    requests a second, of the whole deployment
---  gpus                    most GPUs (1,024)
---  strategy                how layers are sharded: "tensor", "context", "stationary" or a custom strategy, a list of
---                          them, or "all"; by default the first that has the axes given
---  tp, cp, ulysses, tp1, tp2   sizes of its axes, each a size or a list; by default powers of 2 within a fast domain
---  ep, etp                 likewise for experts; by default powers of 2 up to all GPUs, and tp's
---  pp                      a size or a list (1)
---  attention_dp            ranks that share experts, a size or a list (as follows from ep)
---  max_num_seqs            a size or a list ({ 256, 1024 })
---  max_num_batched_tokens  a size or a list ({ 2048, 8192 })
---  top                     number of deployments to return (10)
---  count                   minimum number of requests of a run (1,000)
---  pareto                  whether to find the Pareto front, too; without a rate, only that (false)
--- and the arguments of tperf.serve: slo, the limits; model, system, prompt, output …; load the spread of
--- arrivals (process, cv, burst), engine the settings that are not searched
---@return table deployments  best first: { strategy, its axes' sizes, pp, attention_dp = ranks of a group, replicas
---  = all ranks, gpus, max_num_seqs, max_num_batched_tokens, saturation_rate = of one group of ranks, served =
---  tperf.serve's result at the rate }; with
---  candidates  number of kinds of engine
---  tried       of which so many were simulated: without given sizes, those that need 1.5 times the GPUs of the best
---              are left out
---  pareto      the Pareto front of tokens per second per user and per GPU, of closed-loop runs of one group: the same
---              fields with concurrency, tokens_per_second_per_user and tokens_per_second_per_gpu (deprecated: per_user
---              and per_gpu)
---  warnings    sentences: what the deployments do not hold for
---  reason      why there are none
function search.run(given)
  local o, q = read(given)
  local list, reasons = deployments.all(o, q), {}
  local tell = progress.start "tperf: sizing"
  local able, tried = {}, #list
  if o.rate then able, tried = rated(list, q, o, reasons, tell) end
  local found = sized(able, q, o, tell)
  if o.rate and not q.requests then confirm(found, q, o) end
  local best = table.move(found, 1, math.min(o.top, #found), 1, {})
  for _, d in ipairs(best) do d.guess, d.of, d.answer, d.ask = nil, nil, nil, nil end
  best.candidates, best.tried, best.warnings = #list, tried, warnings.together(best, "deployments")
  if o.pareto then best.pareto = front_of(deployments.all(o, q), q, tell) end
  tell()
  if o.rate and not best[1] then
    best.reason = #list == 0 and ("no sizes of %s are admitted within %d GPUs"):format(deployments.named(q), o.gpus)
      or reasons.able and ("%d GPU%s not enough"):format(o.gpus, o.gpus == 1 and " is" or "s are")
      or most_common(reasons)
  end
  return best
end

return search
