--- Placements of a configuration in fast domains.
local axes = require "tperf.describe.strategy.axes"
local divisors = require "tperf.base.divisors"
local nearest = require "tperf.base.nearest"
local refusal = require "tperf.base.refusal"

local placement = {}

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

-- The parts asked for of dp, pp and the strategy's axes; 0: any.
local function demanded_of(what, s, sizes, c, fast)
  local list = { fast.dp or 0, fast.pp or 0 }
  check_part(what, "dp", fast.dp or 1, c.dp)
  check_part(what, "pp", fast.pp or 1, c.pp)
  for i, axis in ipairs(s.axes) do
    local part = fast[axis.name]
    if part then check_part(what, axis.name, part, sizes[i]) end
    list[2 + i] = part or 0
  end
  return list
end

--- The placements of a configuration in fast domains: all those in which no axis could have a larger part, the one
--- that gives the first axes the most neighbours first. Replicas that share no experts are placed only if asked for.
---@param what string      prefix of messages, such as "tperf.infer: "
---@param s table          a strategy
---@param sizes integer[]  of its axes
---@param c table          { dp, pp, fast = axis -> part of a domain, for axes whose part is asked for }
---@param domain integer   GPUs of a fast domain
---@return integer[][] list  each the GPUs of dp, pp and the strategy's axes in a domain
function placement.all(what, s, sizes, c, domain)
  local fast = c.fast or {}
  local demanded = demanded_of(what, s, sizes, c, fast)
  local list = s.grid:placements(sizes, fast.dp and c.dp or placement.sharing(s, sizes), c.pp, demanded, domain)
  if #list > 0 then return list end
  refusal.raise("%sthe placement takes more GPUs than the %d of a fast domain", what, domain)
end

return placement
