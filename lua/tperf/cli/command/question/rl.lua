local answer = require "tperf.cli.answer.rl"
local ask = require "tperf.cli.ask.arguments"
local check = require "tperf.base.check"
local format = require "tperf.output.format"
local options = require "tperf.input.options"
local registry = require "tperf.question.rl.arguments"
local settings = require "tperf.cli.ask.settings"
local terminal = require "tperf.output.terminal"

local function say(...) terminal.say(string.format(...)) end

-- The sum behind a step, with its numbers.
local function explain(a)
  local t, r = a.training, a.rollout
  local seconds = function(time) return format.number(time, "s") end
  say("\nupdate = %d optimizer steps over %d micro-batches of %d tokens on %d replicas", t.optimizer_steps,
    t.micro_batches, t.micro_batch_tokens, t.dp)
  say("old, ref, values = the forward part of the micro-batches: %s each", seconds(t.forward))
  say("rollout = %d responses, %.4g tokens on average, at once through %d engines: %s until nine in ten have ended, %s "
    .. "for the rest", a.generated, a.response.mean, r.replicas, seconds(r.saturated), seconds(r.tail))
  if r.steady then say("engines that never drain take %s for as many tokens", seconds(r.steady)) end
  say("refit = %s of weights by %s: %s (%s to %s)", format.number(a.refit.bytes, "bytes"), a.refit.method,
    seconds(a.refit.time), seconds(a.refit.low), seconds(a.refit.high))
  say("tokens/s/GPU = prompt and response tokens of %d responses / step / %d GPUs", a.responses, a.gpus)
end

local function show(values, a)
  if values.json then
    require "tperf.cli.answer.subject".into(values, { a })
    return io.stdout:write(require "tperf.output.json".encode(a), "\n")
  end
  require "tperf.cli.answer.table"(values, answer.phases(a))
  if values.csv then return end
  local seconds = function(time) return format.number(time, "s") end
  say("\n%s, bound by %s; nine in ten measured within: %s to %s", a.mode, a.bound,
    seconds(a.intervals.step.low), seconds(a.intervals.step.high))
  say("rollout %d GPUs busy %.0f %%, training %d GPUs busy %.0f %%", a.rollout.gpus, 100 * a.busy.rollout,
    a.training.gpus, 100 * a.busy.training)
  say("%.4g responses/s, %.4g tokens/s/GPU (prompt and response, all GPUs, whole step)", a.samples_per_second,
    a.tokens_per_second_per_gpu)
  if a.hours then
    say("run: %.4g h%s", a.hours, a.dollars and (", $%.6g"):format(a.dollars) or "")
  end
  for _, m in ipairs(a.memory) do
    say("memory in %s: %s of %s%s", m.phase, format.number(m.total, "bytes"), format.number(m.capacity, "bytes"),
      m.fits and "" or ": does not fit")
  end
  if values.explain then explain(a) end
end

local FOUND <const> = {
  { key = "mode" }, { key = "gpus", title = "GPUs" }, { key = "train_gpus", title = "train" },
  { key = "staleness", title = "k" }, { key = "trainer" }, { key = "engine" }, { key = "step", unit = "s" },
  { key = "low", unit = "s", wide = 1 }, { key = "high", unit = "s", wide = 2 },
  { key = "gpu_hours", title = "GPU-hours", wide = 3 }, { key = "dollars", title = "$", wide = -1 },
  { key = "bound", wide = -2 },
}

-- "tp 2, pp 4": the fields of a table.
local function worded(fields)
  local list = {}
  for _, name in ipairs(check.names(fields)) do
    if type(fields[name]) ~= "table" then list[#list + 1] = ("%s %s"):format(name, fields[name]) end
  end
  return table.concat(list, ", ")
end

-- --search: the best deployments.
local function search(values, question)
  for _, name in ipairs { "minimize", "target", "top" } do question[name] = values[name] end
  local found = require "tperf".search_rl(question)
  if values.json then return io.stdout:write(require "tperf.output.json".encode(found), "\n") end
  local rows = {}
  for i, d in ipairs(found.deployments) do
    rows[i] = { trainer = worded(d.train), engine = worded(d.rollout) }
    for name, value in pairs(d) do
      if type(value) ~= "table" then rows[i][name] = value end
    end
  end
  require "tperf.cli.answer.table"(values, rows, FOUND)
  if values.csv then return end
  say("\n%d deployments, of which %d fit", found.tried, found.fitting)
  for _, one in ipairs(found.refused) do say("%d left out: %s", one.deployments, one.reason) end
end

local COMPARED <const> = {
  { key = "phase" }, { key = "predicted", unit = "s" }, { key = "measured", unit = "s" },
  { key = "ratio", title = "predicted / measured" }, { key = "rests", title = "look at" },
}

-- --measured: phase by phase.
local function compare(values, a)
  local steps = require "tperf.measured.steps"
  local medians, count = steps.read(values.measured)
  local rows = steps.compare(a, medians)
  if values.json then return io.stdout:write(require "tperf.output.json".encode(rows), "\n") end
  require "tperf.cli.answer.table"(values, rows, COMPARED)
  if not values.csv then say("\nmedians of %d steps", count) end
end

-- --from: the question of a configuration, where options say nothing else.
local function with_file(values, question, arguments)
  local r = require "tperf.import.rl".read { files = values.from, stack = values.stack }
  for name, value in pairs(r.question) do
    if type(value) == "table" and type(question[name]) == "table" then
      for field, inner in pairs(value) do
        if question[name][field] == nil then question[name][field] = inner end
      end
    elseif question[name] == nil then
      question[name] = value
    end
  end
  if arguments[1] then question.model = arguments[1] end
  for _, one in ipairs(r.assumed) do
    if values[one.name:match "^%a+"] == nil then io.stderr:write("assumed: ", one.text, "\n") end
  end
  for _, text in ipairs(r.notes) do io.stderr:write("tperf: ", text, "\n") end
  if r.unread[1] then
    io.stderr:write(("tperf: %d settings of %s are not modelled: %s\n"):format(#r.unread, r.stack,
      table.concat(r.unread, ", ")))
  end
  -- NeMo-RL's longest is a prompt and its response
  if question.prompt and r.stack == "NeMo-RL" and not values.response and question.response then
    question.response.max = math.max(question.response.max - question.prompt, 1)
  end
end

local NEEDED <const> = { "system", "gpus", "prompts", "prompt", "response" }

-- The question's arguments that neither options nor a file give.
local function lacking(question)
  for _, name in ipairs { "model", table.unpack(NEEDED) } do
    if question[name] == nil then
      return ("%s is missing: the file does not say it"):format(name == "model" and "MODEL" or "--" .. name)
    end
  end
end

-- What an answer takes for granted, on standard error.
local function tell(a)
  io.stdout:flush()
  for _, name in ipairs(check.names(a.understood.assumed)) do
    io.stderr:write(("assumed: %s = %s\n"):format(name, tostring(a.understood.assumed[name])))
  end
  for _, warning in ipairs(a.warnings) do io.stderr:write("tperf: ", warning, "\n") end
  if a.reason then io.stderr:write("tperf: ", a.reason, "\n") end
end

return {
  summary = "time of a step of reinforcement learning: rollout, passes, update, refit",
  arguments = "MODEL",
  from = { "models files" },
  example = [[
tperf rl qwen3-32b -s h100-sxm -g 32 --prompts 64 --samples 16 --prompt 120 \
  --response mean=3000,max=4096 --train-tp 4 --train-pp 2 --rollout-tp 4]],
  quick = { "system", "gpus", "prompts", "samples", "prompt", "response", "train-tp", "rollout-tp", "search", "from" },
  details = [[
The rollout is simulated as tperf serve does it, all responses at once; the update is priced
as tperf train does it, in packed micro-batches. --search looks for the mode, the
split, the staleness and the layouts that are not given.
--train-gpus N gives GPUs to each pool, --staleness K lets them run side by side. The range of
a step adds up the ranges of its parts, and holds nine in ten of the steps it was made from.]],
  options = options.join(ask.options(registry.rows(), false), options.under("this command", {
    { long = "explain", help = "print the sum behind the step, with its numbers" },
  }), options.under("files", {
    { long = "from", value = "FILE,...", kind = "list",
      help = "read it from an RL stack's configuration (docs/rl.md)" },
    { long = "stack", value = "NAME", help = "whose configuration it is (default: by its settings)" },
    settings.option,
    { long = "launch", value = "STACK", help = "write it as settings of verl or nemo-rl" },
    { long = "measured", value = "LOG", help = "compare phases with verl's, NeMo-RL's or slime's timers" },
  }), options.under("search", {
    { long = "search", help = "look for deployments: mode, split, staleness, tp, pp, recompute" },
    { long = "minimize", value = "WHAT", help = "time (default), gpu_hours or dollars" },
    { long = "target", value = "TIME", kind = "s", help = "the fewest of the GPUs that take no longer a step" },
    { long = "top", short = "k", value = "K", kind = "integer", help = "how many to print (default 10)" },
  }), options.under("output", options.formats)),
  run = function(values, arguments)
    if not arguments[1] and not values.from then return false, "MODEL is missing" end
    if arguments[2] then return false, ("one MODEL is needed, got '%s' too"):format(arguments[2]) end
    local missing = options.missing(values, values.from and { "system" } or NEEDED)
    if missing then return false, missing end
    local wrong = settings.apply(values, arguments)
    if wrong then return false, wrong end
    local question, message = require "tperf.cli.ask.rl"(values)
    if not question then return false, message end
    question.model = arguments[1]
    if values.from then
      with_file(values, question, arguments)
      local what = lacking(question)
      if what then return false, what end
    end
    if values.launch then
      return io.stdout:write((require "tperf.export.rl".write(values.launch, question)))
    end
    if values.search then return search(values, question) end
    local a = require "tperf.question.rl".run(question)
    if values.measured then compare(values, a) else show(values, a) end
    tell(a)
  end,
}
