--- tperf.saturation: the largest rate that a deployment serves within limits. docs/serving.md.
local check = require "tperf.base.check"
local drawn = require "tperf.question.serve.load"
local progress = require "tperf.base.progress"
local questions = require "tperf.question.ranks.questions"
local refusal = require "tperf.base.refusal"
local serve = require "tperf.question.serve"
local steady = require "tperf.question.serve.steady"
local units = require "tperf.base.units"

local saturation = {}

local LONE <const> = 200 -- requests, one at a time
local DOUBLINGS <const>, HALVINGS <const> = 40, 7 -- of the rate of one request at a time
-- The confidence of a verdict: standard deviations of the share of requests that keep the limits. Neighbours in a queue
-- miss them together, so TOGETHER requests count as one.
local SURE <const>, TOGETHER <const> = 2, 4
local EFFORT <const>, CONFIRM <const> = 16000, 50000 -- requests that judge a rate near the largest; and that rate
local DRAWS <const> = 2 -- of requests that confirm it: with one, 1 of 20 rates was 1.4 % too high
local STEP <const> = 0.005 -- of the rate: the least by which a rate that is not confirmed is lowered
local COARSE <const> = 0.1 -- of the largest rate: runs of `count` requests judge rates that are further away

local own = {
  tolerance = check.number { min = 1e-4, max = 0.5, default = 0.01 },
  count = check.integer { min = 100, max = 1 << 30, default = drawn.COUNT },
}

local function copy(t)
  local c = {}
  for name, value in pairs(t) do c[name] = value end
  return c
end

-- At most `most` requests of a list, evenly spaced; all of a file.
local function some_of(requests, most)
  if type(requests) ~= "table" or #requests <= most then return requests end
  local list = {}
  for i = 1, most do list[i] = requests[1 + (i - 1) * #requests // most] end
  return list
end

local LOADS <const> = { "rate", "stages", "concurrency", "think" }

--- Raises if a load says more than how arrivals are spread.
---@param what string  prefix of the message
---@param load any
---@param reason string  the role that the rate has there
function saturation.check_load(what, load, reason)
  if load == nil then return end
  if type(load) ~= "table" then check.fail("%s: 'load' must be a table, got %s", what, check.show(load)) end
  for _, name in ipairs(LOADS) do
    if load[name] ~= nil then check.fail("%s: 'load.%s' does not go with it: %s", what, name, reason) end
  end
end

--- A copy of a question without latency limits, to find the most that can be served at all.
function saturation.without_limits(q)
  local one = copy(q)
  one.slo = nil
  return one
end

-- Whether a run keeps its limits; without limits, whether it keeps up with the arrivals.
local function keeps_up(r) return not r.saturated and r.slo_met ~= false end

-- The same of a run that can be made longer, which must be steady.
local function holds_of(r) return r.steady and keeps_up(r) end

--- A question to tperf.serve at a given rate.
---@param q table        the question, whose load gives the spread of arrivals
---@param rate number    requests a second
---@param count integer? of requests; none of a list of requests
function saturation.at(q, rate, count)
  local one, load = copy(q), copy(q.load or {})
  load.rate = rate
  one.load = load
  if not q.requests then one.count = count end
  return one
end

-- Whether a run of so many requests shows that a rate holds, or that it does not; nil: a longer one is needed. Limits
-- that are missed while the engines still fill up will be missed once they are full; but near the largest rate a run of
-- few requests may keep them and a longer one not. Waits may grow by chance in one run, but not in a longer one, too.
-- least: the part to keep them; grew: so they did in the run before.
local function verdict(r, count, effort, least, grew)
  local doubt = SURE * math.sqrt(least * (1 - least) * TOGETHER / count) + 1 / count
  if r.attainment and r.attainment < least - doubt then return false end
  if not r.steady then return nil end
  if r.saturated and grew then return false end
  if count < effort then return nil end
  return holds_of(r)
end

--- Whether a rate holds: by runs of more and more requests, until one is steady and decides. A list of requests is run
--- once, as it is.
---@param q table          as for saturation.at
---@param rate number
---@param count integer    of requests, at least
---@param ask function     tperf.serve, prepared
---@param effort integer?  requests of a run that decides where chance could
---@return boolean holds
---@return table r  the last run
---@return integer runs
function saturation.judge(q, rate, count, ask, effort)
  effort = math.max(effort or EFFORT, count)
  local quantile = type(q.slo) == "table" and rawget(q.slo, "quantile") -- as tperf.serve reads it, and checks it
  local least, runs, grew = math.type(quantile) and quantile or 0.99, 0, false
  while true do
    local r = ask(saturation.at(q, rate, count))
    runs = runs + 1
    if q.requests then return keeps_up(r), r, runs end
    local holds = verdict(r, count, effort, least, grew)
    grew = r.saturated
    if holds == nil and count >= steady.MOST then holds = holds_of(r) end
    if holds ~= nil then return holds, r, runs end
    count = steady.more(r, count)
  end
end

--- The result for requests served one at a time.
---@param ask? function  tperf.serve, prepared
function saturation.lone(q, ask)
  local one = copy(q)
  one.load, one.requests = { concurrency = 1 }, some_of(q.requests, LONE)
  one.count = not q.requests and LONE or nil
  return (ask or serve.run)(one)
end

-- Why a run at this load does not keep the limits.
local function too_slow(when, r)
  local parts = {}
  for _, name in ipairs { "ttft", "tpot", "e2e" } do
    parts[#parts + 1] = r[name] and ("%s %s"):format(name, units.format(r[name].p99, "s", 3))
  end
  return ("%s %.4g %% of the requests keep the limits (99 %% are below %s)"):format(when, 100 * (r.attainment or 0),
    table.concat(parts, ", "))
end

-- Rates are tried on a grid: number k is `one` x (1 + tolerance)^k, so that an answer does not depend on where a search
-- begins. Below: the numbers between which the largest rate lies, with steps that double up to `most`; low nil: none
-- holds down to `least`.
local function bracket(try, at, step, most, least)
  local low, high, best, last
  for _ = 0, DOUBLINGS do
    local holds
    holds, last = try(at)
    if holds then low, best = at, last else high = at end
    if high and (low or at <= least) then break end
    at = high and at - step or at + step
    step = math.min(2 * step, most)
  end
  return low, high, best, last
end

-- Narrows numbers of rates of which the first holds and the second does not until they are `apart`.
local function narrow(try, low, high, best, apart)
  while high and high - low > apart do
    local middle = (low + high) // 2
    local holds, r = try(middle)
    if holds then low, best = middle, r else high = middle end
  end
  return low, high, best
end

-- The first number from `low` down, in steps, that holds, since a shorter run may have been wrong about it; nil: none.
-- Then the least number that does not, and the last run.
local function confirmed(try, low, high, step, least)
  local holds, r
  while low >= least do
    holds, r = try(low)
    if holds then return low, high, r end
    low, high = low - step, low
  end
  return nil, high, r
end

-- Whether a number holds in all of several draws of the requests, and the last run.
local function in_all(draws)
  return function(k)
    local holds, r
    for _, try in ipairs(draws) do
      holds, r = try(k)
      if not holds then break end
    end
    return holds, r
  end
end

--- Bisects between a rate that holds and one that does not: with short runs first, then with ones that decide.
---@param q table          a question to tperf.serve; load without a rate
---@param tolerance number part of the rate
---@param count integer
---@param tell function?   called after each run
---@param ask? function     tperf.serve, prepared
---@param more? { effort: integer?, near: number?, unconfirmed: boolean? } requests of a run that decides; a rate that
---  may be near; true: no long runs of other requests confirm the rate
---@return table result  of tperf.saturation
function saturation.find(q, tolerance, count, tell, ask, more)
  more = more or {}
  local effort, near = more.effort or EFFORT, more.near
  ask = ask or questions.prepared(serve.run)
  local lone, runs = saturation.lone(q, ask), 1
  if lone.slo_met == false then
    return { rate = 0, runs = 1, reason = too_slow("one after the other,", lone) }
  end
  if not lone.e2e then return { rate = 0, runs = 1, reason = "every request is rejected" } end
  local one = (q.replicas or 1) / lone.e2e.mean
  local function number(times) return math.tointeger(math.log(times) / math.log(1 + tolerance) // 1) end
  local function rate(k) return one * (1 + tolerance) ^ k end
  local function trying(requests, question)
    return function(k)
      local holds, r, made = saturation.judge(question or q, rate(k), count, ask, requests)
      runs = runs + made
      if tell then tell(runs) end
      return holds, r
    end
  end
  local quick, coarse, double = trying(count), math.max(number(1 + COARSE), 1), number(2)
  local least = -HALVINGS * double
  local first, step = near and number(near / one) or 0, near and coarse or double
  local low, high, best, last = bracket(quick, first, step, double, least)
  if low then
    low = narrow(quick, low, high, best, coarse)
    local try = trying(effort) -- of both ends: short runs may have been wrong
    low, high, best, last = bracket(try, low, coarse, coarse, least)
    if low then low, high, best = narrow(try, low, high, best, 1) end
    if low and not more.unconfirmed then
      local draws = {} -- that the rate was not chosen by
      for i = 1, DRAWS do
        local other = copy(q)
        other.seed = (q.seed or 1) + i
        draws[i] = trying(CONFIRM, other)
      end
      low, high, best = confirmed(in_all(draws), low, high, math.max(number(1 + STEP), 1), least)
      last = best
    end
  end
  if not low then
    return { rate = 0, runs = runs, reason = too_slow(("even at %.3g requests/s"):format(rate(high)), last) }
  end
  return { rate = rate(low), above = high and rate(high), served = best, runs = runs, answer = lone.e2e.mean,
    warnings = best.warnings }
end

--- saturation.find's result as plain data: { rate, answer, reason }; the reason may be that of a refusal.
---@param ask? function  tperf.serve, prepared
---@param more table  of saturation.find
function saturation.attempt(q, tolerance, count, more, ask)
  local found, why = refusal.attempt(saturation.find, q, tolerance, count, nil, ask, more)
  return found and { rate = found.rate, answer = found.answer, reason = found.reason } or { rate = 0, reason = why }
end

--- The largest rate, in requests a second, at which a deployment keeps its limits: a run holds if at least
--- slo.quantile of the requests keep all of them and waits do not grow with the run's length. Bisects over runs that
--- draw the same requests, on the assumption that every rate below one that holds also holds; two runs of
--- 50,000 other requests confirm the rate, or the next lower one.
---@param given table  as for tperf.serve, except that load gives only the spread of arrivals (process, cv, burst);
---  tolerance  relative precision of the rate (0.01)
---  count      minimum number of requests of a run (1,000); more until it is steady and chance does not decide
---@return table result { rate, above = the smallest rate tried that does not hold, served = tperf.serve's result at
---  rate, runs = simulations made, answer = seconds that a lone request takes, warnings = served's, reason = why rate
---  is 0 }
function saturation.run(given)
  if type(given) ~= "table" then check.fail("tperf.saturation needs a table, got %s", check.show(given)) end
  local q = copy(given)
  local o = check.record("tperf.saturation", { tolerance = given.tolerance, count = given.count }, own)
  q.tolerance, q.count = nil, nil
  saturation.check_load("tperf.saturation", q.load, "the rate is looked for")
  local tell = progress.start "tperf: simulating run"
  local result = saturation.find(q, o.tolerance, o.count, tell)
  tell()
  return result
end

return saturation
