--- tperf.validate: errors of predictions against published measurements.
local check = require "tperf.base.check"
local fit = require "tperf.measured.calibrate.fit"
local holdout = require "tperf.measured.calibrate.holdout"
local measured = require "tperf.measured"
local serving = require "tperf.measured.serving.cases"
local software = require "tperf.base.catalogue".shared(require "tperf.describe.software")
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")

local validate = {}

local schema = {
  file = check.string(), system = check.any { optional = true }, rules = check.any { optional = true },
  software = check.any { optional = true },
  hold_out = check.choice { holdout.WAYS, optional = true },
}

--- Rows, median, mean, 90th percentile and maximum of the absolute error, and the bias (the median signed
--- error), each as a part of the measured value.
---@param cases table[]  with predicted and measured
function validate.statistics(cases)
  local ratios = {}
  for i, case in ipairs(cases) do ratios[i] = case.predicted / case.measured end
  return fit.errors(ratios)
end

--- Statistics grouped by one of the cases' fields, or by the result of `key`, in sorted order.
---@param cases table[]
---@param key string|function
function validate.by(cases, key)
  local groups, names = fit.groups(cases, key)
  table.sort(names)
  local rows = {}
  for i, name in ipairs(names) do
    rows[i] = validate.statistics(groups[name])
    rows[i].source = name
  end
  return rows
end

--- Statistics of the peak memory that training runs report, by source; nil if none reports it.
---@param cases table[]
function validate.memory(cases)
  local list = {}
  for _, case in ipairs(cases) do
    if case.memory and case.predicted_memory then
      list[#list + 1] = { predicted = case.predicted_memory, measured = case.memory * 2 ^ 30, source = case.source }
    end
  end
  return #list > 0 and validate.by(list, "source") or nil
end

-- Adds errors by serving metric, and by engine, model and GPU.
local function add_serving(result, reader, file)
  local cases = result.cases
  result.metrics = serving.statistics(cases)
  for _, field in ipairs { "engine", "model", "gpu" } do result[field] = serving.statistics(cases, field) end
  result.sources = validate.by(cases, function(case) return case.source .. ", " .. case.metric end)
  result.others = reader.others and reader.others(cases, file)
end

--- Predicts every row of a table of measurements that gives enough information.
---@param given table
---   file      a CSV file with the columns of one of the published tables (docs/accuracy.md)
---   system    for all rows, with its network between nodes; default: the system of the GPU that a row names,
---             with the network that the row names
---   rules     "default"
---   software  the software profile of all rows; default: the one that the row names
---   hold_out  "stack", "system", "scale", "model" or "third": for training runs, refits software profiles without each
---             of these groups in turn and predicts it. A stack is predicted by the shared profile of its kind
---             (`typical` or `tuned`) fitted to the other stacks, the other groups by the stack's own profile, fitted
---             to the rest of its runs: those on other systems; on the smaller half of the GPU counts; of other
---             families of models; two thirds
---@return table result { kind, rows, cases = { { predicted, measured, source, label, system, row } … },
---   left_out = { { reason, rows } … }, memory = as sources, for peak memory,
---   sources = { { source, rows, median, mean, p90, max, bias } … } }; for serving, whose cases have a metric, an
---   engine, a model and a gpu, also metrics = { { metric, group, rows, median, mean, p90, max, bias } … } with group
---   "all", engine, model and gpu (the same, grouped by each), and others = { { simulator, metric, rows, median, p90,
---   bias, ours } … }, other simulators' errors on the same rows, with tperf's in ours; with hold_out also
---   groups = { { stack, group, runs, median, p90, bias, within } … }, within: the part of the runs inside the
---   interval that the fit without them claims for nine tenths, and
---   over_groups = { groups, runs, median, worst, worst_group, within }
function validate.run(given)
  local o = check.record("tperf.validate", given, schema)
  if o.software then o.software = software(o.software) end
  if o.system then system(o.system) end -- one that does not exist is wrong for all rows
  local rows, reader = measured.open(o.file)
  if o.hold_out and reader.name ~= "step" then
    check.fail("tperf.validate: 'hold_out' refits to training runs, and %s has none", tostring(o.file))
  end
  local cases, left = measured.predict(rows, reader, o)
  local result = {
    kind = reader.name, rows = #rows, cases = cases, left_out = left, sources = validate.by(cases, "source"),
    memory = validate.memory(cases),
  }
  if reader.cases then add_serving(result, reader, o.file) end
  if o.hold_out then result.groups, result.over_groups = holdout.run(cases, o.hold_out) end
  return result
end

--- Plots predicted against measured times, with the line where both are equal.
---@param result table  from validate.run
---@return tperf.Plot
function validate.plot(result)
  local rows = {}
  for i, case in ipairs(result.cases) do
    rows[i] = { source = case.source, measured = case.measured, predicted = case.predicted }
  end
  return require "tperf.plot".scatter {
    rows = rows, x = "measured", y = "predicted", series = "source", logx = true, logy = true, xunit = "s", yunit = "s",
    width = 900, title = "Predicted against measured time", xlabel = "measured", ylabel = "predicted",
    guides = { { f = function(x) return x end, label = "equal" } },
  }
end

return validate
