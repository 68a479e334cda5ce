local data_files = require "tperf.cli.answer.data_files"
local options = require "tperf.input.options"
local processes = require "tperf.cli.sandbox.processes"
local settings = require "tperf.cli.ask.settings"
local text_file = require "tperf.input.text"
local output = require "tperf.output.file"
local say = require "tperf.output.terminal".say

local COLUMNS = {
  { key = "source" }, { key = "rows" }, { key = "median", unit = "%" }, { key = "mean", unit = "%" },
  { key = "p90", unit = "%" }, { key = "max", unit = "%" }, { key = "bias", unit = "%" },
}

local GROUP_COLUMNS = {
  { key = "stack" }, { key = "group", title = "held out" }, { key = "runs" }, { key = "median", unit = "%" },
  { key = "p90", unit = "%" }, { key = "bias", unit = "%" }, { key = "within", title = "in interval", unit = "%" },
}

local METRIC_COLUMNS = {
  { key = "metric" }, { key = "group" }, { key = "rows" }, { key = "median", unit = "%" }, { key = "mean", unit = "%" },
  { key = "p90", unit = "%" }, { key = "max", unit = "%" }, { key = "bias", unit = "%" },
}
local OTHER_COLUMNS = {
  { key = "metric" }, { key = "simulator" }, { key = "rows" }, { key = "median", unit = "%" },
  { key = "p90", unit = "%" }, { key = "bias", unit = "%" }, { key = "ours.median", title = "tperf", unit = "%" },
  { key = "ours.p90", title = "tperf p90", unit = "%" },
}

-- Prints serving results: the errors of each metric, overall and by engine, model and GPU, then other simulators.
local function show_serving(values, result)
  local rows = table.move(result.metrics, 1, #result.metrics, 1, {})
  for _, field in ipairs { "engine", "model", "gpu" } do
    local groups = result[field]
    if #groups > #result.metrics then table.move(groups, 1, #groups, #rows + 1, rows) end
  end
  require "tperf.cli.answer.table"(values, rows, METRIC_COLUMNS)
  if values.csv or not (result.others and result.others[1]) then return end
  print "\nother simulators, and tperf on the same rows:"
  require "tperf.cli.answer.table"(values, result.others, OTHER_COLUMNS)
end

-- Prints the predictions of refits: a row per group, and a line for all.
local function show_groups(values, result)
  require "tperf.cli.answer.table"(values, result.groups, GROUP_COLUMNS)
  if values.csv then return end
  local o = result.over_groups
  say(("\n%d groups: median %.1f %%, worst %.1f %% (%s)"):format(o.groups, 100 * o.median, 100 * o.worst,
    o.worst_group))
  say(("%d held-out runs: median %.1f %%, p90 %.1f %%; %.0f %% lie in the 90 %% interval"):format(o.runs,
    100 * o.runs_median, 100 * o.runs_p90, 100 * o.within))
end

local LARGE <const> = 256 << 10 -- bytes, some 500 training runs: a smaller table is read before others have started
local MOST_PROCESSES <const> = 8

-- One prediction per row, for --out.
local function predictions(result)
  local rows = {}
  for i, case in ipairs(result.cases) do
    rows[i] = {
      id = case.row.id, line = case.row.line, source = case.source, system = case.system, case = case.label,
      metric = case.metric, measured = case.measured, predicted = case.predicted,
      error = case.predicted / case.measured - 1,
      from = case.spread and case.spread[1] * case.predicted, to = case.spread and case.spread[2] * case.predicted,
    }
  end
  return rows
end

local PREDICTION_COLUMNS = {
  { key = "id" }, { key = "line" }, { key = "source" }, { key = "system" }, { key = "case" },
  { key = "metric" }, { key = "measured" },
  { key = "predicted" }, { key = "error" }, { key = "from" }, { key = "to" },
}

return {
  summary = "compare predictions with published measurements",
  arguments = "FILE",
  from = { "files" },
  example = [[
tperf validate measured.csv --out predictions.csv --plot scatter.svg
tperf validate all_reduce.log -s h100-sxm]],
  details = [[
FILE has the columns of a table of training runs, of serving, collectives, matrix products or kernels
(docs/accuracy.md), or is a log of nccl-tests as printed.
--hold-out predicts each group from software profiles fitted to all other training runs:
a stack by the profile that the others of its kind share (typical or tuned); the runs of
a stack on one system, at the larger half of its GPU counts, or of one model family, by
its own profile fitted to the rest; and each third of the runs by the other two. --out
and --plot then have the runs held out, with these predictions.]],
  options = options.join({
    { long = "system", short = "s", value = "NAME", from = "systems files",
      help = "the system for all rows, its network too (default: the row's)" },
    { long = "software", value = "NAME", from = "software",
      help = "a stack for all runs; none; default: as if unnamed (by the row's source)" },
    { long = "hold-out", value = "GROUP", from = { "stack", "system", "scale", "model", "third" },
      help = "predict each stack, system, scale, model or third from a fit without it" },
    { long = "rules", value = "NAME", from = "rules", help = "modelling rules (`tperf list rules`)" },
    { long = "out", short = "o", value = "FILE", writes = "file", help = "write every row's prediction as CSV" },
    { long = "plot", value = "FILE", writes = "plot", help = "draw predicted against measured (.svg)" },
    settings.option, processes.shares("the rows (default: 1, up to 8 for large files)"),
  }, options.formats),
  run = function(values, arguments, host)
    if not arguments[1] then return false, "FILE is missing" end
    if arguments[2] then return false, "validate takes one file" end
    local wrong = settings.apply(values, {})
    if wrong then return false, wrong end
    local shares = not values.hold_out and text_file.size(arguments[1]) >= LARGE
    local ok, problem = processes.start(values, host, shares and MOST_PROCESSES or 1)
    if not ok then return false, problem end
    local keeps = values.out or values.plot or values.hold_out
      or require "tperf.measured".kind(arguments[1]).cases -- of serving
    local result = require "tperf".validate {
      file = arguments[1], system = values.system, rules = values.rules, software = values.software,
      hold_out = values.hold_out, brief = not values.hold_out, intervals = values.out ~= nil,
      each = not keeps and function() end or nil,
    }
    if result.predicted == 0 then
      error(("%s: %s"):format(arguments[1], require "tperf.measured".none_predicted(result.rows, result.left_out)), 0)
    end
    local report = require "tperf.report"
    if values.out then output.write(values.out, report.csv(predictions(result), PREDICTION_COLUMNS)) end
    if values.plot then require "tperf.measured.validate".plot(result):save(values.plot) end
    if values.json then
      io.stdout:write(require "tperf.output.json".encode(data_files.into {
        kind = result.kind, rows = result.rows, predicted = result.predicted, sources = result.sources,
        memory = result.memory, memory_kinds = result.memory_kinds, unknown = result.unknown,
        left_out = result.left_out,
        groups = result.groups, over_groups = result.over_groups, metrics = result.metrics, engine = result.engine,
        model = result.model, gpu = result.gpu, others = result.others,
      }), "\n")
      return
    end
    if result.groups then return show_groups(values, result) end
    if result.metrics then
      show_serving(values, result)
    else
      require "tperf.cli.answer.table"(values, result.sources, COLUMNS)
    end
    if values.csv then return end
    if result.memory then
      print "\npeak memory:"
      require "tperf.cli.answer.table"(values, result.memory, COLUMNS)
      print "\nby what the figure counts:"
      require "tperf.cli.answer.table"(values, result.memory_kinds, COLUMNS)
    end
    say((result.metrics and "\n%d figures of %d rows" or "\n%d of %d rows predicted"):format(result.predicted,
      result.rows))
    for _, one in ipairs(result.unknown or {}) do
      say(("%6d of a stack that is not known, predicted by software %s: %s"):format(one.rows, one.software,
        one.source))
    end
    require "tperf.cli.answer.left_out"(result.left_out)
  end,
}
