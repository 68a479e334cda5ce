--- Fits software profiles to step times: six numbers a stack, shared by all its runs.
local check = require "tperf.check"
local fit = require "tperf.calibrate.fit"
local step = require "tperf.measured.step"

local profile = {}

-- Where a parameter usually is, within which bounds, and by how much it usually differs (of a logarithm, but for the
-- overlap).
profile.parameters = {
  { name = "compute", start = 1.1, low = 0.7, high = 2, spread = 0.15 },
  { name = "attention", start = 1.3, low = 0.5, high = 6, spread = 0.4 },
  { name = "memory", start = 1.3, low = 0.5, high = 5, spread = 0.5 },
  { name = "comm", start = 1, low = 0.05, high = 4, spread = 0.6 },
  { name = "host", start = 8e-6, low = 1e-7, high = 2e-4, spread = 0.8 },
  { name = "overlap", start = 0.6, low = 0, high = 1, spread = 0.3 },
}

-- Few runs leave a parameter where it usually is, many move it: of the strengths tried, from 0.1 to 3, this one errs
-- least on runs held back, over all stacks.
local PULL <const> = 0.4

local function pull(values, runs)
  local sum = 0
  for _, p in ipairs(profile.parameters) do
    local away = p.low > 0 and math.log(values[p.name] / p.start) or values[p.name] - p.start
    sum = sum + (away / p.spread) ^ 2
  end
  return PULL / math.max(runs, 1) ^ 2 * sum
end

-- The loss has several valleys: a host that is slow enough to matter, memory traffic that is. The deepest counts.
local STARTS <const> = {
  {}, { host = 1e-4 }, { memory = 3, comm = 0.5 }, { host = 1e-4, compute = 0.9, attention = 2 },
}

local function parameters_from(start)
  local list = {}
  for i, p in ipairs(profile.parameters) do
    list[i] = { name = p.name, low = p.low, high = p.high, start = start[p.name] or p.start }
  end
  return list
end

-- log(predicted / measured)
local function residual(case, values)
  values.optimizer = case.profile.optimizer -- is not fitted
  return math.log(step.seconds(case, values) / case.measured)
end

-- The cases for which want(i) holds.
local function wanted(cases, want)
  local list = {}
  for i, case in ipairs(cases) do
    if want(i) then list[#list + 1] = case end
  end
  return list
end

-- A source counts by the cube root of its runs: one of a thousand does not drown one of a dozen.
local function loss_of(groups, names, values)
  local loss, n = 0, 0
  for _, name in ipairs(names) do
    local list = {}
    for i, case in ipairs(groups[name]) do list[i] = residual(case, values) end
    local weight = (#list) ^ (1 / 3)
    loss, n = loss + weight * fit.loss(list), n + weight
  end
  return loss / math.max(n, 1)
end

-- Adds predicted / measured of the cases to a list.
local function add_ratios(list, cases, values)
  for _, case in ipairs(cases) do list[#list + 1] = math.exp(residual(case, values)) end
  return list
end

-- The best profile of some cases of one stack.
local function best(cases)
  local groups, names = fit.groups(cases, "source")
  local found, least = nil, math.huge
  for _, start in ipairs(STARTS) do
    local values, loss = fit.minimise(parameters_from(start), function(values)
      return loss_of(groups, names, values) + pull(values, #cases)
    end)
    if loss < least then found, least = values, loss end
  end
  return found
end

--- The profile of all cases, its error on them, and the error on each third of a fit to the other two.
---@param cases table[]  of one stack, of tperf.measured.step, predicted once so that they have predictors
---@param salt integer?  other thirds
function profile.fit(cases, salt)
  local held_back = {}
  for third = 0, 2 do
    local function held(i) return fit.third(i, salt) == third end
    local partial = best(wanted(cases, function(i) return not held(i) end))
    add_ratios(held_back, wanted(cases, held), partial)
  end
  local values = best(cases)
  return values, fit.errors(add_ratios({}, cases, values)), fit.errors(held_back)
end

local function span_of(cases, value)
  local low, high = math.huge, 0
  for _, case in ipairs(cases) do low, high = math.min(low, value(case)), math.max(high, value(case)) end
  return ("[%d, %d]"):format(low, high)
end

local function systems_of(cases)
  local seen, names = {}, {}
  for _, case in ipairs(cases) do
    if not seen[case.system] then
      seen[case.system] = true
      names[#names + 1] = case.system
    end
  end
  table.sort(names)
  return names
end

--- The text of a profile's file.
---@param base table     the profile fitted before: its name, kernel and gradient_shard stay
---@param cases table[]
---@param salt integer?
function profile.text(base, cases, salt)
  local values, all, held = profile.fit(cases, salt)
  local lines = { "name: " .. base.name, "source: >-" }
  lines[3] = "  fitted by `tperf calibrate --software` to published runs of the stack (docs/accuracy.md);"
  lines[4] = "  error: each third of the runs predicted by a fit to the other two"
  lines[5] = "kernel: " .. base.kernel
  if base.gradient_shard then lines[#lines + 1] = "gradient_shard: true" end
  if base.gradients then lines[#lines + 1] = "gradients: " .. base.gradients end
  for _, p in ipairs(profile.parameters) do
    local value = values[p.name]
    local text = p.name == "host" and ("%.3g us"):format(value * 1e6) or ("%.3g"):format(value)
    lines[#lines + 1] = p.name .. ": " .. text
  end
  local more = {
    "error: " .. ("%.3g"):format(held.median), "error90: " .. ("%.3g"):format(held.p90), "runs: " .. #cases,
    "systems: [" .. table.concat(systems_of(cases), ", ") .. "]",
    "gpus: " .. span_of(cases, function(case) return case.sizes.gpus end),
    "hidden: " .. span_of(cases, function(case) return case.model.hidden end),
    "seq: " .. span_of(cases, function(case) return case.model.seq end),
  }
  table.move(more, 1, #more, #lines + 1, lines)
  return table.concat(lines, "\n") .. "\n", all, held
end

--- The cases of a table of training runs by stack, predicted once; small runs timed for other ends are left out.
---@param path string
function profile.stacks(path)
  local measured = require "tperf.measured"
  local rows, reader = measured.open(path)
  if reader.name ~= "step" then check.fail("%s is no table of training runs", path) end
  local stacks = {}
  local cases, left_out = measured.predict(rows, reader)
  if #cases == 0 then check.fail("%s: %s", path, measured.none_predicted(#rows, left_out)) end
  for _, case in ipairs(cases) do
    if not case.source:find "CI small" then
      stacks[case.stack] = stacks[case.stack] or {}
      table.insert(stacks[case.stack], case)
    end
  end
  return stacks
end

return profile
