--- The standard normal distribution, and the largest of n draws from it.
local memo = require "tperf.base.memo"

local normal = {}

local FAR <const> = 38.0 -- from here on the area beyond is 0 in a double

--- The cumulative probability of z.
---@type fun(z: number): number
normal.below = require "tperf.core".normal_below

--- The quantile: the number below which `part` of the distribution lies.
---@param part number  between 0 and 1
---@return number
function normal.quantile(part)
  local low, high = -FAR, FAR
  for _ = 1, 80 do
    local z = (low + high) / 2
    if normal.below(z) < part then low = z else high = z end
  end
  return (low + high) / 2
end

--- The quantile of the largest of n draws: each is below it with the n-th root of the probability.
---@param n integer
---@param part number  between 0 and 1
---@param limit number?  truncates the distribution: draws above it are repeated
---@return number
function normal.largest_quantile(n, part, limit)
  local whole = limit and normal.below(limit) or 1.0
  -- Near 1 the upper tail keeps more digits than the probability: 1 - part^(1/n).
  local tail = 1 - whole - whole * (math.exp(math.log(part) / n) - 1)
  return -normal.quantile(tail)
end

local STEP <const>, WIDTH <const> = 1 / 128, 12.0

local largest = memo.by_text(1024) -- n and limit -> the expected largest, which takes thousands of densities

-- The integral of z dF^n, computed as the integral of 1 - F^n above 0 minus that of F^n below it, by the trapezoidal
-- rule, whose error for smooth functions that vanish at both ends is far below the square of its step.
local function expected_largest(n, limit)
  local whole, last = limit and normal.below(limit) or 1.0, math.min(limit or WIDTH, WIDTH)
  local function chance(z) return math.min(normal.below(z) / whole, 1.0) ^ n end
  local function integral(low, high, value)
    local count = math.max(math.ceil((high - low) / STEP), 1)
    local step, sum = (high - low) / count, (value(low) + value(high)) / 2
    for i = 1, count - 1 do sum = sum + value(low + i * step) end
    return sum * step
  end
  local zero = math.min(0.0, last)
  local below = integral(-WIDTH, zero, chance)
  return zero - below + (last > zero and integral(zero, last, function(z) return 1 - chance(z) end) or 0)
end

--- The expected largest of n draws.
---@param n integer
---@param limit number?  truncates the distribution: draws above it are repeated
---@return number
function normal.expected_largest(n, limit)
  return largest(("%.17g %.17g"):format(n, limit or math.huge), function() return expected_largest(n, limit) end)
end

return normal
