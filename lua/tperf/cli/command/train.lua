local configuration = require "tperf.cli.configuration"

local AXES = { "tp", "tp1", "tp2", "cp", "pp", "dp", "micro_batch", "panels" }

-- A record as rows of name and value, nested tables and the axes' order kept.
local UNITS = { memory = "bytes", breakdown = "s" }
local SIMULATED = { time = "s", makespan = "s", activations = "bytes", bubble_rate = "%" }

local function details(result)
  local rows = {}
  for _, group in ipairs { "breakdown", "memory", "simulated" } do
    local names = {}
    for name in pairs(result[group] or {}) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      if type(result[group][name]) == "number" then
        rows[#rows + 1] = { item = group .. "." .. name, value = result[group][name],
          unit = UNITS[group] or SIMULATED[name] }
      end
    end
  end
  return rows
end

return {
  summary = "time and memory of one configuration",
  arguments = "MODEL",
  details = [[
For example: tperf train gpt3-175b -s h100-sxm -b 1536 --tp 8 --pp 8 --dp 16 --micro-batch 1]],
  options = configuration.options_with {
    { long = "strategy", value = "NAME", help = "how a layer is cut up (default tensor)" },
    { long = "tp", value = "N", kind = "integer", help = "tensor parallelism" },
    { long = "tp1", value = "N", kind = "integer", help = "first axis of 2-D tensor parallelism" },
    { long = "tp2", value = "N", kind = "integer", help = "second axis of 2-D tensor parallelism" },
    { long = "cp", value = "N", kind = "integer", help = "context parallelism" },
    { long = "pp", value = "N", kind = "integer", help = "pipeline stages" },
    { long = "dp", value = "N", kind = "integer", help = "data parallelism" },
    { long = "micro-batch", short = "m", value = "N", kind = "integer", help = "sequences in a micro-batch" },
    { long = "panels", value = "N", kind = "integer", help = "panels of a SUMMA multiplication" },
    { long = "simulate", value = "NAME", help = "also simulate the pipeline (`tperf list schedules`)" },
  },
  run = function(values, arguments)
    local missing = configuration.missing(values, arguments, { "system", "batch" })
    if missing then return false, missing end
    local question = { model = arguments[1], system = values.system, gpus = values.gpus, global_batch = values.batch,
      seq = values.seq, rules = values.rules, strategy = values.strategy or "tensor" }
    for _, axis in ipairs(AXES) do question[axis] = values[axis] end
    question.simulate = values.simulate
    local result = require "tperf".train(question)
    require "tperf.cli.table"(values, { result }, configuration.columns)
    if values.json or values.csv then return end
    local report = require "tperf.report"
    print()
    report.print(details(result), {
      { key = "item" },
      { title = "value", align = "right",
        key = function(row) return require "tperf.report.format".number(row.value, row.unit) end },
    })
  end,
}
