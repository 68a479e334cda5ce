--- Classes of training runs with the quantiles of their errors, from hold-outs by whole sources: what
--- kernels/intervals.yaml has. Nothing here is fitted; every prediction is by a fit that did not see the run's source.
local fit = require "tperf.measured.calibrate.fit"
local holdout = require "tperf.measured.calibrate.holdout"
local intervals = require "tperf.describe.intervals"
local kinds = require "tperf.measured.calibrate.kinds"
local profile = require "tperf.measured.calibrate.profile"
local stacks = require "tperf.measured.run.stacks"

local classes = {}

local FEWEST <const> = { sources = 3, runs = 20 } -- of a class
local ALIKE <const> = 5 -- runs of a source from which on more of them count no more: they are like each other

-- Sums over traced layers, which are no runs, and tests of models that nobody trains.
local function is_run(case) return case.stack ~= "vtrain-2024" and stacks.kind(case.stack) ~= "tests" end

local function features_of(case, software, unlike)
  local precision = type(case.precision) == "table" and case.precision.recipe or case.precision
  return intervals.features {
    software = software, unlike = unlike, model = case.model, gpus = case.sizes.gpus, precision = precision,
    compile = case.compile, adapters = case.peft ~= nil,
  }
end

local function observe(list, figure, case, ratio, features)
  list[#list + 1] = { figure = figure, source = case.source, ratio = ratio, features = features }
end

-- Times by a profile shared with stacks of a kind, fitted to the others of it. as_asked: the cases by the id of their
-- row, without the facts of their stack, which somebody who asks for a shared profile does not state.
local function add_shared(list, by_stack, names, kind, as_asked)
  local of_others -- what is fitted to all stacks of the kind: those of other kinds were in no such fit
  for _, name in ipairs(names) do
    local own = stacks.kind(name) == kind
    local others = kinds.of(by_stack, kind, own and name or nil)
    local values = own and profile.shared(others) or of_others or profile.shared(others)
    if not own then of_others = values end
    local facts = profile.facts(holdout.joined(others))
    facts.spread = { 1, 1 } -- they were compared
    for _, case in ipairs(by_stack[name]) do
      local asked = as_asked[case.row.id]
      if asked and is_run(case) then
        local features = features_of(case, kind, holdout.is_unlike(facts, asked))
        observe(list, "time", case, profile.add_ratios({}, { asked }, values)[1], features)
      end
    end
  end
end

-- Times by a stack's own profile, fitted to its runs on other systems, of fewer GPUs, of other models.
local function add_own(list, cases)
  for _, way in ipairs { "system", "scale", "model" } do
    holdout.run(cases, way)
    for _, case in ipairs(cases) do
      if case.held_out and is_run(case) then
        observe(list, "time", case, case.held_out / case.measured, features_of(case, "own", true))
      end
    end
  end
end

-- Memory, to which nothing is fitted.
local function add_memory(list, cases, software)
  for _, case in ipairs(cases) do
    if case.memory and case.predicted_memory then
      local ratio = case.predicted_memory / (case.memory * 2 ^ 30)
      observe(list, "memory", case, ratio, features_of(case, software, false))
    end
  end
end

--- The errors of runs held out: { figure, source, ratio = predicted / measured, features }.
---@param own table[]     cases of tperf.validate, predicted by their stacks' profiles
---@param shared table<string, table[]>  the same cases, predicted by the profiles that stacks share, by its name
---@return table[]
function classes.observed(own, shared)
  local list = {}
  local by_stack, names = profile.by_stack(own)
  table.sort(names)
  add_own(list, own)
  add_memory(list, own, "own")
  for _, kind in ipairs { "typical", "tuned" } do
    local as_asked = {}
    for _, case in ipairs(shared[kind]) do as_asked[case.row.id] = case end
    add_shared(list, by_stack, names, kind, as_asked)
    add_memory(list, shared[kind], kind)
  end
  return list
end

-- The conditions of classes, of training beside the software's, of serving beside the machine's.
local TRAINED <const> = { {}, { "model" }, { "scale" }, { "model", "scale" }, { "runs" }, { "numbers" }, { "kernels" },
  { "trained" } }
local SERVED <const> = { {}, { "model" }, { "load" }, { "model", "load" }, { "numbers" }, { "numbers", "load" } }
local FIGURES <const> = { time = TRAINED, memory = TRAINED, tpot = SERVED, ttft = SERVED, duration = SERVED }

local function states(features, names)
  for _, name in ipairs(names) do
    if features[name] == nil then return false end
  end
  return true
end

-- One class for each value of these features that occurs.
local function add_classes(list, observed, figure, names)
  local groups, keys = {}, {}
  for _, one in ipairs(observed) do
    if one.figure == figure and states(one.features, names) then
      local where, words = {}, {}
      for i, name in ipairs(names) do
        where[name] = one.features[name]
        words[i] = where[name]
      end
      local key = table.concat(words, "\0")
      if not groups[key] then
        groups[key] = { figure = figure, where = where, sources = {} }
        keys[#keys + 1] = key
      end
      local of = groups[key].sources
      of[one.source] = of[one.source] or {}
      table.insert(of[one.source], one.ratio)
    end
  end
  table.sort(keys)
  for _, key in ipairs(keys) do list[#list + 1] = groups[key] end
end

local function finished(class)
  local names, lists, runs = {}, {}, 0
  for name in pairs(class.sources) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    lists[i] = class.sources[name]
    runs = runs + #lists[i]
  end
  if #lists < FEWEST.sources or runs < FEWEST.runs then return nil end
  local spread = fit.spread(lists, ALIKE)
  return { figure = class.figure, where = class.where, low = spread[1], high = spread[2], runs = runs,
    sources = #lists }
end

--- The classes of runs: of every value of a feature, those with enough runs and sources.
---@param observed table[]  from classes.observed, and of served.observed (served.lua)
---@return table[] classes  as kernels/intervals.yaml has them
function classes.of(observed)
  local list, made = {}, {}
  for _, figure in ipairs { "time", "memory", "tpot", "ttft", "duration" } do
    for _, names in ipairs(FIGURES[figure]) do
      local first = FIGURES[figure] == TRAINED and "software" or "machine"
      add_classes(list, observed, figure, table.move(names, 1, #names, 2, { first }))
    end
  end
  for _, class in ipairs(list) do made[#made + 1] = finished(class) end
  return made
end

return classes
