--- Uncertain inputs, carried through any question to quantiles, a tornado and shares of the variance.
local check = require "tperf.base.check"
local core = require "tperf.core"
local normal = require "tperf.question.goodput.normal"
local progress = require "tperf.base.progress"
local refusal = require "tperf.base.refusal"
local arguments_at = require "tperf.question.sweep.point"
local own = require "tperf.question.sweep.own"
local sample = require "tperf.question.sweep.sample"
local search = require "tperf.question.search"

local uncertain = {}

local WHAT <const> = "tperf.propagate"
local Z <const> = 1.6448536269514722 -- of the normal distribution's quantile 0.95
local SHAPES <const> = { uniform = true, normal = true, lognormal = true }

local metatable = { __name = "tperf.uncertain" }

local function is_number(value) return type(value) == "number" and value - value == 0 end

--- An input that is known within bounds, for tperf.propagate.
---@param given table  { low, high }, or an answer's interval { low =, high = }
---  shape   "uniform" (default of { low, high }): every value between them is as likely; "normal" or "lognormal"
---          (default of an interval above 0): nine tenths lie between them, as in tperf's intervals
---@return table
function uncertain.input(given)
  local what = "tperf.uncertain"
  if type(given) ~= "table" then check.fail("%s needs { low, high }, got %s", what, check.show(given)) end
  local low, high, shape = given[1], given[2], given.shape
  if given.low ~= nil then
    low, high = given.low, given.high
    shape = shape or (is_number(low) and low > 0 and "lognormal" or "normal")
  end
  if not (is_number(low) and is_number(high) and low < high) then
    check.fail("%s needs { low, high } with low below high, got { %s, %s }", what, check.show(low), check.show(high))
  end
  shape = shape or "uniform"
  if not SHAPES[shape] then
    check.fail("%s: 'shape' must be one of lognormal, normal, uniform, got %s", what, check.show(shape))
  end
  if shape == "lognormal" and low <= 0 then check.fail("%s: a lognormal input is above 0", what) end
  return setmetatable({ low = low, high = high, shape = shape }, metatable)
end

-- The value of an input at the quantile u.
local function value_at(input, u)
  if input.shape == "uniform" then return input.low + u * (input.high - input.low) end
  local z = normal.quantile(math.min(math.max(u, 1e-12), 1 - 1e-12)) / Z
  if input.shape == "normal" then
    return (input.low + input.high) / 2 + z * (input.high - input.low) / 2
  end
  return math.sqrt(input.low * input.high) * (input.high / input.low) ^ (z / 2)
end

-- Splits arguments into uncertain ones by path, also within plain tables, and the others.
local function split(given, prefix, found)
  local fixed = {}
  for name, value in pairs(given) do
    local path = prefix and prefix .. "." .. tostring(name) or name
    if getmetatable(value) == metatable then
      found[path] = value
    elseif type(value) == "table" and getmetatable(value) == nil then
      fixed[name] = split(value, path, found)
    else
      fixed[name] = value
    end
  end
  return fixed
end

local OPTIONS <const> = { run = true, field = true, samples = true, seed = true, progress = true }

local function options_of(given)
  if type(given) ~= "table" then check.fail("%s needs a table of arguments, got %s", WHAT, check.show(given)) end
  local o, arguments = {}, {}
  for name, value in pairs(given) do
    if OPTIONS[name] then o[name] = value else arguments[name] = value end
  end
  o.samples, o.field, o.seed = o.samples or 1024, o.field or "time", o.seed or 1
  if math.type(o.samples) ~= "integer" or o.samples < 16 or o.samples > 1 << 20 then
    check.fail("%s: 'samples' must be an integer from 16 to %d, got %s", WHAT, 1 << 20, check.show(o.samples))
  end
  if type(o.field) ~= "string" then check.fail("%s: 'field' must be a name, got %s", WHAT, check.show(o.field)) end
  if math.type(o.seed) ~= "integer" then
    check.fail("%s: 'seed' must be an integer, got %s", WHAT, check.show(o.seed))
  end
  if type(o.run) ~= "function" then check.fail("%s: 'run' must be a function, got %s", WHAT, check.show(o.run)) end
  return o, arguments
end

-- The figure of an answer: a field such as "memory.total", of a search's best configuration.
local function figure_of(o, answer)
  if type(answer) == "number" then return answer end
  if o.run == search.run then answer = answer[1] end
  for name in o.field:gmatch "[^.]+" do
    answer = type(answer) == "table" and answer[name] or nil
  end
  if not is_number(answer) then check.fail("%s: the answer has no number '%s'", WHAT, o.field) end
  return answer
end

-- A function from the inputs' quantiles to the figure; nil and the reason where the question is refused.
local function model_of(o, arguments)
  local inputs = {}
  local fixed = split(arguments, nil, inputs)
  local paths = next(inputs) and check.names(inputs) or {}
  if #paths == 0 then
    check.fail("%s: nothing is uncertain; give an argument as tperf.uncertain { low, high }", WHAT)
  end
  local build = arguments_at.builder(fixed, paths)
  local function ask(values)
    local answer, reason = refusal.attempt(function()
      return o.run(own.copy(build(values)))
    end)
    if reason then return nil, reason end
    return figure_of(o, answer)
  end
  return paths, inputs, function(quantiles)
    local values = {}
    for k, path in ipairs(paths) do values[path] = value_at(inputs[path], quantiles[k]) end
    return ask(values)
  end
end

local function quantile(sorted, q)
  local at = 1 + (#sorted - 1) * q
  local below = math.floor(at)
  local above = math.min(below + 1, #sorted)
  return sorted[below] + (at - below) * (sorted[above] - sorted[below])
end

local QUANTILES <const> = { 0.05, 0.25, 0.5, 0.75, 0.95 }

local function summary_of(values)
  local sorted, mean, variance = table.move(values, 1, #values, 1, {}), 0, 0
  table.sort(sorted)
  for _, value in ipairs(values) do mean = mean + value / #values end
  for _, value in ipairs(values) do variance = variance + (value - mean) ^ 2 / (#values - 1) end
  local quantiles = {}
  for i, q in ipairs(QUANTILES) do quantiles[i] = { q = q, value = quantile(sorted, q) } end
  return { mean = mean, deviation = math.sqrt(variance), low = quantiles[1].value, high = quantiles[5].value,
    median = quantiles[3].value, quantiles = quantiles }, variance
end

-- Each input at the ends of nine tenths of its values, the others at their medians.
local function tornado_of(paths, inputs, model)
  local rows, middle = {}, {}
  for k in ipairs(paths) do middle[k] = 0.5 end
  local base = model(middle)
  for k, path in ipairs(paths) do
    local function at(q)
      local quantiles = table.move(middle, 1, #middle, 1, {})
      quantiles[k] = q
      return model(quantiles)
    end
    local low, high = at(0.05), at(0.95)
    rows[k] = { input = path, from = value_at(inputs[path], 0.05), to = value_at(inputs[path], 0.95), low = low,
      high = high, base = base, swing = low and high and math.abs(high - low) or 0 }
  end
  table.sort(rows, function(a, b)
    if a.swing ~= b.swing then return a.swing > b.swing end
    return a.input < b.input
  end)
  return rows
end

local WIDE <const> = 10 -- dimensions from which on the Halton sequence is no longer even

-- Pairs of points, each of as many dimensions as there are inputs.
local function pairs_of(o, dimensions)
  local points = 2 * dimensions <= WIDE and sample.halton_points(o.samples, 2 * dimensions)
    or sample.latin_points(o.samples, 2 * dimensions, o.seed)
  local a, b = {}, {}
  for i, point in ipairs(points) do
    a[i] = table.move(point, 1, dimensions, 1, {})
    b[i] = table.move(point, dimensions + 1, 2 * dimensions, 1, {})
  end
  return a, b
end

-- First-order and total shares of the variance (Saltelli et al. 2010, table 2, b and f).
local function shares_of(paths, a, b, of_a, of_b, tick, model)
  local rows = {}
  for k, path in ipairs(paths) do
    local first, total, n, mean, square = 0, 0, 0, 0, 0
    for i in ipairs(a) do
      local mixed = table.move(a[i], 1, #a[i], 1, {})
      mixed[k] = b[i][k]
      local value = of_a[i] and of_b[i] and model(mixed)
      if value then
        first, total, n = first + of_b[i] * (value - of_a[i]), total + (of_a[i] - value) ^ 2, n + 1
        mean, square = mean + of_a[i] + of_b[i], square + of_a[i] ^ 2 + of_b[i] ^ 2
      end
      tick()
    end
    local variance = n > 1 and square / (2 * n) - (mean / (2 * n)) ^ 2 or 0
    rows[k] = { input = path, share = variance > 0 and first / n / variance or 0,
      total = variance > 0 and total / (2 * n) / variance or 0 }
  end
  table.sort(rows, function(x, y)
    if x.total ~= y.total then return x.total > y.total end
    return x.input < y.input
  end)
  return rows
end

--- Carries uncertain inputs through a question: asks it at samples x (inputs + 2) points, and at two more for
--- each input.
---@param given table
---  run      tperf.train, any other question, or a function(arguments) that returns a table or a number
---  …        its arguments, some of them tperf.uncertain { low, high }, also within tables and by path:
---           ["system.network.fast.bandwidth"] = tperf.uncertain { 4e11, 4.5e11 }
---  field    the figure of the answer ("time"), such as "memory.total"; of a search, of its best configuration
---  samples  (1024)
---  seed     of the Latin hypercube that more than five inputs are drawn from (1)
---  progress false: no progress line
---@return table record
---  mean, deviation, low, median, high   of the figure; nine tenths lie from low to high
---  quantiles   { { q, value } … } for 0.05, 0.25, 0.5, 0.75 and 0.95
---  tornado     { { input, from, to, low, high, base, swing } … }, the widest first: the figure with one input at its
---              quantiles 0.05 (from) and 0.95 (to), the others at their medians
---  shares      { { input, share, total } … }: parts of the variance, by the input alone and with its interactions
---  samples     number of points that the quantiles are of; refused: how many were refused, and reason: the first
function uncertain.propagate(given)
  local o, arguments = options_of(given)
  local paths, inputs, model = model_of(o, arguments)
  local a, b = pairs_of(o, #paths)
  local show = o.progress == false and function() end or progress.start(WHAT)
  local done, all, refused, reason = 0, o.samples * (#paths + 2), 0, nil
  local function tick()
    done = done + 1
    show(done, all)
    if core.search.interrupted() then check.fail("%s: interrupted after %d of %d points", WHAT, done, all) end
  end
  local of, values = { {}, {} }, {}
  for side, points in ipairs { a, b } do
    for i, point in ipairs(points) do
      local value, why = model(point)
      of[side][i] = value or false
      values[#values + 1] = value
      if not value then refused, reason = refused + 1, reason or why end
      tick()
    end
  end
  if #values < 2 then refusal.raise("%s: %d of %d points are refused; the first: %s", WHAT, refused, 2 * #a, reason) end
  local result = summary_of(values)
  result.shares = shares_of(paths, a, b, of[1], of[2], tick, model)
  result.tornado = tornado_of(paths, inputs, model)
  result.samples, result.refused, result.reason = #values, refused, reason
  show()
  return result
end

return uncertain
