--- Aligns the measured with the predicted sequence of kernels, keeping the order of both.
-- Dynamic programming (Needleman and Wunsch, 1970): a pair costs more the worse it fits, an unpaired kernel costs 1,
-- and a further kernel of the same op as the previous one has its own, lower cost.
local ALONE <const> = 1.0

local NONE <const>, PAIR <const>, MORE <const> = 0, 1, 2
local FROM_PAIR <const> = 4 -- added if the previous cell is on a path that ends in a pair
local SKIP_ONE <const>, SKIP_OTHER <const> = 1, 2

-- The last step of the cheapest path to each cell, for paths that end in a pair and for the others.
local function steps_of(n, m, cost, more)
  local paired, other, pair_steps, other_steps = {}, {}, {}, {}
  for j = 0, m do paired[j], other[j] = math.huge, j * ALONE end
  local first = {}
  for j = 1, m do first[j] = SKIP_OTHER end
  other_steps[0] = first
  for i = 1, n do
    local p, o, ps, os = { [0] = math.huge }, { [0] = i * ALONE }, {}, { [0] = SKIP_ONE }
    for j = 1, m do
      local a, b = paired[j - 1], other[j - 1]
      local best, step = (a < b and a or b) + cost(i, j), a < b and PAIR + FROM_PAIR or PAIR
      local again = paired[j]
      if again < math.huge then
        again = again + more(i, j)
        if again < best then best, step = again, MORE + FROM_PAIR end
      end
      p[j], ps[j] = best, best < math.huge and step or NONE
      local up_pair, up, left_pair, left = paired[j], other[j], p[j - 1], o[j - 1]
      local over, next_to = up_pair < up and up_pair or up, left_pair < left and left_pair or left
      if over <= next_to then
        o[j], os[j] = over + ALONE, up_pair < up and SKIP_ONE + FROM_PAIR or SKIP_ONE
      else
        o[j], os[j] = next_to + ALONE, left_pair < left and SKIP_OTHER + FROM_PAIR or SKIP_OTHER
      end
    end
    paired, other, pair_steps[i], other_steps[i] = p, o, ps, os
  end
  return pair_steps, other_steps, paired[m] < other[m]
end

--- Aligns two sequences at the lowest cost.
---@param n integer  length of the first sequence
---@param m integer  length of the second
---@param cost fun(i: integer, j: integer): number  of pairing i with j; math.huge if they cannot be paired
---@param more fun(i: integer, j: integer): number  of pairing i with j too, after i - 1
---@return integer[] found  i -> j, 0 if unpaired
return function(n, m, cost, more)
  local found = {}
  for i = 1, n do found[i] = 0 end
  if n == 0 or m == 0 then return found end
  local pair_steps, other_steps, in_pair = steps_of(n, m, cost, more)
  local i, j = n, m
  while i > 0 or j > 0 do
    local step = in_pair and pair_steps[i][j] or other_steps[i][j]
    local kind = step & 3
    if in_pair then
      found[i] = j
      i = i - 1
      if kind == PAIR then j = j - 1 end
    elseif kind == SKIP_ONE then
      i = i - 1
    else
      j = j - 1
    end
    in_pair = step & FROM_PAIR ~= 0
  end
  return found
end
