--- What a question to tperf.search is answered from: checked arguments, and the problem.
local arguments = require "tperf.question.arguments"
local asked = require "tperf.question.asked"
local axes = require "tperf.describe.strategy.axes"
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local model = catalogue.shared((require "tperf.describe.model"))
local problem = require "tperf.question.problem"
local profile = require "tperf.describe.profile"
local rules = require("tperf.describe.rules.sets").of
local schedule = require "tperf.describe.schedule"
local several = require "tperf.describe.strategy.several"
local strategy = require "tperf.describe.strategy"

local function new_schema(strategies)
  local schema = arguments.schema(strategies, true)
  schema.gpus = check.one_of(check.integer { min = 1, max = 1 << 31 },
    check.list(check.integer { min = 1, max = 1 << 31 }, { min = 1 }))
  schema.top = check.integer { min = 1, max = 1 << 20, default = 10 }
  schema.keep = check.choice { { "all", "best" }, default = "best" }
  schema.prune = check.boolean { default = true }
  schema.infeasible = check.boolean { default = false }
  schema.simulate = check.boolean { optional = true }
  schema.threads = check.integer { min = 1, max = 1024, optional = true }
  schema.where = check.func { optional = true }
  schema.progress = check.func { optional = true }
  return schema
end

local schema_of_one = check.once(function(s) return new_schema { s } end)

local function schema_of(strategies)
  return #strategies == 1 and schema_of_one(strategies[1]) or new_schema(strategies)
end

-- The definitions of a problem's schedules, in order.
local function definitions_of(p)
  local list = {}
  for i, name in ipairs(p.schedules) do list[i] = schedule.get(name) end
  return list
end

-- Whether what decided a problem is still what the arguments name.
local function is_same(t, given)
  local p, s = t.problem, t.strategies[1]
  if strategy.of(s) ~= s or model(given.model) ~= t.model then return false end
  for i, name in ipairs(p.schedules) do
    if schedule.get(name) ~= t.definitions[i] then return false end
  end
  local set = rules(given.rules)
  return set == p.rules and profile.of(given.software, set) == p.profile
    and problem.system(given.system) == p.questions[1].system
end

-- Lists, and "any" schedule, may be of more or of others next time.
local function may_differ(o, strategies)
  return #strategies > 1 or problem.lists_systems(o.system) or o.schedule == "any"
end

--- Computes everything that decides the candidates: { o = checked arguments, problem, many = whether it has a list of
--- answers, view = a metatable to read the problem through }. Nobody changes it.
return asked(function(given)
  local strategies = type(given) == "table" and given.strategy ~= nil and several(given.strategy)
    or { axes.asked(given) }
  problem.refuse_axes("tperf.search", given, strategies)
  local o = problem.arguments("tperf.search", given, schema_of(strategies))
  problem.refuse_panels("tperf.search", o, strategies)
  o.deals_evenly = o.virtual_stages == nil -- whatever else is tried: a larger choice has all of a smaller one's
  local t = { o = o, strategies = strategies }
  t.problem, t.many = problem.of(o, strategies)
  t.view = { __index = t.problem }
  if may_differ(o, strategies) then return t end
  t.model, t.definitions = model(o.model), definitions_of(t.problem)
  return t, strategies[1], t.model
end, is_same)
