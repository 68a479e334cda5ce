--- What a search ranks by, if not by time: a figure of each candidate that fits, the least first.
local check = require "tperf.base.check"
local energy = require "tperf.question.energy"

local minimize = {}

-- By name: function(configuration, system) -> a figure that orders candidates, and without it what is missing.
local FIGURES <const> = {
  memory = function(c) return c.memory.total end,
  dollars = function(c) return (c.gpus + c.idle) * c.time end, -- whatever the price of a GPU-hour
  energy = function(c, system)
    local limit = system.accelerator.power
    return limit and energy.watts(c.breakdown, c.time, limit) * c.gpus * c.time, "accelerator.power"
  end,
}

local NAMES <const> = { "time", "memory", "dollars", "energy" }

--- The argument of searches: the name of a figure, or a function of a configuration.
minimize.field = check.one_of_or_nil(check.choice { NAMES }, check.func {})

--- Refuses an `objective` that is meant as `minimize`: that of a training run is what its loss compares.
function minimize.refuse_objective(given)
  local asked = type(given) == "table" and given.objective
  if type(asked) == "function" or FIGURES[asked] or asked == "time" then
    check.fail "tperf.search: 'objective' is the loss of a training run; 'minimize' takes what to rank by"
  end
end

--- A function(configuration, system) that gives a candidate's rank.
---@param asked string|function  but "time"
function minimize.rank_of(asked)
  if type(asked) == "function" then
    return function(c)
      local value = asked(c)
      if math.type(value) and value == value then return value + 0.0 end
      check.fail("tperf.search: 'minimize' must return a number for each configuration, got %s", check.show(value))
    end
  end
  return function(c, system)
    local value, missing = FIGURES[asked](c, system)
    if value then return value end
    check.fail("tperf.search: minimize = \"%s\" needs '%s', which the system '%s' does not say", asked, missing,
      system.name)
  end
end

return minimize
