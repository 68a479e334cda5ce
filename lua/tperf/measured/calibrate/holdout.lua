--- Held-out validation of step times: refits software profiles without each group of runs in turn, and predicts that
--- group.
local check = require "tperf.base.check"
local fit = require "tperf.measured.calibrate.fit"
local profile = require "tperf.measured.calibrate.profile"
local runtime = require "tperf.describe.profile"
local kinds = require "tperf.measured.calibrate.kinds"
local kind_of = require "tperf.measured.run.stacks".kind
local nearest_of = require "tperf.measured.run.stacks".nearest
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")
local unfit = require "tperf.describe.unfit"

local holdout = {}

local FEWEST <const> = 2 -- runs that a fit needs

-- Splits one stack's cases into those with held(case, i) and the rest.
local function split(cases, name, held)
  local one = { name = name, held = {}, rest = {} }
  for i, case in ipairs(cases) do table.insert(held(case, i) and one.held or one.rest, case) end
  return one
end

-- One split per value of key(case).
local function splits_by(cases, key)
  local _, names = fit.groups(cases, key)
  table.sort(names)
  local list = {}
  for i, name in ipairs(names) do
    list[i] = split(cases, name, function(case) return key(case) == name end)
  end
  return list
end

-- The ways of splitting one stack's runs.
local splits = {}

function splits.system(cases)
  return splits_by(cases, function(case) return case.system end)
end

-- The first word of a model's name: "llama" of "LLAMA3.1_405B", "deepseek" of "deepseekv3".
local function family_of(case)
  local word = case.label:lower():match "%a+"
  return word and word:gsub("v$", "") or case.label
end

function splits.model(cases) return splits_by(cases, family_of) end

-- Fits to the smaller half of the GPU counts that occur, including the middle one.
function splits.scale(cases)
  local _, counts = fit.groups(cases, function(case) return case.sizes.gpus end)
  table.sort(counts)
  local most = counts[(#counts + 1) // 2]
  return { split(cases, ("over %d GPUs"):format(most), function(case) return case.sizes.gpus > most end) }
end

function splits.third(cases)
  local list = {}
  for third = 0, 2 do list[third + 1] = split(cases, "thirds", function(_, i) return fit.third(i) == third end) end
  return list
end

local function errors_of(ratios)
  local list = {}
  for i, ratio in ipairs(ratios) do list[i] = math.abs(ratio - 1) end
  return list
end

--- Whether a case is unlike the runs of a profile with these facts.
function holdout.is_unlike(facts, case)
  local question = { model = case.model, system = system(case.system) }
  question.attention = case.attention or runtime.attention(case.profile)
  return #unfit.warnings(facts, question, case.sizes.gpus) > 0
end

-- Adds predictions to a row and to its cases. The fit claimed the interval `spread` for nine tenths of the runs,
-- widened by `reach` for runs unlike those of `facts`.
local function add(row, cases, ratios, spread, facts, reach)
  table.move(ratios, 1, #ratios, #row.ratios + 1, row.ratios)
  for i, ratio in ipairs(ratios) do
    cases[i].held_out = ratio * cases[i].measured
    local low, high = spread[1], spread[2]
    if reach and holdout.is_unlike(facts, cases[i]) then
      low, high = table.unpack(runtime.widened(spread, reach, facts.shared))
    end
    if low <= 1 / ratio and 1 / ratio <= high then row.inside = row.inside + 1 end
  end
end

local function new_row(stack, name) return { stack = stack, group = name, ratios = {}, inside = 0 } end

-- Rows of one stack, with each split predicted by the stack's profile fitted to the rest of its runs.
local function rows_within(stack, list, rows, reach, usual)
  local of = {}
  for _, one in ipairs(list) do
    if #one.held > 0 and #one.rest >= FEWEST then
      if not of[one.name] then
        of[one.name] = new_row(stack, one.name)
        rows[#rows + 1] = of[one.name]
      end
      local values, facts = profile.best(one.rest, nil, usual), profile.facts(one.rest)
      local spread = fit.spread { profile.thirds(one.rest, nil, values, usual) }
      facts.spread, facts.shared = spread, false
      add(of[one.name], one.held, profile.add_ratios({}, one.held, values), spread, facts, reach)
    end
  end
end

-- Predicted / measured of groups of one stack's runs unlike the rest: on a system, at a scale or of a family of models
-- that the rest does not have; one list per group.
local function strangers(cases, usual)
  local lists, near = {}, profile.best(cases, nil, usual)
  for _, way in ipairs { "system", "scale", "model" } do
    for _, one in ipairs(splits[way](cases)) do
      if #one.held > 0 and #one.rest >= FEWEST then
        lists[#lists + 1] = profile.add_ratios({}, one.held, profile.best(one.rest, near, usual))
      end
    end
  end
  return lists
end

--- The interval of measured / predicted times that holds nine tenths of runs unlike those that their stack's
--- profile was fitted to: each group of them held out in turn, all with the same weight.
---@param stacks table<string, table[]>  from profile.by_stack
---@param usual fun(name: string): table?  from kinds.usual
---@return fun(but: string?): number[]?  the interval over all stacks except one
function holdout.reach(stacks, usual)
  local of = {}
  for name, cases in pairs(stacks) do
    of[name] = kind_of(name) ~= "tests" and strangers(cases, usual(name)) or {}
  end
  return function(but)
    local lists = {}
    for name, own in pairs(of) do
      if name ~= but then table.move(own, 1, #own, #lists + 1, lists) end
    end
    return fit.spread(lists)
  end
end

-- The median error, each stack with the same weight.
local function median_error(ratios_of)
  local list, sum = {}, 0
  for _, ratios in ipairs(ratios_of) do
    for _, error in ipairs(errors_of(ratios)) do list[#list + 1] = { error = error, weight = 1 / #ratios } end
  end
  table.sort(list, function(a, b) return a.error < b.error end)
  for _, one in ipairs(list) do
    sum = sum + one.weight
    if sum >= 0.5 * #ratios_of - 1e-9 then return one.error end
  end
end

local function without(list, index)
  local rest = table.move(list, 1, #list, 1, {})
  table.remove(rest, index)
  return rest
end

--- The profile shared by several stacks, and its errors on each stack when fitted to the others, starting from it.
---@param groups table[][]  a list of cases per stack, at least two stacks
---@return table values
---@return table held  { median, spread }, each stack with the same weight
function holdout.shared(groups)
  local values, ratios = profile.shared(groups), {}
  for i, cases in ipairs(groups) do
    ratios[i] = profile.add_ratios({}, cases, profile.shared(without(groups, i), values))
  end
  return values, { median = median_error(ratios), spread = fit.spread(ratios) }
end

--- Lists one after the other.
function holdout.joined(lists)
  local all = {}
  for _, list in ipairs(lists) do table.move(list, 1, #list, #all + 1, all) end
  return all
end

-- A row a stack, predicted by the profile of its kind, fitted to the other stacks of that kind; of one that
-- is apart, all of that which is nearest.
local function rows_of_stacks(stacks, names, rows, reach)
  local of_apart = {}
  for _, name in ipairs(names) do
    local apart, kind = kind_of(name) == "apart", nearest_of(name)
    local others = kinds.of(stacks, kind, name)
    if #others >= 2 then
      local made = apart and of_apart[kind] or table.pack(holdout.shared(others))
      if apart then of_apart[kind] = made end
      local row, facts = new_row(name, "by " .. kind), profile.facts(holdout.joined(others))
      facts.spread, facts.shared = made[2].spread, true
      add(row, stacks[name], profile.add_ratios({}, stacks[name], made[1]), made[2].spread, facts, reach(name))
      rows[#rows + 1] = row
    end
  end
end

local function summary_of(rows)
  local medians, ratios, worst, runs, inside = {}, {}, nil, 0, 0
  for i, row in ipairs(rows) do
    table.move(row.ratios, 1, #row.ratios, #ratios + 1, ratios)
    row.ratios = nil
    medians[i] = 1 + row.median
    if not worst or row.median > worst.median then worst = row end
    runs, inside = runs + row.runs, inside + row.inside
  end
  local over_runs = fit.errors(ratios)
  return {
    groups = #rows, median = fit.errors(medians).median, worst = worst.median,
    worst_group = worst.stack .. " " .. worst.group, within = inside / runs,
    runs = runs, runs_median = over_runs.median, runs_p90 = over_runs.p90,
  }
end

-- The stacks of real training runs (without those of tests), and their names.
local function stacks_of(cases)
  local stacks, names = profile.by_stack(cases)
  for i = #names, 1, -1 do
    if kind_of(names[i]) == "tests" then stacks[table.remove(names, i)] = nil end
  end
  table.sort(names)
  return stacks, names
end

local reaches = setmetatable({}, { __mode = "k" }) -- of lists of cases, which take longer than all else

local function reach_of(cases, stacks, usual)
  reaches[cases] = reaches[cases] or holdout.reach(stacks, usual)
  return reaches[cases]
end

holdout.WAYS = { "stack", "system", "scale", "model", "third" }

--- Predicts each group of runs by a fit to the others.
---@param cases table[]  of tperf.measured.run.step, predicted once
---@param way string     one of holdout.WAYS
---@return table[] rows  { stack, group, runs, median, p90, bias, within }: within is the part of the group's runs
---   inside the interval that the fit without them claims for nine tenths of them
---@return table summary  over groups: { groups, runs, median, worst, worst_group, within }; over all their runs:
---   { runs_median, runs_p90 }. Each case that was held out has its prediction in `held_out`, in seconds.
function holdout.run(cases, way)
  local stacks, names = stacks_of(cases)
  local usual = kinds.usual(stacks)
  local rows, reach = {}, reach_of(cases, stacks, usual)
  for _, case in ipairs(cases) do case.held_out = nil end
  if way == "stack" then
    rows_of_stacks(stacks, names, rows, reach)
  else
    for _, name in ipairs(names) do rows_within(name, splits[way](stacks[name]), rows, reach(name), usual(name)) end
  end
  if #rows == 0 then check.fail("tperf.validate: these runs have no two groups to hold out by %s", way) end
  for _, row in ipairs(rows) do
    local errors = fit.errors(row.ratios)
    row.runs, row.median, row.p90, row.bias = errors.rows, errors.median, errors.p90, errors.bias
    row.within = row.inside / row.runs
  end
  return rows, summary_of(rows)
end

return holdout
