--- Placements of a configuration in fast domains: neighbours first, each axis with as many GPUs of a domain as fit; or
--- every way to share a domain between the axes, to find the fastest.
local axes = require "tperf.describe.strategy.axes"
local divisors = require "tperf.base.divisors"
local nearest = require "tperf.base.nearest"
local refusal = require "tperf.base.refusal"

local placement = {}

--- The largest divisor of n up to limit.
function placement.fitting(n, limit)
  local best, d = 1, 1
  while d * d <= n and d <= limit do
    if n % d == 0 then
      if n // d <= limit then return n // d end -- d ascends, so n // d descends
      best = d
    end
    d = d + 1
  end
  return best
end

--- The least number of replicas that the axes folded over replicas occupy: those that share experts.
---@param s table  a strategy
---@param sizes integer[]  of its axes
---@return integer
function placement.sharing(s, sizes)
  local folded, over, counted = 1, 1, {}
  for i, axis in ipairs(s.axes) do
    if axes.spreads(axis) then
      folded = folded * sizes[i]
      for _, name in ipairs(axis.folds) do
        local at = s.index[name]
        if at and not counted[name] then over = over * sizes[at] end
        counted[name] = true
      end
    end
  end
  return folded // divisors.gcd(folded, over)
end

local function check_part(what, name, part, size)
  if size % part == 0 then return end
  refusal.raise("%s'fast.%s' = %d does not divide %s = %d; %s", what, name, part, name, size,
    nearest.divisors(size, part))
end

-- The number of replicas in a domain that gives a folded axis the part asked for.
local function replicas_for(s, sizes, list, given)
  for i, axis in ipairs(s.axes) do
    local wanted = axis.folds and given[axis.name]
    if wanted then
      check_part("", axis.name, wanted, sizes[i])
      local over = 1
      for _, name in ipairs(axis.folds) do
        if s.index[name] then over = over * list[2 + s.index[name]] end
      end
      for j = 1, i - 1 do
        if s.axes[j].folds then wanted = wanted * math.min(sizes[j], over) end
      end
      return math.max(wanted // over, 1)
    end
  end
end

--- The GPUs of each axis in one fast domain.
---@param what string      prefix of messages, such as "tperf.infer: "
---@param s table          a strategy
---@param sizes integer[]  of its axes
---@param pp integer       stages
---@param given table?     axis -> part, for axes whose part is asked for
---@param domain integer   GPUs of a fast domain
---@return integer[] fast  of dp, pp and the strategy's axes, in the core's order
function placement.of(what, s, sizes, pp, given, domain)
  local list, left = { 1, 1 }, domain
  given = given or {}
  for i, axis in ipairs(s.axes) do
    local part = axis.folds and 1 or given[axis.name] or placement.fitting(sizes[i], left)
    if not axis.folds then check_part(what, axis.name, part, sizes[i]) end
    list[2 + i], left = part, left // part
  end
  local sharing = placement.sharing(s, sizes)
  list[1] = given.dp or replicas_for(s, sizes, list, given) or placement.fitting(sharing, math.max(left, 1))
  left = left // list[1]
  list[2] = given.pp or placement.fitting(pp, math.max(left, 1))
  check_part(what, "pp", list[2], pp)
  if left // list[2] < 1 then
    refusal.raise("%sthe placement takes more GPUs than the %d of a fast domain", what, domain)
  end
  return s.grid:fold(sizes, list)
end

-- The ways to divide a domain between axes of these sizes such that no axis could have a larger part.
local function parts_of(sizes, domain)
  local list, parts = {}, {}
  local function is_largest(product)
    for i, size in ipairs(sizes) do
      for _, part in ipairs(divisors.of(size)) do
        if part > parts[i] and product // parts[i] * part <= domain then return false end
      end
    end
    return true
  end
  local function each(i, product)
    if i > #sizes then
      if is_largest(product) then list[#list + 1] = table.move(parts, 1, #parts, 1, {}) end
      return
    end
    for _, part in ipairs(divisors.of(sizes[i])) do
      if product * part > domain then break end
      parts[i] = part
      each(i + 1, product * part)
    end
    parts[i] = nil
  end
  each(1, 1)
  return list
end

--- All placements in which no axis could have a larger part of a domain, with placement.of's at the head; only that one
--- if all GPUs fit into one domain, or if parts are asked for. Arguments and lists are those of placement.of.
---@return integer[][] list
function placement.all(what, s, sizes, pp, given, domain)
  local first = placement.of(what, s, sizes, pp, given, domain)
  local asked = { placement.sharing(s, sizes), pp }
  local product = asked[1] * pp
  for i, axis in ipairs(s.axes) do
    asked[2 + i] = axis.folds and 1 or sizes[i]
    product = math.min(product, domain + 1) * asked[2 + i]
  end
  if product <= domain or given and next(given) then return { first } end
  local list = { first }
  for _, parts in ipairs(parts_of(asked, domain)) do list[#list + 1] = s.grid:fold(sizes, parts) end
  return list
end

return placement
