--- tperf.validate: errors of predictions against published measurements.
local check = require "tperf.base.check"
local fit = require "tperf.measured.calibrate.fit"
local holdout = require "tperf.measured.calibrate.holdout"
local measured = require "tperf.measured"
local runtime = require "tperf.describe.profile"
local serving = require "tperf.measured.serving.cases"
local software = require "tperf.base.catalogue".shared(require "tperf.describe.software")
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")
local text_file = require "tperf.input.text"

local validate = {}

local schema = {
  file = check.string(), system = check.any { optional = true }, rules = check.any { optional = true },
  software = check.any { optional = true }, brief = check.boolean { default = false },
  intervals = check.boolean { default = false },
  hold_out = check.choice { holdout.WAYS, optional = true }, each = check.func { optional = true },
}

-- Collects predicted / measured by the name of a group; rows() has the statistics of each: rows, median, mean, 90th
-- percentile and maximum of the absolute error, and the bias (the median signed error), each as a part of the measured
-- value, in sorted order.
local function tally()
  local ratios, names, self = {}, {}, {}
  function self.add(name, ratio)
    if not ratios[name] then ratios[name], names[#names + 1] = {}, name end
    ratios[name][#ratios[name] + 1] = ratio
  end
  function self.rows()
    table.sort(names)
    local rows = {}
    for i, name in ipairs(names) do
      rows[i] = fit.errors(ratios[name])
      rows[i].source = name
    end
    return rows
  end
  return self
end

--- Statistics of cases, grouped by the result of `key`, in sorted order.
---@param cases table[]  with predicted and measured
---@param key fun(case: table): string
function validate.by(cases, key)
  local errors = tally()
  for _, case in ipairs(cases) do errors.add(key(case), case.predicted / case.measured) end
  return errors.rows()
end

-- Adds errors by serving metric, and by engine, model and GPU.
local function add_serving(result, reader, file)
  local cases = result.cases
  result.metrics = serving.statistics(cases)
  for _, field in ipairs { "engine", "model", "gpu" } do result[field] = serving.statistics(cases, field) end
  result.sources = validate.by(cases, function(case) return case.source .. ", " .. case.metric end)
  result.others = reader.others and reader.others(cases, file)
end

-- Counts a case of a source that is not known.
local function count(list, case)
  for _, one in ipairs(list) do
    if one.source == case.source then
      one.rows = one.rows + 1
      return
    end
  end
  list[#list + 1] = { source = case.source, software = case.stack, rows = 1 }
end

-- The cases that were held out, each with the prediction of the fit without it.
local function held_out(cases)
  local list = {}
  for _, case in ipairs(cases) do
    if case.held_out then
      list[#list + 1] = case
      case.predicted = case.held_out
    end
  end
  return list
end

local WORDS <const> = { [runtime.NONE] = true, [runtime.IMPLIED] = true } -- in place of a profile's name

-- The profile of all rows; "none": the formulas alone; "default": what their questions imply; nil: each row's own.
local function software_of(value, reader)
  if not WORDS[value] then return value and software(value) end
  if reader.cases then
    check.fail("tperf.validate: software = \"%s\" is for tables of training runs and kernels: an engine's steps "
      .. "take what its profile says (`tperf list software`)", value)
  end
  if value == runtime.IMPLIED and reader.name ~= "step" then
    check.fail("tperf.validate: software = \"%s\" is for tables of training runs, and %s rows name no stack", value,
      reader.name)
  end
  return value
end

--- Predicts every row of a table of measurements that gives enough information.
---@param given table
---   file      a CSV file with the columns of one of the published tables (docs/accuracy.md), or a log of nccl-tests
---   system    for all rows, with its network between nodes; default: the system of the GPU that a row names,
---             with the network that the row names
---   rules     "default"
---   software  the software profile of all rows, or "none": the formulas alone, with what the row's stack is known to
---             do; "default": what a question gets that names no stack (tperf.train); default: the one that the row
---             names
---   hold_out  "stack", "system", "scale", "model" or "third": for training runs, refits software profiles without each
---             of these groups in turn and predicts it. A stack is predicted by the shared profile of its kind
---             (`typical` or `tuned`) fitted to the other stacks, the other groups by the stack's own profile, fitted
---             to the rest of its runs: those on other systems; on the smaller half of the GPU counts; of other
---             families of models; two thirds
---   each      function(case): called with each case in place of keeping it in `cases`, so that a table of a million
---             rows takes 16 bytes a row; not for serving, nor with hold_out
---   intervals  true: a training run has `spread`, { low, high }: nine tenths of runs like it take between so many
---             times the predicted time (false)
---   brief     true: a case has its row, system, label and figures alone, and several processes share the rows (false)
---@return table result { kind, rows, predicted, cases = { { predicted, measured, source, label, system, row } … },
---   left_out = { { reason, rows } … }, memory = as sources, for peak memory, and memory_kinds, the same by what the
---   source's figure counts: "allocated", "reserved", "whole GPU" or "not stated"; unknown = { { source, software,
---   rows } … }, training runs whose stack is not known, and the profile that predicts them instead,
---   sources = { { source, rows, median, mean, p90, max, bias } … } }; for serving, whose cases have a metric, an
---   engine, a model and a gpu, also metrics = { { metric, group, rows, median, mean, p90, max, bias } … } with group
---   "all", engine, model and gpu (the same, grouped by each), and others = { { simulator, metric, rows, median, p90,
---   bias, ours } … }, other simulators' errors on the same rows, with tperf's in ours; with hold_out also
---   groups = { { stack, group, runs, median, p90, bias, within } … }, within: the part of the runs inside the
---   interval that the fit without them claims for nine tenths, and
---   over_groups = { groups, runs, median, worst, worst_group, within, runs_median, runs_p90 }, the last two over all
---   runs; and cases are only those held out, with these predictions
function validate.run(given)
  local o = check.record("tperf.validate", given, schema)
  if o.software and not WORDS[o.software] then software(o.software) end -- one that does not exist
  if o.system then system(o.system) end -- one that does not exist is wrong for all rows
  local _ <close> = text_file.reading(o.file)
  local reader = measured.kind(o.file)
  o.software = software_of(o.software, reader)
  if o.hold_out and reader.name ~= "step" then
    check.fail("tperf.validate: 'hold_out' refits to training runs, and %s has none", tostring(o.file))
  end
  if o.hold_out and WORDS[o.software] then
    check.fail("tperf.validate: 'hold_out' refits software profiles, and software = \"%s\" asks for none of them",
      o.software)
  end
  if o.each and (o.hold_out or reader.cases) then
    check.fail("tperf.validate: 'each' is for tables whose rows are predicted one by one, without 'hold_out'")
  end
  local cases, predicted, errors, memory, kinds, unknown = {}, 0, tally(), tally(), tally(), {}
  local function visit(case)
    predicted = predicted + 1
    if case.unknown then count(unknown, case) end
    errors.add(case.source, case.predicted / case.measured)
    if case.memory and case.predicted_memory then
      local ratio = case.predicted_memory / (case.memory * 2 ^ 30)
      memory.add(case.source, ratio)
      kinds.add(case.memory_kind, ratio)
    end
    if o.each then o.each(case) else cases[predicted] = case end
  end
  local result = { kind = reader.name, cases = cases }
  if reader.cases then
    local rows = measured.open(o.file)
    result.rows, result.cases, result.left_out = #rows, measured.predict(rows, reader, o)
    predicted = #result.cases
    add_serving(result, reader, o.file)
  else
    result.rows, result.left_out = measured.each(o.file, reader, o, visit)
    local used = memory.rows()
    result.sources, result.memory = errors.rows(), used[1] and used or nil
    result.memory_kinds = used[1] and kinds.rows() or nil
    result.unknown = unknown
  end
  result.predicted = predicted
  if o.hold_out then
    result.groups, result.over_groups = holdout.run(cases, o.hold_out)
    result.cases = held_out(cases)
  end
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
