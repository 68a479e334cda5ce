--- What a fit of a few parameters minimises, and how its result is judged. Residuals are log(predicted / measured):
--- twice too high counts as much as twice too low, and outliers count little.
local fit = {}

local BEND <const>, FLATTER <const> = 0.3, 0.3 -- the residual beyond which the loss grows more slowly, and how fast

-- Loss of one residual (piecewise linear).
local function size_of(residual)
  local size = residual < 0 and -residual or residual
  return size < BEND and size or BEND + FLATTER * (size - BEND)
end

--- The sum of what residuals count, each by its weight (1).
---@param residuals number[]
---@param weights number[]?
---@return number
function fit.loss(residuals, weights)
  local sum = 0
  for i = 1, #residuals do sum = sum + (weights and weights[i] or 1) * size_of(residuals[i]) end
  return sum
end

--- How fast the loss grows with a residual's absolute value.
function fit.steepness(residual) return -BEND < residual and residual < BEND and 1 or FLATTER end

-- The quantile `part` of a list of numbers (default: the median).
local function quantile(list, part)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  local at = 1 + (part or 0.5) * (#sorted - 1)
  local low = math.floor(at)
  local high = math.min(low + 1, #sorted)
  return #sorted > 0 and sorted[low] + (at - low) * (sorted[high] - sorted[low]) or nil
end

--- Groups cases by one of their fields, or by the result of `key`.
---@param cases table[]
---@param key string|function
---@return table<any, table[]> groups
---@return any[] names  in order of appearance
function fit.groups(cases, key)
  local groups, names = {}, {}
  for _, case in ipairs(cases) do
    local name = type(key) == "function" and key(case) or case[key]
    if not groups[name] then
      groups[name] = {}
      names[#names + 1] = name
    end
    table.insert(groups[name], case)
  end
  return groups, names
end

--- Errors of predictions relative to the measurements: number of rows, the median, mean, 90th percentile and maximum
--- of the absolute errors, and the bias, the median signed error; without rows only their number.
---@param ratios number[]  predicted / measured
function fit.errors(ratios)
  local errors, signed, sum = {}, {}, 0
  for i, ratio in ipairs(ratios) do
    signed[i] = ratio - 1
    errors[i] = math.abs(signed[i])
    sum = sum + errors[i]
  end
  return {
    rows = #ratios, median = quantile(errors), mean = ratios[1] and sum / #ratios, p90 = quantile(errors, 0.9),
    max = quantile(errors, 1), bias = quantile(signed),
  }
end

-- { at, part }: log(measured / predicted) of all lists in order, each list with the same weight, and the expected part
-- of further runs below each: i / (n + 1) below the i-th of n equal ones (Wilks, 1941), so that few runs give wide
-- intervals. With unequal weights, n is Kish's effective sample size (1965).
local function ranked(lists, most)
  local points, square, below, all = {}, 0, 0, 0
  local function weight_of(ratios) return most and math.min(#ratios, most) or 1 end
  for _, ratios in ipairs(lists) do all = all + weight_of(ratios) end
  for _, ratios in ipairs(lists) do
    local weight = weight_of(ratios) / (all * #ratios)
    for _, ratio in ipairs(ratios) do
      points[#points + 1] = { at = -math.log(ratio), weight = weight }
      square = square + weight ^ 2
    end
  end
  table.sort(points, function(a, b) return a.at < b.at end)
  local n = 1 / square
  for _, point in ipairs(points) do
    point.part = (n * (below + point.weight / 2) + 0.5) / (n + 1)
    below = below + point.weight
  end
  return points
end

-- The quantile `part` of ranked points. Beyond the outermost points, tails fall off exponentially from the middle.
local function place(points, part)
  local first, last = points[1], points[#points]
  local edge = part < first.part and first or part > last.part and last
  if edge then
    local middle = place(points, 0.5)
    local tail, known = math.min(part, 1 - part), math.min(edge.part, 1 - edge.part)
    return middle + (edge.at - middle) * math.log(2 * tail) / math.log(2 * known)
  end
  for i = 2, #points do
    local a, b = points[i - 1], points[i]
    if part <= b.part then return a.at + (b.at - a.at) * (part - a.part) / (b.part - a.part) end
  end
end

--- The interval of times relative to the prediction that holds nine tenths of runs.
---@param lists number[][]  predicted / measured of runs held out; each list has the same weight
---@param most integer?     or the weight of its runs, but of so many at most
---@return number[]?  { low, high }: the 5 % and 95 % quantiles of measured / predicted; nil for fewer than two runs
function fit.spread(lists, most)
  local points = ranked(lists, most)
  if #points < 2 then return nil end
  return { math.exp(place(points, 0.05)), math.exp(place(points, 0.95)) }
end

local exp, log = math.exp, math.log

--- The ends of a parameter's range; of one above zero, their logarithms.
---@param p table  { low =, high = }
---@return number low, number high
function fit.ends(p)
  if p.low > 0 then return log(p.low), log(p.high) end
  return p.low, p.high
end

--- A value's place in the range, from 0 to 1.
function fit.inward(p, value)
  local low, high = fit.ends(p)
  return ((p.low > 0 and log(value) or value) - low) / (high - low)
end

--- The value at a place of the range; beyond it, that at its end.
function fit.outward(p, x)
  local low, high = fit.ends(p)
  local value = low + x * (high - low)
  return math.max(p.low, math.min(p.high, p.low > 0 and exp(value) or value))
end

-- The values with one parameter moved by a part of its range.
local function moved(values, p, by)
  local changed = {}
  for name, value in pairs(values) do changed[name] = value end
  changed[p.name] = fit.outward(p, fit.inward(p, values[p.name]) + by)
  return changed
end

local QUARTER <const> = 0.25 -- of a parameter's range

--- The names of parameters that the data leave open: moving one a quarter of its range either way changes the loss by
--- less than `least` (relative).
function fit.undetermined(parameters, values, objective, least)
  local open, base = {}, objective(values)
  for _, p in ipairs(parameters) do
    local change = 0
    for _, by in ipairs { -QUARTER, QUARTER } do
      change = math.max(change, objective(moved(values, p, by)) - base)
    end
    if change < (least or 1e-3) * math.max(base, 1e-3) then open[#open + 1] = p.name end
  end
  return open
end

local function length_of(v)
  local sum = 0
  for i = 1, #v do sum = sum + v[i] ^ 2 end
  return math.sqrt(sum)
end

-- The component of v orthogonal to a set of orthonormal vectors.
local function remainder(v, basis)
  local left = table.move(v, 1, #v, 1, {})
  for _ = 1, 2 do -- twice, against rounding errors
    for _, unit in ipairs(basis) do
      local part = 0
      for i = 1, #v do part = part + left[i] * unit[i] end
      for i = 1, #v do left[i] = left[i] - part * unit[i] end
    end
  end
  return left
end

-- An orthonormal basis of the span of a list of vectors, except the one at `without`.
local function span(vectors, without)
  local basis = {}
  for j, v in ipairs(vectors) do
    local left = remainder(v, basis)
    local length = length_of(left)
    if j ~= without and length > 1e-9 * length_of(v) then
      for i = 1, #left do left[i] = left[i] / length end
      basis[#basis + 1] = left
    end
  end
  return basis
end

local NORMAL <const> = 1.48 -- standard deviation over the median absolute error

--- The names of parameters that the data would determine only if the others were known: the others can compensate a
--- change of one, so that its standard error is more than a quarter of its range. For example, points that are all
--- alike give one time, whatever the number of parameters.
---@param parameters table[]
---@param values table        the fitted values
---@param residuals fun(values: table): number[]  log(predicted / measured) of every point
---@return string[]
function fit.entangled(parameters, values, residuals)
  local STEP <const> = 0.01 -- of a parameter's range
  local slopes, open, at = {}, {}, residuals(values)
  local sizes = {}
  for i, r in ipairs(at) do sizes[i] = math.abs(r) end
  local noise = math.max(NORMAL * (quantile(sizes) or 0), 1e-3)
  for j, p in ipairs(parameters) do
    local by = fit.inward(p, values[p.name]) < 0.5 and STEP or -STEP -- never out of the range
    local list = residuals(moved(values, p, by))
    for i = 1, #at do list[i] = (list[i] - at[i]) / by end
    slopes[j] = list
  end
  for j, p in ipairs(parameters) do
    local alone, together = length_of(slopes[j]), length_of(remainder(slopes[j], span(slopes, j)))
    if noise <= QUARTER * alone and noise > QUARTER * together then open[#open + 1] = p.name end
  end
  return open
end

--- The third, 0 to 2, that row i belongs to: scattered, but fixed for a salt.
function fit.third(i, salt)
  local h = (i * 2654435761 + (salt or 0) * 40503) & 0xffffffff
  h = (h ~ h >> 15) * 2246822519 & 0xffffffff
  return (h ~ h >> 13) % 3
end

--- Whether row i is held back from a fit: the first third.
function fit.held_back(i, salt)
  return fit.third(i, salt) == 0
end

return fit
