--- tperf.search: ranks all ways to train a model on a system.
local frozen = require "tperf.base.object.frozen"
local lazy = require "tperf.base.lazy"
local core = require "tperf.core".search
local choice = require "tperf.question.choice"
local differ = lazy.module "tperf.question.differ"
local described = require "tperf.question.search.described"
local prepare = require "tperf.question.search.prepare"
local minimize = require "tperf.question.search.minimize"
local problem = require "tperf.question.problem"
local refusal = require "tperf.base.refusal"
local rerank = lazy.module "tperf.question.search.rerank"
local search_room = require "tperf.question.search.room"
local search_walk = require "tperf.question.search.walk"
local shapes = require "tperf.question.search.shapes"
local advice = lazy.module "tperf.question.search.advice"
local gpu_counts = lazy.module "tperf.question.search.gpu_counts"
local questions = require "tperf.question.ranks.questions"

local search = {}

---@class tperf.found the configurations that a search found, best first
---@field [integer] tperf.configuration
---@field candidates integer number of candidates
---@field feasible integer number that fit in memory; with `bounds`, number that bounds do not rule out
---@field bounds? boolean some pipelines have no closed form: what is not simulated is known by bounds
---@field evaluated? integer number that were timed, if prune is false
---@field complete boolean false if Ctrl-C ended the search
---@field simulated? integer number that were simulated, if some are ranked so
---@field proven? boolean likewise: none that was not simulated could be among the best; false only if interrupted
---@field unproven? string if not proven: how many of those that bounds leave were simulated
---@field seconds number duration of the search
---@field alike? integer configurations, from the first on, whose interval of the time (of the memory, if that is
---  minimized) overlaps the first one's: their order is not certain. See tperf.differ
---@field reason? string why nothing was found
---@field left_out? string[] strategies that cannot cut the model, and layouts that its blocks refuse, with their
---  reasons
---@field model tperf.model
---@field system tperf.system
---@field gpus integer
---@field global_batch integer

-- What decides whether the core keeps a candidate, and what it is ranked by; nil if that is the time alone.
local function accept_of(p, o)
  local where, rank = o.where, o.minimize and minimize.rank_of(o.minimize)
  if not where and not rank then return nil end
  return function(number, found)
    local question = p.questions[number]
    local c = choice.offered(question, p.strategies[found.strategy], found, function()
      return (described.one(p, o, question, found))
    end)
    if where and not where(c) then return false end
    return not rank or rank(c, question.system)
  end
end

local function new_core_search(p, o)
  return search_walk.new(p, o, accept_of(p, o))
end

local FEW <const> = 64 -- simulations for a piece of advice

local ask

-- The first question's best candidate by simulation, if one fits.
local function simulated_least(p, o)
  local options = {}
  for name, value in pairs(o) do options[name] = value end
  options.top, options.simulates, options.most_simulated, options.prune = 1, "all", FEW, true
  options.keep, options.infeasible, options.where, options.minimize = nil, nil, nil, nil
  p.many = true -- advice on what does not fit either would not end
  local result = ask(p, options)[1]
  return result[1] and { memory = result[1].memory.total, feasible = true }, result.complete
end

--- A candidate of one question that needs little memory, the least if its schedule has a closed form: { memory,
--- feasible … }; nil without any.
---@param o table  checked arguments
---@return table|nil least, boolean complete  false if Ctrl-C ended it
function search.least(o, strategies)
  local p = problem.of(o, strategies)
  p.refused, p.refusals = {}, {}
  if not p.closed then return simulated_least(p, o) end
  local options = { top = 1, threads = o.threads, prune = true, memory_only = true, fast = o.fast }
  local core_search <close> = new_core_search(p, options)
  local complete = shapes.all(p, options, core_search)
  return core_search:answer(1).least, complete
end

-- Adds the best of a ranking by simulation to its result.
local function add_ranked(result, r)
  result.simulated, result.proven = r.simulated, r.proven and result.complete
  result.unproven = not result.proven and rerank.unproven(r, result.complete) or nil
  for i, c in ipairs(rerank.best(r)) do
    c.unproven = result.unproven
    result[i] = c
  end
end

local function answer(p, o, index, found, complete, ranking)
  local question = p.questions[index]
  local result = {
    candidates = found.candidates, feasible = found.feasible, complete = complete, gpus = question.gpus,
    evaluated = not o.prune and found.evaluated or nil, -- with pruning it depends on thread timing
    model = frozen.show(question.model), system = frozen.show(question.system), global_batch = question.global_batch,
    bounds = not p.closed or nil, left_out = search_walk.left_out(p),
  }
  if ranking then
    add_ranked(result, ranking)
  else
    described.all(result, p, o, question, found)
  end
  result.alike = result[1] and result[1].intervals and differ.alike(result, o.minimize) or nil
  if found.candidates == 0 and not complete then
    result.reason = "interrupted before the first candidate"
  elseif found.candidates == 0 then
    result.reason = gpu_counts.why_none(p, question, o.fast, result.left_out)
  elseif found.feasible == 0 then
    result.reason = advice.why_too_big(p, o, question, found, complete and search.least)
  elseif result.simulated and #result == 0 then
    result.reason = rerank.why_none(ranking, complete)
  elseif #result == 0 and complete then
    result.reason = ("'where' takes none of %d candidates that fit"):format(found.feasible)
  end
  return result
end

-- Which candidates are ranked by simulation: all if asked to, else the "open" ones, whose schedule has no closed form
-- or whose chunks are so unequal that it is far from the truth; nil if there are none. The others compete by their
-- closed forms, so that what a candidate counts for does not depend on what else there is to choose.
local function simulates(p, o)
  local open = false
  for _, name in ipairs(p.schedules) do
    if not p.closed_forms[name] then
      if o.simulate == false then
        refusal.raise("tperf.search: schedule '%s' has no closed form: only simulation can rank it", name)
      end
      open = true
    end
  end
  local by_form = o.keep == "all" and "keep = \"all\"" or o.minimize and "'minimize'" -- ranks by closed forms
  if not p.closed and o.simulate == nil and not by_form then open = true end
  if by_form and (o.simulate or open) then
    refusal.raise("tperf.search: %s ranks by the closed form, which 'simulate' and schedules without one do without",
      by_form)
  end
  return o.simulate and "all" or open and "open" or nil
end

-- What a walk finds for each question, and whether it was complete; idle: without a walk.
local function walk(p, o, idle)
  local core_search <close> = new_core_search(p, o)
  local complete, found = not idle and shapes.all(p, o, core_search), {}
  for i in ipairs(p.questions) do found[i] = core_search:answer(i) end
  return found, complete
end

-- The rankings of all questions by simulation, which goes on, if need be after further walks, until bounds prove the
-- answers; and whether it was complete.
local function rank(p, o, found, complete)
  local rankings = {}
  for i, question in ipairs(p.questions) do rankings[i] = rerank.new(p, o, question) end
  repeat
    local more = false
    o.reached = {}
    for i, r in ipairs(rankings) do
      if not r.proven then rerank.add(r, found[i], search_walk.MOST_OPEN) end
      o.reached[i], more = rerank.reached(r), more or r.more
    end
    more = more and complete and not core.pending()
    if more then found, complete = walk(p, o) end
  until not more
  return rankings, complete and not core.pending()
end

-- The results of all questions.
function ask(p, o, idle)
  local found, complete = walk(p, o, idle)
  local rankings, results = {}, {}
  if o.simulates then rankings, complete = rank(p, o, found, complete) end
  for i in ipairs(p.questions) do results[i] = answer(p, o, i, found[i], complete, rankings[i]) end
  return results
end

-- The checked arguments of a question, and its problem.
local function prepared(given)
  local t = prepare(given)
  t.problem.refused, t.problem.many = {}, t.many
  t.problem.refusals = {}
  return t.o, t.problem
end

--- search.run for use inside another question: leaves Ctrl-C for that question to handle.
function search.within(given)
  local start = core.clock()
  local o, p = prepared(given)
  p.asked = given
  local room = search_room.check(p, o, new_core_search)
  o.simulates = simulates(p, o)
  local results = ask(p, o, not room)
  local seconds = core.clock() - start
  for _, result in ipairs(results) do result.seconds = seconds end
  return p.many and results or results[1]
end

--- Walks a part of a search's shapes, for the process of a run under MPI that asked (tperf/question/search/shapes).
---@param given table    the question
---@param options table  of the walk
---@param part table     { index, of }
function search.part(given, options, part)
  local _, p = prepared(given)
  return shapes.answer(p, options, part)
end

--- Ranks all ways to train a model on a system.
---@param given table  the arguments of training (tperf.question.arguments), where those that candidates choose take a
---  list of values to try, and
---  gpus               a number or a list
---  top                number of configurations to return (10)
---  keep               "all": every candidate, feasible or not, ranked by closed forms even of uneven chunks
---  minimize           what to rank by, least first: "time" (default), "memory" of a GPU, "dollars" or "energy" of an
---                     iteration, or function(configuration) -> number. Anything but the time is computed for every
---                     candidate that `where` keeps, by its closed form
---  where              function(configuration) -> boolean: keeps a configuration. It is called only for those good
---                     enough to be returned; `candidates` and `feasible` count before it
---  infeasible         true: also rank configurations that do not fit (false)
---  prune              false: also time configurations that bounds rule out (true)
---  simulate           true: rank by pass-by-pass simulation instead of the closed form; adds `simulated`. By default,
---                     if a schedule has no closed form, or a pipeline's chunks differ by more than a tenth in their
---                     layers or by more than 3 % in the kinds of these
---  threads            number of threads; by default all available processors
---  progress           function(shapes): called with the number of shapes walked so far
---@return tperf.found|tperf.found[] result  a list, systems outermost, if gpus or system is a list
function search.run(given)
  local result = search.within(given)
  if not (result.complete or result[1] and result[1].complete) then core.interrupted() end
  return result
end

questions.register("search", search.run)

return search
