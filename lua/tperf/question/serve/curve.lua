--- tperf.load_curve: a deployment's latency at increasing rates, up to its capacity. docs/serving.md.
local check = require "tperf.base.check"
local drawn = require "tperf.question.serve.load"
local progress = require "tperf.base.progress"
local questions = require "tperf.question.ranks.questions"
local saturation = require "tperf.question.serve.saturation"
local serve = require "tperf.question.serve"
local steady = require "tperf.question.serve.steady"

local curve = {}

local own = {
  rates = check.list(check.number { above = 0, max = 1e9 }, { min = 1, max = 1000, optional = true }),
  points = check.integer { min = 2, max = 1000, default = 12 },
  count = check.integer { min = 100, max = 1 << 30, default = drawn.COUNT },
}
local CAPACITY <const>, EFFORT <const> = 0.02, 8000 -- relative precision of the largest rate; requests that decide

-- Rates that become denser towards the largest, where latencies rise.
local function spread(most, points)
  local rates = {}
  for i = 1, points do rates[i] = most * (1 - (1 - i / points) ^ 1.5) end
  return rates
end

--- Latency against load: one run for each rate, all drawing the same requests.
---@param given table  as for tperf.serve, except that load gives only the spread of arrivals (process, cv, burst);
---  rates   requests a second; by default `points` rates up to the largest at which waits do not grow
---  points  number of rates (12)
---  count   minimum number of requests of a run (1,000); more until it is steady
---@return table[] rows  { rate, served = tperf.serve's result }
function curve.run(given)
  if type(given) ~= "table" then check.fail("tperf.load_curve needs a table, got %s", check.show(given)) end
  local q, mine = {}, {}
  for name, value in pairs(given) do
    if own[name] then mine[name] = value else q[name] = value end
  end
  local o = check.record("tperf.load_curve", mine, own)
  saturation.check_load("tperf.load_curve", q.load, "'rates' says what comes")
  local tell = progress.start "tperf: simulating rate"
  local free, ask = saturation.without_limits(q), questions.prepared(serve.run)
  local how = { effort = EFFORT, unconfirmed = true }
  local found = not o.rates and saturation.find(free, CAPACITY, o.count, tell, ask, how)
  local list = {}
  for i, rate in ipairs(o.rates or spread(found.rate, o.points)) do
    tell(i, o.rates and #o.rates or o.points)
    list[i] = { rate = rate, served = q.requests and ask(saturation.at(q, rate))
      or steady.sized(function(count) return ask(saturation.at(q, rate, count)) end, o.count) }
  end
  tell()
  return list
end

return curve
