local ask = require "tperf.cli.ask.arguments"
local format = require "tperf.output.format"
local from = require "tperf.cli.ask.from"
local launch = require "tperf.cli.answer.launch"
local options = require "tperf.input.options"
local refusal = require "tperf.base.refusal"
local registry = require "tperf.question.serving_arguments"
local serving_axes = require "tperf.cli.ask.serving_axes"
local say = require "tperf.output.terminal".say

local LISTS <const> = options.join(serving_axes.names(), { "pp", "batch" }) -- options that take lists

local SEARCH = { "gpus", "ttft", "tpot", "objective", "top" }

local columns = options.join(serving_axes.columns(), {
  { key = "pp" }, { key = "dp" }, { key = "batch" }, { key = "max_batch", wide = 0 },
  { key = "ttft", unit = "s" }, { key = "tpot", unit = "s" }, { key = "tokens_per_second", title = "tokens/s" },
  { key = "sequences_per_second", title = "sequences/s" },
  { key = "tokens_per_second_per_gpu", title = "per GPU", wide = 1 },
  { key = "memory.total", title = "memory", unit = "bytes" }, { key = "cost.generated", title = "$/Mtoken" },
  { key = "strategy", usual = "tensor" }, { key = "software", csv = true },
})
local op_columns = {
  { key = "phase" }, { key = "part" }, { key = "layers", wide = 2 }, { key = "block" }, { key = "name" },
  { key = "time", unit = "s" }, { key = "flops", unit = "FLOP" },
  { key = "bytes", unit = "bytes", wide = 1 },
  { key = "intensity", title = "FLOP/byte", wide = 3 }, { key = "bound" },
}

-- The figures of one answer, as rows of name, value and unit.
local DETAILS = {
  { "prefill", { "compute", "memory", "tensor_comm", "pipeline_comm" }, "s" },
  { "decode", { "compute", "memory", "tensor_comm", "pipeline_comm", "wait" }, "s" },
  { "memory", { "weights", "cache", "buffers", "capacity" }, "bytes" },
  { "cost", { "input", "output", "total", "generated" }, "$" },
}

local function details(r)
  local rows = {}
  local function add(item, value, unit) -- figures that do not apply have no row
    if value ~= nil then rows[#rows + 1] = { item = item, value = value, unit = unit } end
  end
  add("latency", r.latency, "s")
  if r.batch > 1 and r.tpot then
    add("steady.tpot", r.steady.tpot, "s")
    add("steady.latency", r.steady.latency, "s")
  end
  add("first_step", r.tpot and r.first_step, "s")
  add("last_step", r.tpot and r.last_step, "s")
  add("prefill_tokens_per_second", r.prefill_tokens_per_second)
  add("decode_tokens_per_second", r.decode_tokens_per_second)
  add("cache_sequence", r.cache_sequence, "bytes")
  add("energy_per_token", r.energy_per_token, "J")
  for _, group in ipairs(DETAILS) do
    local name, fields, unit = table.unpack(group)
    for _, field in ipairs(r[name] and fields or {}) do add(name .. "." .. field, r[name][field], unit) end
  end
  return rows
end

-- Prints the assumptions below a table, and what the figures take for granted.
local function tell(values, warnings)
  if not (values.json or values.csv) then
    say "\nsoftware none: kernels as timed on their own, no engine; profiles such as typical describe training"
  end
  io.stdout:flush()
  for _, warning in ipairs(warnings or {}) do io.stderr:write("tperf: ", warning, "\n") end
end

-- Prints "tp 3, batch 64: reason" for each row with a reason.
local function print_reasons(rows, lists)
  local lines = {}
  for _, row in ipairs(rows) do
    local sizes = {}
    for i, name in ipairs(lists) do sizes[i] = name .. " " .. tostring(row[name]) end
    if row.reason then lines[#lines + 1] = table.concat(sizes, ", ") .. ": " .. row.reason end
  end
  if #lines > 0 then say("\n" .. table.concat(lines, "\n")) end
end

-- The row for invalid sizes.
local function refused(question, reason)
  local row = { dp = question.dp, pp = 1, batch = 1, feasible = false, reason = reason }
  for _, name in ipairs(LISTS) do row[name] = question[name] or row[name] end
  return row
end

-- Answers for every combination of the options that are lists, as a table without details; a combination that does not
-- fit or is invalid has a reason instead of figures. The exit status is 1 if no combination has figures.
local function several(values, question, lists)
  local rows, answered, warned, infer = {}, false, nil, require "tperf.question.infer".run
  local function each(i)
    local name = lists[i]
    if not name then
      local row, reason = refusal.attempt(infer, question)
      answered, warned = answered or row ~= nil, warned or row and row.warnings
      rows[#rows + 1] = row or refused(question, reason)
      return
    end
    for _, value in ipairs(values[name]) do
      question[name] = value
      each(i + 1)
    end
  end
  each(1)
  require "tperf.cli.answer.table"(values, rows,
    values.csv and options.join(columns, { { key = "reason" } }) or columns)
  tell(values, warned)
  if not values.json and not values.csv then print_reasons(rows, lists) end
  if not answered then error(("none of %d combinations has figures; each row says why"):format(#rows), 0) end
end

local function one(values, question)
  question.ops = values.ops or nil
  local show, report, lists = require "tperf.cli.answer.table", require "tperf.report", {}
  for _, name in ipairs(LISTS) do
    if type(question[name]) == "table" then lists[#lists + 1] = name end
  end
  if lists[1] and values.ops then return false, ("--ops takes one value of --%s"):format(lists[1]) end
  if lists[1] then return several(values, question, lists) end
  local r = require "tperf.question.infer".run(question)
  if values.launch then
    return launch.print({ r }, values.launch, launch.inferred(question))
  end
  if values.ops then return show(values, r.ops, op_columns) end
  show(values, { r }, columns)
  tell(values, r.warnings)
  if values.json or values.csv then return end
  print()
  report.print(details(r), {
    { key = "item" },
    { title = "value", align = "right", key = function(row) return format.number(row.value, row.unit) end },
  })
end

local function search(values, question)
  for _, name in ipairs(SEARCH) do question[name] = values[name] end
  local found = require "tperf.question.search.inference".run(question)
  if found.reason then error(found.reason, 0) end
  local rows = values.pareto and found.pareto or table.move(found, 1, #found, 1, {})
  if values.launch then return launch.print(rows, values.launch, launch.inferred(question)) end
  require "tperf.cli.answer.table"(values, rows, columns)
  tell(values, found.warnings)
  for _, reason in ipairs(found.left_out or {}) do io.stderr:write("tperf: left out: ", reason, "\n") end
  io.stderr:write(("%d candidates, %d feasible\n"):format(found.candidates, found.feasible))
end

return {
  summary = "latency, throughput, memory and cost of serving a model",
  arguments = "MODEL",
  from = { "models files" },
  example = [[
tperf infer llama-3.1-70b -s h100-sxm --tp 8 -b 32 -p 2048 -n 256
tperf infer llama-3.1-70b -s h100-sxm -g 16 -p 2048 -n 256 --tpot 20ms]],
  quick = { "system", "prompt", "generate", "batch", "tp", "gpus", "ttft", "tpot", "weight-dtype", "from" },
  details = [[
The static answer: one batch that starts at once, or (steady) is always full; tperf serve simulates arrivals.
Prints a row for each value of --batch and of sizes; if one has no figures, the reason below.
An encoder (embedding, reranking) reads each batch of -b sequences of -p tokens in one pass: -n 1.
With -g, it prints the best configurations on that many GPUs.]],
  options = options.join(ask.options(registry.rows "infer", true), options.under("this command", {
    launch.served,
    { long = "ops", help = "every op of both phases, on the machine's roofline" },
    { long = "gpus", short = "g", value = "N", min = 1, kind = "integer", help = "search: total number of GPUs" },
    { long = "ttft", value = "TIME", kind = "s", help = "search: limit on the time to first token, such as 500ms" },
    { long = "tpot", value = "TIME", kind = "s", help = "search: limit on the time per further token" },
    { long = "objective", value = "NAME", from = { "throughput", "tpot", "ttft", "latency", "cost" },
      help = "search: throughput (default), tpot, ttft, latency, cost" },
    { long = "top", short = "k", value = "K", kind = "integer", help = "search: how many to print (default 10)" },
    { long = "pareto", help = "search: print the Pareto front of time per token and throughput per GPU" },
  }), options.under("launch file", from.options), options.under("output", options.formats)),
  run = function(values, arguments)
    local wrong = from.fill(values, arguments, "infer")
    if wrong then return false, wrong end
    if not arguments[1] then return false, "MODEL is missing" end
    if arguments[2] then return false, ("one MODEL is needed, got '%s' too"):format(arguments[2]) end
    local missing = options.missing(values, { "system", "prompt", "generate" })
    if missing then return false, missing end
    local question, message = ask.asked(registry.rows "infer", values)
    if not question then return false, message end
    question.model = arguments[1]
    if values.gpus then
      for _, name in ipairs { "dp", "ops" } do
        if values[name] then return false, ("--%s does not go with --gpus"):format(name) end
      end
      return search(values, question)
    end
    for _, name in ipairs(SEARCH) do
      if values[name] then return false, ("--%s needs --gpus"):format(name) end
    end
    if values.pareto then return false, "--pareto needs --gpus" end
    return one(values, question)
  end,
}
