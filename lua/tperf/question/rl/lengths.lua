--- Lengths of responses: a lognormal distribution cut at the longest, from what is known of it.
local check = require "tperf.base.check"
local kernels = require "tperf.describe.kernels"
local normal = require "tperf.question.goodput.normal"

local lengths = {}

local STEPS <const> = 50 -- of bisections

-- The x between two ends at which an increasing function has this value.
local function solve(low, high, value, of)
  for _ = 1, STEPS do
    local middle = (low + high) / 2
    if of(middle) < value then low = middle else high = middle end
  end
  return (low + high) / 2
end

-- The mean of min(X, most), ln X normal with mean mu and deviation s.
local function cut_mean(mu, s, most)
  if s == 0 then return math.min(math.exp(mu), most) end
  local z = (math.log(most) - mu) / s
  return math.exp(mu + s * s / 2) * normal.below(z - s) + most * (1 - normal.below(z))
end

-- mu for a mean after the cut.
local function mu_of(mean, s, most)
  if most == math.huge then return math.log(mean) - s * s / 2 end
  return solve(math.log(mean) - 20, math.log(most) + 20, mean, function(mu) return cut_mean(mu, s, most) end)
end

-- What makes the clip right: s and mu of a distribution with this mean of which this part is cut.
local function of_clip(mean, most, clip)
  local z = normal.quantile(1 - clip)
  local s = solve(0, 20, -mean, function(one) return -cut_mean(math.log(most) - one * z, one, most) end)
  return s, math.log(most) - s * z
end

local function lognormal(mean, cv, most)
  local s = math.sqrt(math.log(1 + cv * cv))
  return s, mu_of(mean, s, most)
end

-- A length in the words of tperf.serve, with its mean and its longest; of(p): its quantiles.
local function made(mean, s, mu, most)
  if s == 0 then
    local n = math.floor(mean + 0.5)
    return { serve = n, mean = n, most = n, of = function() return n end }
  end
  local median = math.exp(mu)
  return {
    serve = { lognormal = { median = math.max(median, 1), sigma = s }, max = most ~= math.huge and most or nil },
    mean = mean, most = most, of = function(p) return math.min(median * math.exp(s * normal.quantile(p)), most) end,
  }
end

local function of_values(values, most)
  local sorted, sum, cut = table.move(values, 1, #values, 1, {}), 0, {}
  table.sort(sorted)
  for i, n in ipairs(sorted) do
    cut[i] = math.min(n, most)
    sum = sum + cut[i]
  end
  return { serve = { values = cut }, mean = sum / #cut, most = cut[#cut],
    of = function(p) return cut[math.min(#cut, math.floor(p * #cut) + 1)] end }
end

--- The lengths of responses.
---@param r number|table  response of tperf.rl
---@param assumed table   name -> what is assumed, added to
---@param mean number?    in place of what is not known
---@return table lengths  { serve = as tperf.serve takes it, mean, most = the longest, of = quantiles }
function lengths.of(r, assumed, mean)
  if r == nil then
    check.fail "tperf.rl: 'response' is missing; give a number of tokens, or their { mean = …, max = … }"
  end
  if type(r) == "number" then return made(r, 0, 0, r) end
  local most = r.max or math.huge
  if r.values then
    if r.mean or r.cv or r.clip then
      check.fail "tperf.rl: 'response.values' says the mean: leave out mean, cv, clip"
    end
    return of_values(r.values, most)
  end
  mean = r.mean or mean
  if not mean then check.fail "tperf.rl: 'response.mean' is missing; give it, values, or max for a range" end
  if mean > most then
    check.fail("tperf.rl: 'response.mean' %g is more than response.max %d; give the mean of what is generated", mean,
      most)
  end
  if mean == most then return made(mean, 0, 0, most) end
  if r.clip and r.clip > 0 then
    if r.cv then check.fail "tperf.rl: 'response.clip' says how unequal lengths are: leave out response.cv" end
    if not r.max then check.fail "tperf.rl: 'response.clip' needs response.max, where responses are cut" end
    if mean <= r.clip * most then
      check.fail("tperf.rl: 'response.clip' %g of %d tokens alone give a mean above response.mean %g; lower the clip",
        r.clip, most, mean)
    end
    local s, mu = of_clip(mean, most, r.clip)
    return made(mean, s, mu, most)
  end
  local cv = r.cv or kernels.of "rl".length_cv.value
  if not r.cv then assumed["response.cv"] = cv end
  if cv == 0 then return made(mean, 0, 0, most) end
  local s, mu = lognormal(mean, cv, most)
  return made(mean, s, mu, most)
end

local SAMPLE <const> = 512 -- quantiles that stand for all responses

--- How full bins are that take responses first fit, in the order in which they come.
---@param r table         of lengths.of
---@param prompt number   tokens of a prompt
---@param budget integer  tokens of a bin
---@param count integer   responses
---@return integer bins, integer in_one  tokens of a bin, on average
function lengths.bins(r, prompt, budget, count)
  local key, known = ("%d %d %d"):format(prompt, budget, count), r.bins
  if known and known.key == key then return known.bins, known.in_one end
  local n = math.min(count, SAMPLE)
  local free, sum, step = {}, 0, 1
  for candidate = (n * 5) // 8, n do -- a stride prime to n visits each quantile once
    local a, b = candidate, n
    while b > 0 do a, b = b, a % b end
    if a == 1 and candidate > 0 then step = candidate break end
  end
  for i = 0, n - 1 do
    local size = math.min(prompt + r.of(((i * step) % n + 0.5) / n), budget)
    local k = 1
    while free[k] and free[k] < size do k = k + 1 end
    free[k], sum = (free[k] or budget) - size, sum + size
  end
  local bins = math.max(math.ceil(#free * count / n - 1e-9), 1)
  r.bins = { key = key, bins = bins, in_one = math.max(math.floor(sum / n * count / bins + 0.5), 1) }
  return bins, r.bins.in_one
end

return lengths
