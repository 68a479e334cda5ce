--- Statistics that plots show: quantiles, bins, densities.
local statistics = {}

--- A quantile of sorted numbers, linear between the two nearest (Hyndman and Fan's definition 7, numpy's default).
---@param sorted number[]
---@param q number  0 to 1
---@return number
function statistics.quantile(sorted, q)
  local at = 1 + q * (#sorted - 1)
  local i = math.min(math.floor(at), math.max(1, #sorted - 1))
  local next_one = sorted[i + 1] or sorted[i]
  return sorted[i] + (at - i) * (next_one - sorted[i])
end

--- What a box plot shows: the quartiles, and as whiskers the farthest values within 1.5 times their distance (Tukey);
--- what lies beyond are outliers.
---@param sorted number[]
---@return { low: number, q1: number, median: number, q3: number, high: number, outliers: number[] }
function statistics.box(sorted)
  local q1, q3 = statistics.quantile(sorted, 0.25), statistics.quantile(sorted, 0.75)
  local reach = 1.5 * (q3 - q1)
  local b = { q1 = q1, median = statistics.quantile(sorted, 0.5), q3 = q3, low = q1, high = q3, outliers = {} }
  for _, value in ipairs(sorted) do
    if value < q1 - reach or value > q3 + reach then
      b.outliers[#b.outliers + 1] = value
    else
      b.low, b.high = math.min(b.low, value), math.max(b.high, value)
    end
  end
  return b
end

--- The number of bins for sorted numbers: the larger of Sturges' and of Freedman and Diaconis' (numpy's "auto"), at
--- most 100.
---@param sorted number[]
---@return integer
function statistics.bins(sorted)
  local n, span = #sorted, sorted[#sorted] - sorted[1]
  local sturges = math.ceil(math.log(n, 2)) + 1
  local width = 2 * (statistics.quantile(sorted, 0.75) - statistics.quantile(sorted, 0.25)) / n ^ (1 / 3)
  local by_spread = width > 0 and span / width < 100 and math.ceil(span / width) or width > 0 and 100 or 1
  return math.max(1, math.min(100, math.max(sturges, by_spread)))
end

--- How many of sorted numbers lie in each bin: from its lower edge to below its upper one, the last bin's included.
---@param sorted number[]
---@param edges number[]
---@return integer[]
function statistics.counts(sorted, edges)
  local counts, bin = {}, 1
  for i = 1, #edges - 1 do counts[i] = 0 end
  for _, value in ipairs(sorted) do
    while bin < #counts and value >= edges[bin + 1] do bin = bin + 1 end
    counts[bin] = counts[bin] + 1
  end
  return counts
end

--- A density by Gaussian kernels with Scott's bandwidth ("Multivariate Density Estimation", 1992: n^(-1/5) standard
--- deviations), at points from the smallest to the largest number.
---@param sorted number[]
---@param points integer
---@return number[] at, number[] density  nil, nil if all numbers are equal
function statistics.density(sorted, points)
  local n, mean, square = #sorted, 0, 0
  for _, value in ipairs(sorted) do mean = mean + value / n end
  for _, value in ipairs(sorted) do square = square + (value - mean) ^ 2 end
  local width = n > 1 and math.sqrt(square / (n - 1)) * n ^ -0.2 or 0
  if not (width > 0) then return nil, nil end
  local at, density = {}, {}
  local reach, first = 5 * width, 1 -- a kernel ends where it is a millionth of its height
  for i = 1, points do
    local x, sum = sorted[1] + (sorted[n] - sorted[1]) * (i - 1) / (points - 1), 0
    while sorted[first] and sorted[first] < x - reach do first = first + 1 end
    for k = first, n do
      if sorted[k] > x + reach then break end
      sum = sum + math.exp(-0.5 * ((x - sorted[k]) / width) ^ 2)
    end
    at[i], density[i] = x, sum / (n * width * math.sqrt(2 * math.pi))
  end
  return at, density
end

return statistics
