--- How many experts a batch touches. Of E experts the i-th most popular is chosen in proportion to i^-skew, k by each
-- token, none twice: with probability p_i = min(1, c i^-skew), whose sum is k. So n tokens touch
-- the sum of 1 - (1 - p_i)^n.
local memo = require "tperf.base.memo"

local popularity = {}

local KEPT <const> = 256
local NONE <const> = 1e-9 -- experts

local known = memo.by_text(KEPT) -- probabilities by what decides them

-- p_i, the largest first: those that would exceed 1 are 1, and the others share the rest.
local function probabilities(count, top_k, skew)
  local list, sum, left, first = {}, 0, top_k, 1
  for i = 1, count do
    list[i] = i ^ -skew
    sum = sum + list[i]
  end
  while first <= count and left * list[first] / sum >= 1 do
    sum, left, list[first], first = sum - list[first], left - 1, 1, first + 1
  end
  for i = first, count do list[i] = left * list[i] / sum end
  return list
end

--- The standard deviation of experts' probabilities over their mean.
---@param count integer
---@param top_k integer
---@param skew number
---@return number
function popularity.deviation(count, top_k, skew)
  local mean, sum = top_k / count, 0
  for _, p in ipairs(probabilities(count, top_k, skew)) do sum = sum + (p - mean) ^ 2 end
  return math.sqrt(sum / count) / mean
end

--- The experts of `count` that `tokens` touch on average, each token choosing top_k of them.
---@param count integer
---@param top_k integer
---@param skew number
---@param tokens number
---@return number  to within 1e-9
function popularity.touched(count, top_k, skew, tokens)
  if skew == 0 then return count * (1 - (1 - top_k / count) ^ tokens) end
  local key = ("%d %d %.17g"):format(count, top_k, skew)
  local list, sum = known(key, function() return probabilities(count, top_k, skew) end), 0
  if count * (1 - list[count]) ^ tokens < NONE then return count end -- even the least popular has a token
  for _, p in ipairs(list) do sum = sum + 1 - (1 - p) ^ tokens end
  return sum
end

return popularity
