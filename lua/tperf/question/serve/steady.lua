--- The steady state of a load: how many requests a run needs until its figures are those of a load that lasts, and the
--- figures of a run's middle. docs/serving.md has the rules.
local load = require "tperf.question.serve.load"

local steady = {}

local TIMES <const> = 4 -- the middle of a run is so many times as long as a request is in an engine
steady.MOST = 1 << 16 -- requests of a run that is made longer
local MEAN <const>, TAIL <const> = 0.02, 0.1 -- how far twice as long a run may move a mean, and a 99th percentile

--- Whether a load goes on at one rate. A list with arrivals of its own, and stages, are answered as they are.
---@param o table  checked arguments of tperf.serve
function steady.lasts(o)
  local given = o.load
  return given ~= nil and (given.rate or given.concurrency) ~= nil
end

-- Whether a run has rates, and latencies, of a steady state. s: the core's steadiness.
local function has(s)
  local least = TIMES * s.residence
  return s.middle > 0 and s.middle >= least, s.undisturbed > 0 and s.undisturbed >= least
end

-- Whether a run reached its steady state. Where arrivals outrun the engines, only the rate has one.
local function is_steady(r)
  local rates, latencies = has(r.steadiness)
  return r.finished == 0 or rates and (latencies or r.saturated)
end

local WHOLE <const> = { "ttft", "tpot", "e2e", "tokens_per_second", "requests_per_second", "goodput", "attainment" }

--- Puts the figures of a run's middle in place of the whole run's, which `whole` of the result keeps.
---@param r table  the result, with figures of the whole run, `steadiness` and `middle` of the core
---@param o table  checked arguments of tperf.serve
function steady.settle(r, o)
  local s, m, lasts = r.steadiness, r.middle, steady.lasts(o)
  r.steady = not lasts or is_steady(r)
  r.steadiness, r.middle = nil, nil
  if not lasts or r.finished == 0 then return s end
  r.ramp_up, r.drain = s.ramp_up, s.drain
  if not r.steady then return s end
  r.whole = {}
  for _, name in ipairs(WHOLE) do r.whole[name] = r[name] end
  if o.load.rate and not r.saturated then -- all that comes is served
    r.requests_per_second = o.load.rate * r.finished / (r.finished + r.rejected)
    r.tokens_per_second = r.requests_per_second * r.output_tokens / r.finished
  else
    r.tokens_per_second, r.requests_per_second = s.tokens / s.middle, s.completed / s.middle
  end
  local _, latencies = has(s)
  if not latencies then return s end
  r.ttft, r.tpot, r.e2e = m.ttft, m.tpot, m.e2e
  if o.slo and m.finished + m.rejected > 0 then
    r.attainment = m.good / (m.finished + m.rejected)
    r.goodput = r.requests_per_second * m.good / math.max(m.finished, 1)
  end
  return s
end

local function moved(a, b, part)
  return a and b and math.abs(b / a - 1) > part
end

-- Whether a run says what one of half as many requests said: as near as chance lets the shorter one be.
local function agrees(before, r, count)
  local chance = math.max(MEAN, 3 / math.sqrt(count / 2))
  if moved(before.requests_per_second, r.requests_per_second, chance) then return false end
  if moved(before.tpot and before.tpot.mean, r.tpot and r.tpot.mean, MEAN) then return false end
  if r.saturated then return before.saturated end
  for _, name in ipairs { "ttft", "tpot", "e2e" } do
    if moved(before[name] and before[name].p99, r[name] and r[name].p99, TAIL) then return false end
  end
  return not moved(before.e2e and before.e2e.mean, r.e2e and r.e2e.mean, chance)
end

--- How many requests to run after a run of `count`: twice as many, or as many as a middle needs that lasts TIMES times
--- as long as ramp-up, which is longer than requests are in an engine.
---@param r table  the run's result
---@param count integer
---@return integer  at most steady.MOST
function steady.more(r, count)
  local span = r.duration - (r.drain or 0)
  local needed = not r.steady and span > 0 and (TIMES + 2) * r.ramp_up / span or 0
  return math.min(math.max(2 * count, math.ceil(math.min(needed, 2 * TIMES) * count)), steady.MOST)
end

--- Runs more and more requests until a run is steady.
---@param run fun(count: integer): table  a result with `steady`
---@param count? integer  of the first run
---@param settled? boolean  until twice as many give the same figures, too
---@return table result
function steady.sized(run, count, settled)
  count = count or load.COUNT
  local before
  while true do
    local r = run(count)
    if r.steady and (not settled or before and agrees(before, r, count)) then return r end
    if count >= steady.MOST then
      r.unsettled = r.steady or nil
      return r
    end
    before = r.steady and r or nil
    count = steady.more(r, count)
  end
end

return steady
