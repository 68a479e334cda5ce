local answer = require "tperf.cli.answer.serving"
local from = require "tperf.cli.ask.from"
local options = require "tperf.input.options"
local question = require "tperf.cli.ask.serving"

local SEARCH <const> = { "gpus", "top", "pareto" }

-- Checks the options. Returns what is wrong, or nil.
local function check(values, arguments)
  if arguments[2] then return ("one model is needed, got '%s' too"):format(arguments[2]) end
  if arguments[1] and values.step_time then return "--step-time does not go with a model" end
  if arguments[1] and not values.system then return "--system is missing" end
  if not arguments[1] and not values.step_time then return "a model is missing, or --step-time" end
  if values.requests and values.steps then return "--requests does not go with --steps" end
  if values.launch and not arguments[1] then return "--launch needs a model" end
  if values.saturation and (values.rate or values.concurrency) then return "--saturation finds the rate: give none" end
  if question.is_open(values, arguments[1]) then return end
  for _, name in ipairs(SEARCH) do
    if values[name] then
      return ("--%s applies to a search: give --slo and --rate, and leave out --tp and other sizes"):format(name)
    end
  end
end

-- The load of a launch file without one: tokens of prompts and of answers, requests at once and in all.
local USUAL <const> = { prompt = 1024, output = 1024, concurrency = 64, rounds = 8 }

-- Fills in the usual load where a launch file is asked about without one, and says so. Requests fit in the longest
-- sequence, and no more run at once than the engine takes.
local function usual_load(values, model)
  local given = values.trace or values.rate or values.concurrency or values.saturation or values.launch
  if given or question.is_open(values, model) or values.figure then return end
  local context = require "tperf.describe.model"(model).context
  local longest = math.min(values.max_model_len or math.huge, context or math.huge)
  local length = longest < USUAL.prompt + USUAL.output and tostring(math.max(1, longest // 2)) or nil
  values.concurrency = math.min(USUAL.concurrency, values.max_num_seqs or math.huge)
  values.prompt, values.output = values.prompt or length or tostring(USUAL.prompt),
    values.output or length or tostring(USUAL.output)
  values.count = values.count or USUAL.rounds * values.concurrency
  local text = ("load not said: --concurrency %d --count %d --prompt %s --output %s"):format(values.concurrency,
    values.count, values.prompt, values.output)
  table.insert(values.understood.assumed, { name = "load", why = text })
  io.stderr:write("assumed: ", text, "\n")
end

-- Prints only the command that starts a deployment, of which `sizes` has all axes.
local function launch(values, d, sizes, asked)
  local e = asked.engine
  if e.speculation then io.stderr:write "tperf: the launch does not have the drafts of --speculation: add them\n" end
  local strategy, ranks = require "tperf.describe.strategy.axes".asked(sizes, true).name, d.attention_dp or 1
  io.write(require "tperf".report.launch({ strategy = strategy, tp = sizes.tp, pp = d.pp, dp = ranks > 1 and ranks
    or d.replicas, ep = sizes.ep, etp = sizes.etp, batch = d.max_num_seqs or e.max_num_seqs }, values.launch, {
    model = asked.model,
    max_tokens = d.max_num_batched_tokens or e.max_num_batched_tokens, seq_max = e.max_model_len,
    kv_dtype = asked.kv_dtype ~= "bf16" and asked.kv_dtype or nil, weight_dtype = asked.weight_dtype,
    state_dtype = asked.state_dtype,
    memory_utilization = asked.memory_utilization,
    prefix_caching = e.prefix_caching, chunked_prefill = e.chunked_prefill, mixed_chunk = e.mixed_chunk,
    pooled = e.pooled, swa_full_tokens_ratio = e.swa_full_tokens_ratio, front_ends = e.front_ends }))
end

local function search(values, asked)
  local found = require "tperf".search_serving(question.search(values, asked))
  if values.launch and found[1] then return launch(values, found[1], found[1], asked) end
  if values.plot then answer.front(found.pareto):save(values.plot) end
  answer.deployments(values, found)
end

-- Draws a figure, to a file or in the terminal.
local function draw(values, asked)
  local tperf = require "tperf"
  local plot = tperf.plot
  local drawn
  if (values.figure or "load") == "load" then
    local rows = tperf.load_curve(question.without_rate(asked))
    if not values.plot then answer.curve(values, rows) end
    drawn = plot.load { rows = rows, slo = asked.slo }
  else
    asked.keep = values.figure == "cache" and "steps" or "requests"
    drawn = (values.figure == "cache" and plot.occupancy or plot.requests) { result = tperf.serve(asked) }
  end
  if values.plot then return drawn:save(values.plot) end
  if not values.json and not values.csv then drawn:print() end
end

return {
  summary = "simulate a serving engine: latency, throughput, goodput",
  example = [[
tperf serve llama-3.1-8b -s h100-sxm --rate 10 --prompt 100..2000 \
  --output mean=200
tperf serve llama-3.1-70b -s h100-sxm --rate 40 --slo ttft=1s,tpot=50ms \
  --prompt 100..2000 --output mean=200]],
  quick = { "system", "rate", "concurrency", "prompt", "output", "tp", "replicas", "slo", "saturation", "from" },
  details = [[
Requests from a trace, or random ones, go through the scheduler of vLLM V1. The time of a
step is predicted for the model on the system, or set by --step-time.
A trace is CSV with the columns arrival, prompt, output (priority, prefix, prefix_tokens), or JSON lines.
With --slo and --rate but no deployment, finds the fewest GPUs that serve the rate.
--saturation finds the largest rate within the limits.]],
  arguments = "[MODEL]",
  fields = question.fields,
  options = options.join(question.options, options.under("this command", {
    { long = "saturation", help = "find the largest rate within the limits" },
    { long = "gpus", short = "g", value = "N", kind = "integer", help = "search: upper limit on GPUs (default 1024)" },
    { long = "top", short = "k", value = "K", kind = "integer", help = "search: how many to print (default 10)" },
    { long = "pareto", help = "search: Pareto front of tokens/s per user and per GPU" },
    { long = "launch", value = "STACK", from = { "vllm", "sglang", "tensorrt-llm" },
      help = "print the command that starts it" },
    { long = "figure", value = "NAME", from = { "load", "requests", "cache" },
      help = "draw load (latencies by rate), requests or cache occupancy" },
    { long = "plot", value = "FILE", writes = "plot", help = "write the figure to a file, such as load.svg" },
    { long = "requests", help = "print every request" },
    { long = "steps", help = "print every step" },
  }), options.under("launch file", from.options), options.under("output", options.formats)),
  run = function(values, arguments)
    local wrong = from.fill(values, arguments, "serve") or check(values, arguments)
    if wrong then return false, wrong end
    if values.from then usual_load(values, arguments[1]) end
    local asked, message = question.of(values, arguments[1])
    if not asked then return false, message end
    if values.figure or values.plot and not values.pareto then return draw(values, asked) end
    if question.is_open(values, asked.model) then return search(values, asked) end
    local tperf = require "tperf"
    if values.saturation then return answer.saturation(values, tperf.saturation(question.without_rate(asked))) end
    if values.launch then return launch(values, asked, require("tperf.question.serve").sizes(asked), asked) end
    local r = tperf.serve(asked)
    if values.requests then return answer.requests(values, r) end
    if values.steps then return answer.steps(values, r) end
    answer.one(values, r)
    if not values.json and not values.csv then require "tperf.cli.answer.calibration"(values, r) end
  end,
}
