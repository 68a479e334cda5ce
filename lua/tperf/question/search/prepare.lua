--- What a question to tperf.search is answered from: checked arguments, and the problem.
local arguments = require "tperf.question.arguments"
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local minimize = require "tperf.question.search.minimize"
local problem = require "tperf.question.problem"
local rows = require "tperf.question.search.rows"
local several = require "tperf.describe.strategy.several"

local function new_schema(strategies)
  local schema = arguments.schema(strategies, true)
  schema.gpus = check.one_of(check.integer { min = 1, max = 1 << 31 },
    check.list(check.integer { min = 1, max = 1 << 31 }, { min = 1 }))
  for _, row in ipairs(rows) do schema[row.name] = row.check end
  schema.where = check.func { optional = true }
  schema.progress = check.func { optional = true }
  return schema
end

local schema_of_one = check.once(function(s) return new_schema { s } end)

local function schema_of(strategies)
  return #strategies == 1 and schema_of_one(strategies[1]) or new_schema(strategies)
end

--- Computes everything that decides the candidates: { o = checked arguments, problem, many = whether it has a list of
--- answers }.
return function(given)
  local strategies = type(given) == "table" and given.strategy ~= nil and several(given.strategy)
    or { axes.asked(given) }
  minimize.refuse_objective(given)
  problem.refuse_axes("tperf.search", given, strategies)
  local o = problem.arguments("tperf.search", given, schema_of(strategies))
  if o.minimize == "time" then o.minimize = nil end -- what candidates are ranked by anyway
  problem.refuse_panels("tperf.search", o, strategies)
  o.deals_evenly = o.virtual_stages == nil -- whatever else is tried: a larger choice has all of a smaller one's
  local t = { o = o }
  t.problem, t.many = problem.of(o, strategies)
  return t
end
