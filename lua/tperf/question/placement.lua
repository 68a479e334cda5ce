--- Placements of one configuration in fast domains: neighbours first, each axis as many GPUs of a domain as fit; or all
--- ways to share a domain out, for who takes the fastest.
local axes = require "tperf.describe.strategy.axes"
local divisors = require "tperf.base.divisors"
local nearest = require "tperf.base.nearest"
local refusal = require "tperf.base.refusal"

local placement = {}

--- The largest divisor of n that is no larger than limit.
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

--- How many replicas the axes that fold over them take, at least: those that share experts.
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

-- The part of the replicas that gives a folded axis the part that was asked for.
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

--- GPUs of each axis in one fast domain.
---@param what string      in front of messages: "tperf.infer: "
---@param s table          a strategy
---@param sizes integer[]  of its axes
---@param pp integer       stages
---@param given table?     axis -> part, where one is demanded
---@param domain integer
---@return integer[] fast  of dp, pp and the strategy's axes, as the core takes it
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

-- The parts of axes of these sizes that fit into a domain together so that none of them could be larger.
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

--- All placements that leave no axis a larger part of a domain, neighbours first at the head; one where all GPUs are in
--- one domain, or where parts are demanded. Arguments and lists as of placement.of.
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
