--- Placements of a configuration in fast domains: which of its GPUs share one.
local axes = require "tperf.describe.strategy.axes"
local divisors = require "tperf.base.divisors"
local check = require "tperf.base.check"
local nearest = require "tperf.base.lazy".module "tperf.base.nearest"
local rank_order = require "tperf.question.rank_order"
local refusal = require "tperf.base.refusal"

local placement = {}

--- Rows of tperf.question.arguments: how GPUs are placed, besides `fast`.
placement.arguments = {
  { name = "placement", group = "placement", check = check.choice { { "stack", "best" }, optional = true },
    doc = "stack: in its order of ranks (default); best: as is fastest",
    more = "Rules without `ranks_in_order` try every placement." },
  { name = "rank_order", group = "placement", check = rank_order.checker,
    doc = "neighbours first: tp-cp-ep-dp-pp (the software's)",
    more = "An axis of the strategy that is not in it lies beside the one before it.", option = { value = "ORDER" } },
}

--- What is decided for questions that give `fast`; and for those about every placement.
placement.GIVEN = { how = "given" }
local BEST <const> = { how = "best" }

--- Refuses arguments that contradict each other, and orders of ranks that are none.
---@param what string  prefix of messages, such as "tperf.train"
---@param o table      checked arguments
function placement.check(what, o)
  if not (o.fast or o.placement or o.rank_order) then return end
  rank_order.check(what, o.rank_order)
  local other = o.fast and "fast" or o.placement == "best" and "placement = \"best\""
  local name = o.rank_order and "rank_order" or o.fast and o.placement and "placement"
  if other and name then check.fail("%s: give '%s' or %s, not both", what, name, other) end
end

--- How a question's GPUs are placed: in the stack's order of ranks, unless it fixes the placement or asks for the best,
--- or its rules try all.
---@param o table           its checked arguments
---@param rules table       a set of rules
---@param strategies table[]
---@param usual string      the stack's order of ranks
---@return table placed  { how = "stack", "best" or "given", orders = strategy -> rank_order.of }
function placement.of(o, rules, strategies, usual)
  if o.fast then return placement.GIVEN end
  local stack = o.placement == "stack" or o.rank_order or not o.placement and rules.ranks_in_order
  if not stack then return BEST end
  local placed = { how = "stack", orders = {} }
  for _, s in ipairs(strategies) do placed.orders[s] = rank_order.of(s, o.rank_order, usual) end
  return placed
end

--- The same for training, in the order of the software's ranks.
function placement.of_training(o, strategies)
  return placement.of(o, o.rules, strategies, o.profile and o.profile.rank_order or rank_order.USUAL)
end

--- Writes into a record how it was placed.
function placement.tell(record, placed, s)
  record.placement = placed.how
  if placed.orders then record.rank_order = placed.orders[s].text end
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
