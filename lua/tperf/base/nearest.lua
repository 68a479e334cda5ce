--- Suggests the valid values nearest to an invalid one, for messages.
local divisors = require "tperf.base.divisors"

local nearest = {}

local MOST_TRIED <const> = 4096

--- "try 2 or 4": the neighbours of `value` in an ascending list.
---@param list integer[]
---@param value integer
---@return string
function nearest.of(list, value)
  local below, above
  for _, one in ipairs(list) do
    if one < value then below = one else above = above or one end
  end
  if below and above then return ("try %d or %d"):format(below, above) end
  return (below or above) and ("try %d"):format(below or above) or "no other size is admitted either"
end

--- The divisors of `whole` nearest to `part`, which does not divide it.
---@param whole integer
---@param part integer
---@return string
function nearest.divisors(whole, part)
  return nearest.of(divisors.of(whole), part)
end

--- The sizes from 1 to `most` that `admits` accepts.
---@param admits fun(size: integer): boolean
---@param most integer
---@param value integer
---@return string
function nearest.sizes(admits, most, value)
  local list = {}
  for size = 1, math.min(most, MOST_TRIED) do
    if admits(size) then list[#list + 1] = size end
  end
  return nearest.of(list, value)
end

return nearest
