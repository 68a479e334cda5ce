local catalogue = require "tperf.base.catalogue"
local configuration = require "tperf.cli.ask.configuration"
local fewest = require "tperf.cli.answer.fewest"
local format = require "tperf.output.format"
local visible_memory = require "tperf.describe.machine.visible_memory"
local stages = require "tperf.cli.answer.stages"

local engine_columns = {
  { key = "weights", unit = "bytes" }, { key = "buffers", unit = "bytes" }, { key = "cache", unit = "bytes" },
  { key = "total", unit = "bytes" }, { key = "capacity", title = "CUDA sees", unit = "bytes" },
  { key = "num_blocks", title = "blocks" }, { key = "tokens", title = "tokens of cache" },
}

-- Answers for a server launch: what an engine holds before it serves requests.
local function of_engine(values, arguments)
  local from, question = require "tperf.cli.ask.from", require "tperf.cli.ask.serving"
  local message = from.fill(values, arguments, "serve") or not values.system and "--system is missing"
  if message then return false, message end
  local asked
  asked, message = question.of(values, arguments[1])
  if not asked then return false, message end
  asked.requests = { { arrival = 0, prompt = 1, output = 1 } }
  local r = require "tperf".serve(asked)
  local row = r.memory
  row.total, row.num_blocks = row.weights + row.buffers + row.cache, r.num_blocks
  row.tokens = r.cache_tokens
  require "tperf.cli.answer.table"(values, { row }, engine_columns)
end

return {
  summary = "memory of each pipeline stage in training, or of an engine",
  arguments = "MODEL",
  from = { "models files" },
  example = [[
tperf memory gpt3-175b -s h100-sxm -b 1536 --tp 8 --pp 8 --dp 16
tperf memory llama-3.1-70b -s h100-sxm -b 512 --fewest]],
  quick = { "system", "batch", "tp", "pp", "dp", "micro-batch", "recompute", "fewest", "svg", "from" },
  details = [[
docs/memory.md explains the parts. If it does not fit, suggests a single change that helps.
--fewest finds the smallest number of GPUs that trains the model, and with -p and -n the smallest that serves it:
part of a fast domain, or whole domains.
With --from and a server's command, such as vllm serve, prints the memory of each GPU of the engine.]],
  options = configuration.options(false, require "tperf.input.options".join({
    { long = "svg", value = "FILE", writes = "plot", help = "also draw a stacked bar for each stage" },
  }, fewest.options)),
  run = function(values, arguments)
    local misplaced = fewest.misplaced(values)
    if misplaced then return false, misplaced end
    if values.fewest then return fewest.run(values, arguments) end
    if require "tperf.cli.ask.from".serves(values) then return of_engine(values, arguments) end
    local asked, message = configuration.question(values, arguments, { "system", "batch" })
    if not asked then return false, message end
    local c = require "tperf.question.train".run(asked)
    configuration.note(values)
    local machine = catalogue.shared(require "tperf.describe.system")(asked.system)
    local rows, capacity = stages.rows(c), visible_memory(machine)
    require "tperf.cli.answer.table"(values, rows, stages.columns)
    if not values.json and not values.csv then
      print(("\n%s on the fullest GPU, which has %s"):format(format.number(c.memory.total, "bytes"),
        format.number(capacity, "bytes")))
    end
    configuration.tell(values, { c }, asked.system)
    if c.reason then
      io.stdout:flush()
      io.stderr:write("tperf: ", c.reason, "\n")
    end
    if values.svg then stages.chart(c, require "tperf.describe.model"(asked.model).name, capacity):save(values.svg) end
  end,
}
