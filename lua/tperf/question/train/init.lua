--- tperf.train: one training configuration, explained op by op.
local choice = require "tperf.question.choice"
local configuration = require "tperf.question.configuration"
local lazy = require "tperf.base.lazy"
local prepare = require "tperf.question.train.prepare"
local search = lazy.module "tperf.question.search"
local advice = lazy.module "tperf.question.search.advice"
local straggling = require "tperf.question.goodput.straggling"
local simulate = require "tperf.question.train.simulate"
local sum = lazy.module "tperf.question.train.sum"
local train_sizes = require "tperf.question.train.sizes"
local questions = require "tperf.question.ranks.questions"

local train = {}

local OTHERS <const> = { "before the layers", "after the layers" } -- sections after the kinds of layers

local FIELDS <const> = 48 -- of its configuration, with those that it explains

-- By how much memory it misses.
local function why_too_big(c, question)
  return "does not fit: the fullest GPU needs " .. advice.miss(c.memory.total, question)
end

local REASON <const> = { reason = true }
local brief = setmetatable({}, { __mode = "k" }) -- configuration -> its reason without advice

-- As search.least, of arguments of which one was changed: axes that were left open follow the others anew.
local function least_after(t)
  return function(changed, strategies)
    for name, open in pairs(t.open) do
      if open and changed[name] == t.o[name] then changed[name] = nil end
    end
    train_sizes.of(changed, t.strategy, t.o.model, t.o.rules)
    return search.least(changed, strategies)
  end
end

-- Sets a `reason` with advice; the searches for the advice only run if the field is read.
local function lacks_memory(c, t, question)
  local reason, least = why_too_big(c, question), least_after(t)
  brief[c] = reason
  lazy.add(c, REASON, function()
    return { reason = ("%s; %s"):format(reason, advice.advice(t.o, { t.strategy }, question, least)) }
  end)
end

--- Sets the reason without advice: the searches for it are too slow for many points. Returns the same configuration.
---@param c any  the result of train.run, or anything else
function train.brief(c)
  if brief[c] and lazy.forget(c, "reason") then c.reason = brief[c] end
  return c
end

-- Fields that describe a configuration op by op and stage by stage.
local DETAILS <const> = { kinds = true, layers = true, first = true, last = true, stages = true, exchanges = true,
  messages = true, least_time = true, update = true }

-- Adds the ops of each section of a candidate's workload to `details`. kinds: of layers.
local function add_ops(details, candidate, kinds)
  details.kinds = {}
  for i, kind in ipairs(kinds) do details.kinds[i] = { key = kind.key, count = 0, ops = candidate:ops(i) } end
  details.layers = details.kinds[1].ops
  details.first, details.last = candidate:ops(#kinds + 1), candidate:ops(#kinds + 2)
end

-- optimizer: seconds of the breakdown.
local function details_of(candidate, kinds, optimizer)
  local details = {}
  add_ops(details, candidate, kinds)
  details.stages = candidate:stages()
  for _, stage in ipairs(details.stages) do
    for i, kind in ipairs(details.kinds) do kind.count = kind.count + stage.repeats * stage.kinds[i] end
    stage.kinds = nil
  end
  local audit = candidate:audit()
  details.exchanges, details.messages, details.least_time = audit.exchanges, audit.messages, audit.least
  for i, exchange in ipairs(details.exchanges) do
    exchange.section = kinds[i] and kinds[i].key or OTHERS[i - #kinds] or "weights that layers share"
  end
  details.update = {
    bytes = audit.optimizer_bytes, time = optimizer - audit.step_calls * audit.bare_call,
    bandwidth = audit.optimizer_part * audit.hbm,
  }
  return details, audit
end

local function explain(c, t)
  local p, o, s = t.problem, t.o, t.strategy
  local question, optimizer = p.questions[1], c.breakdown.optimizer
  configuration.describe(c, question, o, s, p.variants[1])
  local layout = p.layouts[1]
  if layout.warnings then configuration.warn(c, layout, choice.own(s, t.found, p.model), p.variants[1]) end
  local candidate, kinds = t.candidate, p.layouts[1].kinds
  lazy.add(c, DETAILS, function() return (details_of(candidate, kinds, optimizer)) end)
  return c
end

-- The configuration that `simulate` names, if its schedule or its stages are not those of the answer: it places other
-- layers on a GPU, and some schedules hold them twice, so that its passes and its memory are its own.
local function simulated_question(t)
  local changes = simulate.other(t.o)
  if not changes then return t end
  local given = {}
  for name, value in pairs(t.given) do given[name] = value end
  given.simulate, given.explain, given.straggling, given.configuration = nil, nil, nil, nil
  for name, value in pairs(changes) do given[name] = value or nil end
  return prepare(given)
end

-- The timeline of a question's schedule.
local function simulate_question(t, options)
  local question = t.problem.questions[1]
  local c = explain(configuration.of(question, t.strategy, t.found, t.candidate, FIELDS), t)
  return simulate.run(c, question, t.candidate, options)
end

--- The time of one configuration as a function of its software profile's terms, for fits of profiles.
---@param given table  as for train.run
---@param held table?   what a prepared question keeps
---@return fun(terms: table): number seconds  of an iteration with these terms of a profile (runtime.terms)
---@return fun(): tperf.stage[] stages  of the pipeline
function train.predictor(given, held)
  local t = prepare(given, held)
  return configuration.predictor(t.candidate), function() return t.candidate:stages() end
end

-- As train.run. held: what a prepared question keeps.
local function ask(given, held)
  local t = prepare(given, held)
  local o, p = t.o, t.problem
  local question = p.questions[1]
  local c = explain(configuration.of(question, t.strategy, t.found, t.candidate, FIELDS), t)
  local closed, timeline = p.pipeline_list[1].closed, nil
  if o.simulate or not closed then
    local other = simulated_question(t)
    timeline = other == t and simulate.run(c, question, t.candidate, o.simulate or {})
      or simulate_question(other, o.simulate)
    configuration.retime(c, question, timeline, closed)
    if not closed then
      c.stages = simulate.stages(c.stages, timeline)
      c.time_without_waste = simulate.time_without_waste(c, question, t.candidate, o.simulate or {})
    end
    timeline.configuration = c
  end
  if o.straggling then configuration.straggle(c, question, straggling.of(c, o.straggling)) end
  if o.explain then c.sum = sum(c, t.candidate:audit(), closed) end
  if not c.feasible then lacks_memory(c, t, question) end
  return c, timeline
end

--- The time and memory of one configuration.
---@param given table  the arguments of training (tperf.question.arguments), and
---  configuration      one that a search found: supplies all arguments that are not given
---  simulate           true, a schedule's name or a table (see tperf.question.train.simulate): also simulate the
---                     iteration pass by pass
---  straggling         standard deviation of a GPU's time as a part of the mean, such as 0.02, or { deviation, screened
---                     =
---                     GPUs slower by more than this part do not run }: the step waits for the slowest GPU. By default
---                     nothing is added: the software profile includes the spread of the runs that it was fitted to
---  explain            true: adds `sum`, the time term by term
---@return tperf.configuration configuration
---@return tperf.timeline? timeline  of the simulation
function train.run(given) return ask(given) end

questions.register("train", train.run, ask)

return train
