--- `tperf memory --fewest`: the smallest machine that holds a model, and the configuration for it.
local ask = require "tperf.cli.ask.arguments"
local configuration = require "tperf.cli.ask.configuration"
local format = require "tperf.output.format"
local options = require "tperf.input.options"
local visible_memory = require "tperf.describe.machine.visible_memory"
local served = require "tperf.question.serving_arguments"
local serving_axes = require "tperf.cli.ask.serving_axes"
local trained = require "tperf.question.arguments"
local say = require "tperf.output.terminal".say

local fewest = {}

--- Its options of `tperf memory`.
fewest.options = {
  { long = "fewest", help = "the smallest number of GPUs that holds it, and how" },
  { long = "prompt", short = "p", value = "N", min = 1, kind = "integer",
    help = "prompt tokens, for the fewest GPUs that serve it" },
  { long = "generate", short = "n", value = "N", min = 1, kind = "integer", help = "tokens of an answer" },
  { long = "weight-dtype", value = "NAME", help = "how served weights are stored (default: the checkpoint's)" },
  { long = "kv-dtype", value = "NAME", help = "how the cache is stored (default bf16)" },
}

local SERVING <const> = { "prompt", "generate", "weight_dtype", "kv_dtype" }
local served_columns = options.join({ { key = "gpus" }, { key = "strategy", usual = "tensor" } },
  serving_axes.columns(), {
  { key = "pp" }, { key = "dp", usual = 1 }, { key = "batch" }, { key = "max_batch" },
  { key = "memory.weights", unit = "bytes" },
  { key = "memory.cache", unit = "bytes" }, { key = "memory.total", title = "memory", unit = "bytes" },
})

-- The options of training that a question about serving does not take, among those given; nil: none.
local function misused(values)
  local serves = {}
  for _, option in ipairs(ask.options(served.rows "infer", true)) do serves[option.long] = true end
  for _, option in ipairs(ask.options(trained.rows(), false)) do
    if values[option.long:gsub("-", "_")] ~= nil and not serves[option.long] then return option.long end
  end
end

local function serving_question(values, arguments)
  local missing = options.missing(values, { "system", "prompt", "generate" })
  if missing then return nil, missing end
  if not arguments[1] then return nil, "MODEL is missing" end
  local wrong = misused(values)
  if wrong then return nil, ("--%s is of training, and --prompt and --generate ask about serving"):format(wrong) end
  local question, message = ask.asked(served.rows "infer", values)
  if not question then return nil, message end
  question.model = arguments[1]
  return question
end

local function question_of(values, arguments)
  if values.gpus or values.dp then
    return nil, ("--%s does not go with --fewest, which looks for it"):format(values.gpus and "gpus" or "dp")
  end
  for _, name in ipairs(SERVING) do
    if values[name] ~= nil then return serving_question(values, arguments) end
  end
  return configuration.question(values, arguments, { "system" })
end

--- Why an option cannot be used without --fewest; nil if none is misplaced.
function fewest.misplaced(values)
  for _, name in ipairs(SERVING) do
    if values[name] ~= nil and not values.fewest then
      return ("--%s needs --fewest; tperf infer tells the memory of one way to serve"):format((name:gsub("_", "-")))
    end
  end
end

local function nodes(gpus, machine)
  local domain = machine.network.fast.domain
  return gpus > domain and ("%d GPUs, %d fast domains of %d"):format(gpus, gpus // domain, domain)
    or ("%d GPU%s"):format(gpus, gpus == 1 and "" or "s")
end

--- Runs the command. Returns nil and a message if the options are wrong.
function fewest.run(values, arguments)
  local question, message = question_of(values, arguments)
  if not question then return false, message end
  local serves = question.prompt ~= nil
  local answer = require "tperf.question.fewest".run(question)
  local row = answer.configuration
  row.gpus, row.before = answer.gpus, answer.before
  if not serves then configuration.note(values) end
  local columns = serves and served_columns or options.join({ { key = "gpus" } }, configuration.columns)
  require "tperf.cli.answer.table"(values, { row }, columns)
  if values.json or values.csv then return end
  local machine = require "tperf.describe.system"(question.system)
  say(("\n%s: %s of %s on the fullest"):format(nodes(answer.gpus, machine),
    format.number(row.memory.total, "bytes"), format.number(visible_memory(machine), "bytes")))
  if answer.before then
    say(("%d GPU%s too few: %s"):format(answer.before.gpus, answer.before.gpus == 1 and " is" or "s are",
      answer.before.reason))
  end
end

return fewest
