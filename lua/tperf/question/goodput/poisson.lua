--- The number of failures of a run: quantiles of the Poisson distribution.
local normal = require "tperf.question.goodput.normal"

local poisson = {}

local MANY <const> = 500 -- mean above which the normal distribution stands in

--- The quantile of the Poisson distribution: the least count that `part` of all runs do not exceed.
---@param mean number
---@param part number  between 0 and 1
---@return number
function poisson.quantile(mean, part)
  if mean > MANY then -- with the skewness term of the Cornish-Fisher expansion
    local z = normal.quantile(part)
    return math.max(mean + z * math.sqrt(mean) + (z * z - 1) / 6, 0.0)
  end
  local count, chance = 0, math.exp(-mean)
  local sum = chance
  while sum < part and count < 10 * MANY do
    count = count + 1
    chance = chance * mean / count
    sum = sum + chance
  end
  return count
end

return poisson
