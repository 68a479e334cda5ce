--- Divisors, and the greatest common one.
local divisors = {}

--- The divisors of n, ascending.
---@param n integer
---@return integer[]
function divisors.of(n)
  local low, high = {}, {}
  local d = 1
  while d * d <= n do
    if n % d == 0 then
      low[#low + 1] = d
      if d * d ~= n then high[#high + 1] = n // d end
    end
    d = d + 1
  end
  for i = #high, 1, -1 do low[#low + 1] = high[i] end
  return low
end

---@param a integer
---@param b integer
---@return integer
function divisors.gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end

return divisors
