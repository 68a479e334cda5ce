--- tperf.anchor: one's own run as the anchor of predictions: a software profile whose kernels, traffic, exchanges and
--- host take as much longer, each by the same factor, as the run took. It goes with what-ifs: more GPUs, another
--- precision, another machine.
local check = require "tperf.base.check"
local catalogue = require "tperf.base.catalogue"
local lazy = require "tperf.base.lazy"
local software = catalogue.shared(require "tperf.describe.software")
local runtime = require "tperf.describe.profile"
local text_file = require "tperf.input.text"
local train = require "tperf.question.train"

local anchor = {}

-- The terms of a profile that one measured time moves.
local TERMS <const> = { "compute", "attention", "memory", "comm", "host" }
local LEAST <const>, MOST <const> = 0.2, 5 -- factors beyond which the arguments are not those of the run
local NEAR <const> = 1e-9

-- Lines of logs: patterns of what they print for each iteration, and the unit; iterations before FIRST warm up.
local LOGS <const> = {
  { "elapsed time per iteration %(ms%): ([%d.]+)", "ms" }, -- Megatron-LM, NeMo, MindSpeed
  { "completed step: %d+, seconds: ([%d.]+)", "s" }, -- MaxText
  { "train_step_timing in s: ([%d.]+)", "s" }, -- NeMo
  { "tps: ([%d.,]+)", "tokens/s/GPU" }, -- torchtitan
}
local FIRST <const> = 3

-- Seconds of an iteration, from a number in a unit and the prediction, which knows the iteration's tokens and FLOPs.
local UNITS <const> = {
  s = function(x) return x end, ms = function(x) return x / 1e3 end,
  ["tokens/s"] = function(x, c) return c.tokens_per_second * c.time / x end,
  ["tokens/s/GPU"] = function(x, c) return c.tokens_per_second_per_gpu * c.time / x end,
  ["samples/s"] = function(x, c) return c.sequences_per_second * c.time / x end,
  ["% MFU"] = function(x, c) return 100 * c.mfu * c.time / x end,
}
local SCALES <const> = { [""] = 1, k = 1e3, M = 1e6 }

local function known() return table.concat(check.names(UNITS), ", ") end

-- The median of what a log prints, and its unit.
local function of_log(path)
  local values, unit = {}, nil
  local read, problem = check.attempt(text_file.each_line, path, function(line)
    for _, log in ipairs(LOGS) do
      local number = (not unit or unit == log[2]) and line:match(log[1])
      if number then values[#values + 1], unit = tonumber((number:gsub(",", ""))), log[2] end
    end
  end)
  if not read then
    check.fail("tperf.anchor needs a measured rate, a number above 0 and one of %s, or the name of a log: %s", known(),
      problem)
  end
  if #values <= FIRST then
    check.fail("tperf.anchor: %s has %d lines with the time of an iteration as Megatron-LM, MaxText, NeMo or "
      .. "torchtitan print it; more than %d are needed, as the first ones warm up", path, #values, FIRST)
  end
  values = table.move(values, FIRST + 1, #values, 1, {})
  table.sort(values)
  return values[(#values + 1) // 2], unit
end

--- A measured rate in words, "380 tokens/s/GPU", or the median of a log's iterations.
---@param said string
---@return number value
---@return string unit
function anchor.read(said)
  local number, scale, unit = said:match "^%s*([%d.]+[eE]?[+-]?%d*)%s*([kM]?)%s*([%a%%].-)%s*$"
  if number and UNITS[unit] and tonumber(number) and tonumber(number) > 0 then
    return tonumber(number) * SCALES[scale], unit
  end
  if tonumber((said:match "^%s*([%d.]+)")) then
    check.fail("tperf.anchor: \"%s\" is no measured rate: a number above 0 and one of %s, or the name of a log", said,
      known())
  end
  return of_log(said)
end

-- What a profile says of the runs that it was fitted to.
local OF_RUNS <const> = { error = true, error90 = true, runs = true, reach = true, like = true }

local function moved(profile, factor)
  local made = {}
  for name, value in next, lazy.settle(profile) do made[name] = not OF_RUNS[name] and value or nil end
  made.name = profile.name:gsub("%-anchored$", "") .. "-anchored"
  made.source = ("%s, its %s times %.4g: the anchor of a measured run"):format(profile.name,
    table.concat(TERMS, ", "), factor)
  made.spread = software(runtime.USUAL).reach
  for _, name in ipairs(TERMS) do made[name] = profile[name] * factor end
  return software(made)
end

-- The factor at which a question takes so many seconds: time grows with it.
local function factor_of(time, seconds)
  local low, high = LEAST, MOST
  local shortest, longest = time(low), time(high)
  if seconds < shortest or seconds > longest then
    check.fail("tperf.anchor: the run took %.4g s an iteration; with %g to %g times the profile's times it would take "
      .. "%.4g s to %.4g s: are the arguments those of the run?", seconds, low, high, shortest, longest)
  end
  while high / low - 1 > NEAR do
    local middle = math.sqrt(low * high)
    if time(middle) < seconds then low = middle else high = middle end
  end
  return math.sqrt(low * high)
end

--- Moves a software profile so that it predicts a run as it was measured. A what-if is then a question with this
--- profile. Of runs unlike it, nine tenths take what `reach` of `typical` says: its interval.
---@param given table  the arguments of tperf.train that describe the run
---@param measured string  what was measured: a number and s, ms, tokens/s, tokens/s/GPU, samples/s or % MFU, such as
---   "380 tokens/s/GPU"; or a log of Megatron-LM, NeMo, MaxText or torchtitan: its iterations' median
---@return table result { software = the profile, for tperf.train and tperf.search; factor = that of its compute,
---   attention, memory, comm and host; measured, unit; seconds = of an iteration, measured; predicted = without the
---   anchor; inside = whether the interval of that answer holds it (nil: it has none) }
function anchor.of(given, measured)
  if type(given) ~= "table" or type(measured) ~= "string" then
    check.fail "tperf.anchor needs the arguments of tperf.train, and what was measured as text"
  end
  if given.software == runtime.NONE then
    check.fail "tperf.anchor moves a software profile, and software = \"none\" has none"
  end
  local value, unit = anchor.read(measured)
  local question = {}
  for name, field in pairs(given) do question[name] = field end
  question.simulate, question.explain = nil, nil
  local c = train.run(question)
  local base = software(given.software or c.software)
  local seconds = UNITS[unit](value, c)
  local function time(factor)
    question.software = moved(base, factor)
    return train.run(question).time
  end
  local factor = factor_of(time, seconds)
  local inside = c.interval and seconds >= c.interval.low and seconds <= c.interval.high
  return { software = moved(base, factor), factor = factor, measured = value, unit = unit, seconds = seconds,
    predicted = c.time, inside = inside }
end

return anchor
