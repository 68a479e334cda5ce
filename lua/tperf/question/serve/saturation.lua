--- tperf.saturation: the largest rate that a deployment serves within limits. docs/serving.md.
local check = require "tperf.base.check"
local drawn = require "tperf.question.serve.load"
local progress = require "tperf.base.progress"
local questions = require "tperf.question.ranks.questions"
local refusal = require "tperf.base.refusal"
local serve = require "tperf.question.serve"
local units = require "tperf.base.units"

local saturation = {}

local LONE <const> = 200 -- requests, one at a time
local TIMES <const> = 20 -- a run is at least this many times as long as a request takes
local DOUBLINGS <const>, HALVINGS <const> = 40, 7 -- of the rate of one request at a time

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

--- Whether a run keeps its limits; without limits, whether it keeps up with the arrivals.
function saturation.holds(r) return not r.saturated and (r.slo_met == nil or r.slo_met) end

--- A question to tperf.serve at a given rate, long enough for queues to settle.
---@param q table       the question, whose load gives the spread of arrivals
---@param rate number   requests a second
---@param answer number seconds that a lone request takes
---@param count integer minimum number of requests
function saturation.at(q, rate, answer, count)
  local one, load = copy(q), copy(q.load or {})
  load.rate = rate
  one.load = load
  if not q.requests then one.count = math.max(count, math.ceil(TIMES * rate * answer)) end
  return one
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

--- Bisects between a rate that holds and one that does not.
---@param q table          a question to tperf.serve; load without a rate
---@param tolerance number part of the rate
---@param count integer
---@param tell function?   called after each run
---@param ask? function     tperf.serve, prepared
---@return table result  of tperf.saturation
function saturation.find(q, tolerance, count, tell, ask)
  ask = ask or questions.prepared(serve.run)
  local lone, runs = saturation.lone(q, ask), 1
  if lone.slo_met == false then
    return { rate = 0, runs = 1, reason = too_slow("one after the other,", lone) }
  end
  if not lone.e2e then return { rate = 0, runs = 1, reason = "every request is rejected" } end
  local low, best, high, last = 0, lone, nil, nil
  local function try(rate)
    last = ask(saturation.at(q, rate, lone.e2e.mean, count))
    runs = runs + 1
    if tell then tell(runs) end
    if saturation.holds(last) then low, best = rate, last else high = rate end
    return low > 0 and high
  end
  local rate, tries = (q.replicas or 1) / lone.e2e.mean, 0
  while not try(rate) and tries < (high and HALVINGS or DOUBLINGS) do
    rate, tries = high and rate / 2 or rate * 2, tries + 1
  end
  if low == 0 then return { rate = 0, runs = runs, reason = too_slow(
    ("even at %.3g requests/s"):format(high), last) } end
  while high and high / low > 1 + tolerance do try((low + high) / 2) end
  return { rate = low, above = high, served = best, runs = runs, answer = lone.e2e.mean, warnings = best.warnings }
end

--- saturation.find's result as plain data: { rate, answer, reason }; the reason may be that of a refusal.
---@param ask? function  tperf.serve, prepared
function saturation.attempt(q, tolerance, count, ask)
  local found, why = refusal.attempt(saturation.find, q, tolerance, count, nil, ask)
  return found and { rate = found.rate, answer = found.answer, reason = found.reason } or { rate = 0, reason = why }
end

--- The largest rate, in requests a second, at which a deployment keeps its limits: a run holds if at least
--- slo.quantile of the requests keep all of them and waits do not grow with the run's length. Bisects over runs that
--- draw the same requests, on the assumption that every rate below one that holds also holds.
---@param given table  as for tperf.serve, except that load gives only the spread of arrivals (process, cv, burst);
---  tolerance  relative precision of the rate (0.01)
---  count      minimum number of requests of a run (1,000); more if more arrive in 20 times a request's latency
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
