--- The uneven load of experts in tables of measurements: the experts' shares are drawn from a bounded power law
--- (between 1 and 0.8 tokens; between 0.01 and 2 if there are fewer choices than experts), and the busiest GPU is
--- timed.
local loads = {}

local DRAWS <const> = 10

-- Pseudo-random numbers from 0 to 1, the same in every run (the generator of ISO C's example).
local function numbers()
  local seed = 1
  return function()
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    return seed / 0x80000000
  end
end

local function draw(case, exponent, number)
  local low, high, sum, shares = 1, 0.8 * case.tokens, 0, {}
  if case.tokens * case.topk <= case.experts then low, high = 0.01, 2 end
  local from, to = low ^ (1 - exponent), high ^ (1 - exponent)
  for i = 1, case.experts do
    shares[i] = ((to - from) * number() + from) ^ (1 / (1 - exponent))
    sum = sum + shares[i]
  end
  local scale = case.tokens * case.topk / sum
  for i = 1, case.experts do shares[i] = math.min(shares[i] * scale, case.tokens) end
  return shares
end

-- Rows of the busiest GPU's experts, and the number of these experts that have any.
local function busiest(case, shares)
  local each, most, hit = case.experts // case.ep, -1, 0
  for first = 1, case.experts, each do
    local rows, met = 0, 0
    for i = first, first + each - 1 do
      rows = rows + shares[i]
      if shares[i] >= 0.5 then met = met + 1 end
    end
    if rows > most then most, hit = rows, met end
  end
  return most, math.max(hit, 1)
end

local known = {}

--- Average rows of the busiest GPU, and the number of its experts that have any.
function loads.power_law(case, exponent)
  local key = ("%d %d %d %d %.6g"):format(case.tokens, case.experts, case.topk, case.ep, exponent)
  if not known[key] then
    local number, rows, hit = numbers(), 0, 0
    for _ = 1, DRAWS do
      local r, h = busiest(case, draw(case, exponent, number))
      rows, hit = rows + r / DRAWS, hit + h / DRAWS
    end
    known[key] = { math.max(rows, 1), hit }
  end
  return known[key][1], known[key][2]
end

return loads
