--- tperf.strategy, as scripts have it: strategies whose axes can be arguments of every question.
local arguments = require "tperf.question.arguments"
local check = require "tperf.base.check"
local public = require "tperf.describe.strategy.public"
local serving = require "tperf.question.serving_arguments"

-- Arguments that a question has besides those of the tables.
local FURTHER <const> = { "top", "keep", "prune", "infeasible", "simulate", "threads", "where", "minimize", "progress",
  "objective", "explain", "configuration", "straggling", "fast", "run", "cache", "key", "fields", "each", "on_error",
  "load", "engine" }

local taken -- argument -> true, of all questions, without the axes and options of strategies

local function names_taken()
  if taken then return taken end
  taken = {}
  for _, name in ipairs(FURTHER) do taken[name] = true end
  for _, rows in ipairs { arguments.rows(), serving.rows "infer", serving.rows "serve" } do
    for _, row in ipairs(rows) do
      if not row.strategies then taken[row.name] = true end
    end
  end
  return taken
end

local strategy = {}
for name, f in pairs(public) do strategy[name] = f end

-- Refuses names by which a question could not tell an axis or an option from its argument.
local function check_names(given)
  if type(given) ~= "table" then return end
  local axes, options = rawget(given, "axes"), rawget(given, "options")
  for _, axis in ipairs(type(axes) == "table" and axes or {}) do
    local name = type(axis) == "table" and rawget(axis, "name")
    if names_taken()[name] and name ~= "dp" and name ~= "pp" then
      check.fail("tperf.strategy.define: an axis cannot be called '%s', which is an argument of questions", name)
    end
  end
  for name in pairs(type(options) == "table" and options or {}) do
    if names_taken()[name] then
      check.fail("tperf.strategy.define: an option cannot be called '%s', which is an argument of questions", name)
    end
  end
end

--- Registers a strategy by its name, so that searches find it. It cannot be changed afterwards.
---@param given table  as described above
---@return table strategy
function strategy.define(given)
  check_names(given)
  return public.define(given)
end

return strategy
