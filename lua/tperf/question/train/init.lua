--- tperf.train: one training configuration, explained op by op.
local configuration = require "tperf.question.configuration"
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local prepare = require "tperf.question.train.prepare"
local search = require "tperf.question.search"
local advice = lazy.module "tperf.question.search.advice"
local straggling = require "tperf.question.goodput.straggling"
local simulate = require "tperf.question.train.simulate"
local sum = lazy.module "tperf.question.train.sum"
local train_sizes = require "tperf.question.train.sizes"
local questions = require "tperf.question.ranks.questions"

local train = {}

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

-- Adds the ops of each section of a workload to `details`; on: copies of the objects that the question was asked with.
local function add_ops(details, t, on)
  local workload, found, kinds = t.workload, t.found, t.problem.layouts[1].kinds
  local function ops(section)
    return workload:ops(section, on.system, on.rules, found.fast, found.panels, false, on.software)
  end
  details.kinds = {}
  for i, kind in ipairs(kinds) do details.kinds[i] = { key = kind.key, count = 0, ops = ops(i) } end
  details.layers, details.first, details.last = details.kinds[1].ops, ops(#kinds + 1), ops(#kinds + 2)
  return kinds
end

-- on: the question, with its system and rules as they were when it was asked. optimizer: seconds of the breakdown.
local function details_of(t, on, optimizer)
  local details, workload, found = {}, t.workload, t.found
  local kinds = add_ops(details, t, on)
  details.stages = configuration.stages(on, workload, found)
  for _, stage in ipairs(details.stages) do
    for i, kind in ipairs(details.kinds) do kind.count = kind.count + stage.repeats * stage.kinds[i] end
    stage.kinds = nil
  end
  local audit = configuration.audit(on, workload, found)
  details.exchanges, details.messages, details.least_time = audit.exchanges, audit.messages, audit.least
  for i, exchange in ipairs(details.exchanges) do
    exchange.section = kinds[i] and kinds[i].key or i == #kinds + 1 and "before the layers" or "after the layers"
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
  local on = {
    system = core.machine(question.system), rules = p.rules,
    training = question.training, pipelines = question.pipelines, global_batch = question.global_batch,
    software = question.software,
  }
  local kept = { workload = t.workload, found = t.found, problem = { layouts = p.layouts } }
  lazy.add(c, DETAILS, function() return (details_of(kept, on, optimizer)) end)
  return c
end

--- The time of one configuration as a function of its software profile's terms, for fits of profiles.
---@param given table  as for train.run
---@return fun(terms: table): number seconds  of an iteration with these terms of a profile (runtime.terms)
---@return fun(): tperf.stage[] stages  of the pipeline
function train.predictor(given)
  local t = prepare(given)
  local question = t.problem.questions[1]
  return configuration.predictor(question, t.workload, t.found),
    function() return configuration.stages(question, t.workload, t.found) end
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
function train.run(given)
  local t = prepare(given)
  local o, p = t.o, t.problem
  local question = p.questions[1]
  local c = explain(configuration.of(question, t.strategy, t.workload, t.found, FIELDS), t)
  local closed, timeline = p.pipeline_list[1].closed, nil
  if o.simulate or not closed then
    timeline = simulate.run(c, question, t.workload, t.found, o.simulate or {})
    configuration.retime(c, question, timeline, closed)
    if not closed then
      c.stages = simulate.stages(c.stages, timeline)
      c.time_without_waste = simulate.time_without_waste(c, question, t.workload, t.found, o.simulate or {})
    end
    timeline.configuration = c
  end
  if o.straggling then configuration.straggle(c, question, straggling.of(c, o.straggling)) end
  if o.explain then c.sum = sum(c, configuration.audit(question, t.workload, t.found), closed) end
  if not c.feasible then lacks_memory(c, t, question) end
  return c, timeline
end

questions.register("train", train.run)

return train
