--- The output of `tperf serve`: results, requests, steps, deployments.
local at = require "tperf.output.columns".at
local format = require "tperf.output.format"
local layout = require "tperf.report.cut"
local options = require "tperf.input.options"
local report = require "tperf.report"
local serving_axes = require "tperf.cli.ask.serving_axes"
local show = require "tperf.cli.answer.table"
local warnings = require "tperf.question.warnings"
local say = require "tperf.output.terminal".say

local answer = {}

local latency_columns = {
  { key = "latency" }, { key = "mean", unit = "s" }, { key = "p50", unit = "s" }, { key = "p90", unit = "s" },
  { key = "p99", unit = "s" }, { key = "margin", title = "mean +-", unit = "s" },
  { key = "margin99", title = "p99 +-", unit = "s" },
}
local request_columns = {
  { key = "status" }, { key = "arrival", unit = "s" }, { key = "first_scheduled", unit = "s", wide = 3 },
  { key = "first_token", unit = "s" }, { key = "last_token", unit = "s" }, { key = "tokens" },
  { key = "preemptions", wide = 2 }, { key = "cached_tokens", wide = 1 },
  { key = "longest_gap", unit = "s", wide = 4 }, { key = "steps", wide = 5 },
}
local step_columns = {
  { key = "start", unit = "s" }, { key = "duration", unit = "s" }, { key = "replica" }, { key = "running" },
  { key = "waiting" }, { key = "prefill_tokens" }, { key = "decode_tokens" }, { key = "preempted", wide = 1 },
  { key = "free_blocks", wide = 2 },
}

-- The figures of a result besides its latencies, in order: { name, title, unit, range = it has a low and a high }.
local DETAILS = {
  { "tokens_per_second", "output tokens/s" }, { "requests_per_second", "requests/s" }, { "goodput", "good requests/s" },
  { "attainment", "part of requests that are good" }, { "utilization", "part of the time in steps" },
  { "concurrency", "requests in the system" }, { "ramp_up", "ramp-up", "s" },
  { "drain", "drain", "s" }, { "whole.tokens_per_second", "output tokens/s, with both" },
  { "whole.requests_per_second", "requests/s, with both" }, { "duration", "duration", "s" }, { "finished", "finished" },
  { "rejected", "rejected" }, { "preemptions", "preemptions" }, { "cache_hits", "part of prompts cached" },
  { "step_count", "steps" }, { "num_blocks", "blocks of the KV cache" },
  { "cache_tokens", "tokens of the KV cache" },
  { "full_context.tokens", "tokens of the longest request" },
  { "full_context.requests", "of which have room at once" },
  { "max_num_seqs", "most running requests" }, { "gpus", "GPUs" },
  { "tokens_per_second_per_gpu", "output tokens/s per GPU" },
  { "cost.generated", "$ for 1M output tokens" },
  { "cost.total", "$ for 1M tokens, prompts too" }, { "energy_per_token", "energy of an output token", "J" },
  { "interval", "tpot of nine in ten runs", "s", range = true },
  { "intervals.ttft", "their ttft", "s", range = true },
  { "intervals.tokens_per_second", "their output tokens/s", range = true },
  { "intervals.duration", "their duration", "s", range = true },
}

-- What the engine took where the question says nothing: in tables and JSON; a row of CSV does not tell it apart.
local DEFAULTS = {
  { "defaults.max_num_seqs", "default: max_num_seqs" },
  { "defaults.max_num_batched_tokens", "default: max_num_batched_tokens" },
  { "defaults.max_cudagraph_capture_size", "default: max_cudagraph_capture_size" },
  { "defaults.memory_utilization", "default: part of the memory" },
}

local DIGITS <const> = 3 -- of the ends of a range

local detail_columns = {
  { key = "item" },
  { title = "value", align = "right", key = function(row)
    if type(row.value) ~= "table" then return format.number(row.value, row.unit) end
    local low, high = row.value.low, row.value.high
    return ("%s to %s"):format(format.number(low, row.unit, DIGITS), format.number(high, row.unit, DIGITS))
  end },
}

--- One row per latency of a result, and the columns.
function answer.latencies(r)
  local latencies = {}
  for _, name in ipairs { "ttft", "tpot", "e2e" } do
    if r[name] then
      latencies[#latencies + 1] = { latency = name, mean = r[name].mean, p50 = r[name].p50, p90 = r[name].p90,
        p99 = r[name].p99,
        margin = r[name].margin.mean, margin99 = r[name].margin.p99 }
    end
  end
  return latencies, latency_columns
end

--- One row per other figure, and the columns.
function answer.details(r)
  local rows = {}
  for _, list in ipairs { DETAILS, DEFAULTS } do
    for _, detail in ipairs(list) do
      local value = at(r, detail[1])
      if value ~= nil then rows[#rows + 1] = { item = detail[2], value = value, unit = detail[3] } end
    end
  end
  return rows, detail_columns
end

-- Prints what an answer does not hold for to standard error, after the answer.
local function warn(list)
  io.stdout:flush()
  for _, warning in ipairs(list or {}) do io.stderr:write("tperf: ", warning, "\n") end
end

--- Prints a result as text: its latencies, then its other figures.
function answer.print(r)
  local latencies = answer.latencies(r)
  if latencies[1] then show({}, latencies, latency_columns) end
  print()
  report.print(answer.details(r))
  warn(r.warnings)
  if r.saturated and r.steady then
    io.stderr:write(("saturated: more requests come than the %.4g a second that are served; waits grow as long as the "
      .. "load lasts\n"):format(r.requests_per_second))
  end
  if r.rejected > 0 then
    io.stderr:write(("%d of %d requests rejected: a prompt as long as --max-model-len or the model's context, or more "
      .. "tokens than the KV cache holds (--num-gpu-blocks)\n"):format(r.rejected, r.rejected + r.finished))
  end
end

-- The deprecated name of a column: rates had others, and figures within tables an underscore for each dot.
local function older(path)
  local name = path:gsub("tokens_per_second", "throughput"):gsub("^(%w+)%.margin%.(%w+)$", "%1_%2_margin")
    :gsub("%.", "_")
  return name ~= path and name or nil
end

--- A result's columns for CSV.
function answer.flat()
  local columns, copies = {}, {}
  local function add(path)
    columns[#columns + 1] = { key = path }
    local name = older(path)
    if name then copies[#copies + 1] = { key = function(row) return at(row, path) end, title = name } end
  end
  for _, detail in ipairs(DETAILS) do
    for _, path in ipairs(detail.range and { detail[1] .. ".low", detail[1] .. ".high" } or { detail[1] }) do
      add(path)
    end
  end
  for _, name in ipairs { "ttft", "tpot", "e2e" } do
    for _, figure in ipairs { "mean", "p50", "p90", "p99" } do
      add(name .. "." .. figure)
      add(name .. ".margin." .. figure)
    end
  end
  return options.join(columns, copies)
end

local size_columns = options.join({ { key = "gpus", title = "GPUs" }, { key = "strategy", usual = "tensor" } },
  serving_axes.columns(), { { key = "pp", usual = 1 } })
local deployment_columns = options.join(size_columns, {
  { key = "replicas" }, { key = "max_num_seqs", title = "seqs" },
  { key = "max_num_batched_tokens", title = "tokens", wide = 0 },
  { key = "served.ttft.p99", title = "TTFT p99", unit = "s" },
  { key = "served.tpot.p99", title = "TPOT p99", unit = "s" },
  { key = "served.attainment", title = "within limits", unit = "%", wide = 1 },
  { key = "served.tokens_per_second_per_gpu", title = "tokens/s/GPU" },
  { key = "served.cost.generated", title = "$/Mtoken" }, { key = "saturation_rate", title = "most req/s" },
  { key = "served.throughput_per_gpu", csv = true }, -- deprecated
})
local front_columns = options.join(size_columns, {
  { key = "max_num_seqs", title = "seqs" }, { key = "max_num_batched_tokens", title = "tokens" },
  { key = "concurrency" }, { key = "tokens_per_second_per_user", title = "tokens/s/user" },
  { key = "tokens_per_second_per_gpu", title = "tokens/s/GPU" },
  { key = "served.ttft.mean", title = "TTFT", unit = "s" }, { key = "served.cost.generated", title = "$/Mtoken" },
  { key = "per_user", csv = true }, { key = "per_gpu", csv = true }, -- deprecated
})
local curve_columns = {
  { key = "rate", title = "requests/s" }, { key = "served.ttft.mean", title = "TTFT", unit = "s" },
  { key = "served.ttft.p99", title = "TTFT p99", unit = "s" }, { key = "served.tpot.mean", title = "TPOT", unit = "s" },
  { key = "served.tpot.p99", title = "TPOT p99", unit = "s" }, { key = "served.tokens_per_second", title = "tokens/s" },
  { key = "served.attainment", title = "within limits", unit = "%" },
  { key = "served.throughput", csv = true }, -- deprecated
}

--- Prints every request.
function answer.requests(values, r) show(values, r.requests, request_columns) end
function answer.steps(values, r) show(values, r.steps, step_columns) end

--- Prints the rows of tperf.load_curve.
function answer.curve(values, rows)
  show(values, rows, curve_columns)
  warn(warnings.together(rows, "rates"))
end

--- The scatter plot of the Pareto front of tokens/s per user and per GPU.
function answer.front(rows)
  return require "tperf".plot.scatter { rows = rows,
    x = { key = "tokens_per_second_per_user", title = "tokens/s per user" },
    y = { key = "tokens_per_second_per_gpu", title = "tokens/s per GPU" }, series = layout.sizes,
    label = function(row) return ("%d at a time"):format(row.concurrency) end, title = "Throughput by user and GPU" }
end

--- Prints the deployments found by tperf.search_serving.
function answer.deployments(values, found)
  local rows = values.pareto and found.pareto or table.move(found, 1, #found, 1, {})
  if found.reason then error(found.reason, 0) end
  show(values, rows, values.pareto and front_columns or deployment_columns)
  warn(warnings.together(rows, values.pareto and "points" or "deployments"))
  local left = found.tried < found.candidates and (" of %d: the others need over 1.5 times as many GPUs"):format(
    found.candidates) or ""
  io.stderr:write(("%d kinds of engine tried%s%s\n"):format(found.tried, left, values.pareto and ""
    or "; \"most req/s\": requests a second of one, with the ranks that share experts"))
end

--- Prints one result in the format asked for.
function answer.one(values, r)
  if values.json then show(values, { r }, {}) elseif values.csv then show(values, { r }, answer.flat()) end
  if values.json or values.csv then return warn(r.warnings) end
  answer.print(r)
end

--- Prints the result of tperf.saturation.
function answer.saturation(values, found)
  if found.reason then error(found.reason, 0) end
  if values.json then
    show(values, { found }, {})
    return warn(found.warnings)
  end
  if values.csv then
    show(values, { found.served }, options.join({ { key = function() return found.rate end, title = "rate" } },
      answer.flat()))
    return warn(found.warnings)
  end
  say(("%s requests/s are the most that keep the limits; then:\n"):format(format.number(found.rate)))
  answer.print(found.served)
end

return answer
