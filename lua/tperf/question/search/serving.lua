--- tperf.search_serving: the deployment that serves a rate within limits on the fewest GPUs. docs/serving.md.
local check = require "tperf.base.check"
local infer = require "tperf.question.infer"
local pareto = require "tperf.base.pareto"
local pool = require "tperf.question.ranks.pool"
local progress = require "tperf.base.progress"
local refusal = require "tperf.base.refusal"
local saturation = require "tperf.question.serve.saturation"
local serve = require "tperf.question.serve"
local serving = require "tperf.question.infer.deployment"
local strategy = require "tperf.describe.strategy"
local system = require "tperf.describe.system"

local search = {}

local TOLERANCE <const> = 0.02 -- of the rate of one group of replicas, from which their number is guessed
local TOO_FEW <const> = 8 -- more groups to try than guessed
local CLOSED <const> = 4 -- requests for each in flight, of a point of the Pareto front

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
  tp = sizes(nil), ep = sizes(nil), max_num_seqs = sizes { 256, 1024 }, max_num_batched_tokens = sizes { 2048, 8192 },
  top = check.integer { min = 1, max = 1 << 20, default = 10 },
  count = check.integer { min = 100, max = 1 << 30, default = 1000 },
  pareto = check.boolean { default = false },
}

local FOUND <const> = { "max_num_seqs", "max_num_batched_tokens" } -- of the engine
local REFUSED <const> = { replicas = "there are as many as 'rate' needs", keep = "ask tperf.serve for it" }

-- What is looked for, and what tperf.serve is asked besides.
local function read(given)
  if type(given) ~= "table" then check.fail("tperf.search_serving needs a table, got %s", check.show(given)) end
  local mine, q = {}, { engine = {} }
  for _, name in ipairs(check.names(given)) do
    if REFUSED[name] then
      check.fail("tperf.search_serving: '%s' is no argument of it: %s", name, REFUSED[name])
    end
    if own[name] then mine[name] = given[name] elseif name ~= "engine" then q[name] = given[name] end
  end
  local o = check.record("tperf.search_serving", mine, own)
  if not o.rate and not o.pareto then check.fail "tperf.search_serving: 'rate' is missing: requests a second" end
  saturation.check_load("tperf.search_serving", q.load, "'rate' says what comes")
  if q.model == nil or q.system == nil then
    check.fail("tperf.search_serving: '%s' is missing", q.model == nil and "model" or "system")
  end
  if given.engine ~= nil and type(given.engine) ~= "table" then
    check.fail("tperf.search_serving: 'engine' must be a table, got %s", check.show(given.engine))
  end
  for _, name in ipairs(check.names(given.engine or {})) do q.engine[name] = given.engine[name] end
  for _, name in ipairs(FOUND) do
    if q.engine[name] ~= nil then
      check.fail("tperf.search_serving: 'engine.%s' is looked for: give '%s', a size or a list", name, name)
    end
  end
  return o, q
end

local tensor = strategy.of "tensor"

local function doublings(most)
  local list = { 1 }
  while list[#list] * 2 <= most do list[#list + 1] = list[#list] * 2 end
  return list
end

-- Groups of replicas that are admitted: { tp =, ep = }, as far as experts are shared.
local function groups_of(o, q)
  local p = serving.problem("tperf.search_serving", {
    model = q.model, system = q.system, rules = q.rules, attention = "flash", prompt = 1, generate = 1,
    weight_dtype = "bf16", kv_dtype = "bf16", compute_dtype = "bf16", sequence_parallel = false, reserve = 0.1,
  })
  local domain, list = system(q.system).network.fast.domain, {}
  for _, tp in ipairs(o.tp or doublings(math.min(domain, o.gpus))) do
    for _, ep in ipairs(o.ep or doublings(p.model.experts and o.gpus // tp or 1)) do
      local sizes_of, admitted = { tp = tp, ep = ep }, tp * ep <= o.gpus
      for _, axis in ipairs(tensor.axes) do
        admitted = admitted and (sizes_of[axis.name] == 1 or not infer.refusal(p, axis, sizes_of))
      end
      if admitted then list[#list + 1] = sizes_of end
    end
  end
  return list
end

-- Every deployment: a group's sizes, and the limits of its engines.
local function deployments(o, q)
  local list = {}
  for _, group in ipairs(groups_of(o, q)) do
    for _, seqs in ipairs(o.max_num_seqs) do
      for _, tokens in ipairs(o.max_num_batched_tokens) do
        list[#list + 1] = { tp = group.tp, ep = group.ep, max_num_seqs = seqs, max_num_batched_tokens = tokens,
          group = group.tp * group.ep }
      end
    end
  end
  return list
end

local function question(q, d, groups)
  local one = { tp = d.tp, ep = d.ep, replicas = d.ep * groups, engine = {} }
  for name, value in pairs(q) do
    if name ~= "engine" then one[name] = value end
  end
  for name, value in pairs(q.engine) do one.engine[name] = value end
  for _, name in ipairs(FOUND) do one.engine[name] = d[name] end
  return one
end

-- Sets what one group serves; notes why none of it is. A larger limit of requests that changes nothing, for so many
-- never run, is no deployment of its own.
local function take_rate(d, found, o, reasons, before)
  if found.rate == 0 then
    reasons[#reasons + 1] = found.reason
    return false
  end
  d.saturation_rate, d.answer = found.rate, found.answer
  d.guess = math.ceil(o.rate / found.rate)
  for _, other in ipairs(before) do
    if other.tp == d.tp and other.ep == d.ep and other.max_num_batched_tokens == d.max_num_batched_tokens
      and other.saturation_rate == d.saturation_rate then return false end
  end
  return true
end

-- The least number of groups that serve the rate: from the guess down while that holds, else up. Several groups see a
-- smoother load than one, and the last of them a part of it.
local function size(d, q, o)
  local function at(groups)
    local r = serve.run(saturation.at(question(q, d, groups), o.rate, d.answer, math.max(o.count, 200 * groups)))
    return saturation.holds(r) and r or nil
  end
  local groups = d.guess
  local r = at(groups)
  while r and groups > 1 do
    local fewer = at(groups - 1)
    if not fewer then break end
    r, groups = fewer, groups - 1
  end
  local last = groups + TOO_FEW
  while not r and groups < last do
    groups = groups + 1
    r = at(groups)
  end
  if not r then return nil end
  d.served, d.replicas, d.gpus = r, groups * d.ep, groups * d.group
  return d
end

local ORDER <const> = { "tp", "ep", "max_num_seqs", "max_num_batched_tokens" }

-- Fewer GPUs, then more rate to spare, then smaller sizes.
local function better(a, b)
  if a.gpus ~= b.gpus then return a.gpus < b.gpus end
  local x, y = a.saturation_rate / a.group, b.saturation_rate / b.group
  if x ~= y then return x > y end
  for _, name in ipairs(ORDER) do
    if a[name] ~= b[name] then return a[name] < b[name] end
  end
  return false
end

-- Sizes those that may be among the best `top`, the most promising first.
local function sized(list, q, o, tell)
  for _, d in ipairs(list) do d.gpus = d.guess * d.group end
  table.sort(list, better)
  local found = {}
  for i, d in ipairs(list) do
    table.sort(found, better)
    local worst = found[o.top]
    if d.guess * d.group > o.gpus + d.group or worst and (d.guess - 1) * d.group > worst.gpus then goto continue end
    tell(i, #list)
    d = size(d, q, o)
    if d and d.gpus <= o.gpus then found[#found + 1] = d end
    ::continue::
  end
  table.sort(found, better)
  return found
end

-- --- the Pareto front ---

local function point(d, q, concurrency)
  local one = question(q, d, 1)
  one.load, one.count = { concurrency = concurrency * d.ep }, not q.requests and CLOSED * concurrency * d.ep or nil
  local r = refusal.attempt(serve.run, one)
  if not (r and r.tpot) then return nil end
  return { tp = d.tp, ep = d.ep, gpus = d.group, max_num_seqs = d.max_num_seqs,
    max_num_batched_tokens = d.max_num_batched_tokens, concurrency = concurrency * d.ep,
    per_user = 1 / r.tpot.mean, per_gpu = r.throughput_per_gpu, served = r }
end

--- Closed loops of a deployment, from a lone request up to what runs at a time.
function search.closed_loops(q, d)
  local points = {}
  for _, concurrency in ipairs(doublings(d.max_num_seqs)) do
    local p = point(d, q, concurrency)
    if not p then break end
    p.x, p.y = p.per_user, p.per_gpu
    points[#points + 1] = p
  end
  return points
end

local function front_of(list, q, tell)
  local points, front, asked = {}, {}, {}
  for i, d in ipairs(list) do asked[i] = { q, d } end
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

--- The deployments that serve a rate within limits, on the fewest GPUs first: engines cut over tp GPUs, ep replicas
--- that share experts, the engine's limits, and as many replicas as the rate needs. What one group of ep replicas
--- serves is found by bisection (tperf.saturation), and their number by simulating them all behind the router.
---@param given table
---  rate                    requests a second, of the whole deployment
---  gpus                    the most GPUs (1,024)
---  tp, ep                  a size or a list: powers of 2 within a fast domain; ep with experts alone
---  max_num_seqs            a size or a list ({ 256, 1024 })
---  max_num_batched_tokens  a size or a list ({ 2048, 8192 })
---  top                     how many to return (10)
---  count                   requests of a run, the least (1,000)
---  pareto                  whether to find the Pareto front, too; without a rate it alone (false)
--- and what tperf.serve takes: slo, the limits; model, system, prompt, output …; load says how arrivals are spread
--- (process, cv, burst), engine has what is not looked for
---@return table deployments  the best first: { tp, ep, replicas, gpus, max_num_seqs, max_num_batched_tokens,
---  saturation_rate = of one group of ep replicas, served = tperf.serve's answer at the rate }; with
---  candidates  how many were tried
---  pareto      the closed loops that no other beats both in tokens per second and user and per GPU: { tp, ep, gpus,
---              max_num_seqs, max_num_batched_tokens, concurrency, per_user, per_gpu, served }
---  reason      why there are none
function search.run(given)
  local o, q = read(given)
  local list, reasons, able = deployments(o, q), {}, {}
  local tell = progress.start "tperf: sizing"
  local asked = {}
  for i, d in ipairs(o.rate and list or {}) do asked[i] = { question(q, d, 1), TOLERANCE, o.count } end
  local rates = pool.map("tperf.question.serve.saturation", "attempt", asked, function(done) tell(done, #list) end)
  for i, found in ipairs(rates) do
    if take_rate(list[i], found, o, reasons, able) then able[#able + 1] = list[i] end
  end
  local found = sized(able, q, o, tell)
  local best = table.move(found, 1, math.min(o.top, #found), 1, {})
  for _, d in ipairs(best) do d.guess, d.group, d.answer = nil, nil, nil end
  best.candidates = #list
  if o.pareto then best.pareto = front_of(deployments(o, q), q, tell) end
  tell()
  if o.rate and not best[1] then
    best.reason = #list == 0 and ("no sizes of tp and ep are admitted within %d GPUs"):format(o.gpus)
      or able[1] and ("%d GPU%s not enough"):format(o.gpus, o.gpus == 1 and " is" or "s are") or most_common(reasons)
  end
  return best
end

return search
