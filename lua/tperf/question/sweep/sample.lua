--- Points that fill a space evenly without a grid, for sweeps over many arguments.
local check = require "tperf.base.check"
local vary = require "tperf.question.sweep.vary"

local sample = {}

local PRIMES <const> = { 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71 }
local MOST <const> = 1 << 24 -- points

-- The digits of i in a base, mirrored at the point: 6 = 110 in base 2 gives 0.011 = 3/8.
local function mirrored(i, base)
  local value, part = 0.0, 1.0
  while i > 0 do
    part = part / base
    value, i = value + part * (i % base), i // base
  end
  return value
end

--- The first n points of the Halton sequence in `dimensions` dimensions (Halton 1960), each a list of numbers from 0 to
--- 1.
---@param n integer
---@param dimensions integer
---@return number[][]
function sample.halton_points(n, dimensions)
  local points = {}
  for i = 1, n do
    local point = {}
    for k = 1, dimensions do point[k] = mirrored(i, PRIMES[k]) end
    points[i] = point
  end
  return points
end

-- A generator of numbers from 0 to 1 that needs no state of the program: splitmix64 (Steele, Lea and Flood 2014).
local function generator(seed)
  local state = seed
  return function()
    state = state + 0x9E3779B97F4A7C15
    local z = state
    z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ~ (z >> 27)) * 0x94D049BB133111EB
    return ((z ~ (z >> 31)) >> 11) * 2.0 ^ -53
  end
end

--- n points of a Latin hypercube (McKay, Beckman and Conover 1979): each n-th of every dimension has one of them.
---@param n integer
---@param dimensions integer
---@param seed integer
---@return number[][]
function sample.latin_points(n, dimensions, seed)
  local random, points = generator(seed), {}
  for i = 1, n do points[i] = {} end
  for k = 1, dimensions do
    local strata = {}
    for i = 1, n do strata[i] = i - 1 end
    for i = n, 2, -1 do
      local j = math.floor(random() * i) + 1
      strata[i], strata[j] = strata[j], strata[i]
    end
    for i = 1, n do points[i][k] = (strata[i] + random()) / n end
  end
  return points
end

local RANGE <const> = { [1] = check.any(), [2] = check.any(), log = check.boolean { default = false },
  integer = check.boolean { default = false }, choices = check.list(check.any(), { min = 1, optional = true }) }

local function is_number(value) return type(value) == "number" and value - value == 0 end

-- A function from numbers between 0 and 1 to values of an argument.
local function scale_of(what, path, given)
  local function fail(words) check.fail("%s: '%s' %s", what, path, words) end
  if type(given) ~= "table" then
    fail("must be { low, high }, with log = true or integer = true, or { choices = { … } }")
  end
  for key in pairs(given) do
    if RANGE[key] == nil then fail(("has an unknown field %s"):format(check.show(key))) end
  end
  local choices = given.choices
  if choices ~= nil then
    if type(choices) ~= "table" or #choices == 0 or given[1] ~= nil then
      fail "must be { choices = { … } } or { low, high }"
    end
    return function(u) return choices[math.min(math.floor(u * #choices) + 1, #choices)] end
  end
  local low, high = given[1], given[2]
  if not (is_number(low) and is_number(high) and low < high) then fail "must be { low, high }, with low below high" end
  if given.log and low <= 0 then fail "is on a logarithmic scale, which begins above 0" end
  if given.integer then
    low, high = math.tointeger(low), math.tointeger(high)
    if not (low and high) then fail "must have integers as its ends" end
    return function(u)
      local span = high - low + 1
      local value = given.log and low * ((high + 1) / low) ^ u or low + u * span
      return math.min(math.floor(value), high)
    end
  end
  return function(u) return given.log and low * (high / low) ^ u or low + u * (high - low) end
end

-- The set of n points over these ranges.
local function set_of(what, n, ranges, points_of)
  if math.type(n) ~= "integer" or n < 1 or n > MOST then
    check.fail("%s: the number of points must be an integer from 1 to %d, got %s", what, MOST, check.show(n))
  end
  if type(ranges) ~= "table" or next(ranges) == nil then check.fail("%s needs ranges by argument", what) end
  for path in pairs(ranges) do
    if type(path) ~= "string" then check.fail("%s: %s names no argument", what, check.show(path)) end
  end
  local paths, scales, columns = check.names(ranges), {}, {}
  if #paths > #PRIMES then check.fail("%s: at most %d arguments", what, #PRIMES) end
  for k, path in ipairs(paths) do scales[k], columns[path] = scale_of(what, path, ranges[path]), {} end
  for i, point in ipairs(points_of(n, #paths)) do
    for k, path in ipairs(paths) do columns[path][i] = scales[k](point[k]) end
  end
  return vary.zip(columns)
end

--- Quasi-random points for a sweep: the Halton sequence, which fills the space ever more evenly, whatever its length.
---@param n integer  points
---@param ranges table<string, table>  by argument: { low, high }, with log = true for a logarithmic scale and integer =
---  true for integers, both ends included; or { choices = { … } }
---@return table set  for tperf.sweep
function sample.halton(n, ranges) return set_of("tperf.halton", n, ranges, sample.halton_points) end

--- Points of a Latin hypercube for a sweep: each n-th of the range of every argument has one of the n points.
---@param n integer  points
---@param ranges table<string, table>  as for tperf.halton
---@param seed? integer  another one gives other points (1)
---@return table set  for tperf.sweep
function sample.latin_hypercube(n, ranges, seed)
  if seed ~= nil and math.type(seed) ~= "integer" then
    check.fail("tperf.latin_hypercube: the seed must be an integer, got %s", check.show(seed))
  end
  return set_of("tperf.latin_hypercube", n, ranges, function(count, dimensions)
    return sample.latin_points(count, dimensions, seed or 1)
  end)
end

return sample
