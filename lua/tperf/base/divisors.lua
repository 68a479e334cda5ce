--- Divisors and greatest common divisors.
local divisors = {}

local function find(n)
  local list, rest, prime = { 1 }, n, 2
  local function extend() -- multiplies the list by the powers of a prime
    local count, power = #list, 1
    while rest % prime == 0 do
      rest, power = rest // prime, power * prime
      for i = 1, count do list[#list + 1] = list[i] * power end
    end
  end
  while prime * prime <= rest do
    if rest % prime == 0 then extend() end
    prime = prime == 2 and 3 or prime + 2
  end
  if rest > 1 then
    prime = rest
    extend()
  end
  table.sort(list)
  return list
end

local MOST_KNOWN <const> = 1024

local known, count = {}, 0

--- The divisors of n, ascending. The list is shared: do not change it.
---@param n integer
---@return integer[]
function divisors.of(n)
  if known[n] then return known[n] end
  if count == MOST_KNOWN then known, count = {}, 0 end
  known[n], count = find(n), count + 1
  return known[n]
end

--- The largest divisor of n up to limit.
function divisors.fitting(n, limit)
  local root = math.floor(math.sqrt(n))
  for d = limit > root and (n + limit - 1) // limit or root + 1, root do -- n // d descends from limit
    if n % d == 0 then return n // d end
  end
  for d = math.min(limit, root), 2, -1 do
    if n % d == 0 then return d end
  end
  return 1
end

---@param a integer
---@param b integer
---@return integer
function divisors.gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end

return divisors
