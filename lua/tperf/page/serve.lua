--- Serve: requests through an engine, and latency against load.
local command = require "tperf.page.command"
local format = require "tperf.output.format"
local numbers = require "tperf.input.numbers"
local grid = require "tperf.page.grid"
local of = require "tperf.cli.answer.serving"
local serving_question = require "tperf.cli.ask.serving"

local serve = {}

local LOADS <const> = { 0.25, 0.5, 0.75, 1, 1.25, 1.5 } -- multiples of the request rate
local FIGURES <const> = { "p50", "p90", "p99" }

local function question_of(given)
  local values, arguments = command.values("serve", given)
  return command.need(serving_question.of(values, arguments[1] or error("MODEL is missing", 0)))
end

local function script_of(asked)
  return ([[
local tperf = require "tperf"

local r = tperf.serve %s
for _, name in ipairs { "ttft", "tpot", "e2e" } do
  print(name, tperf.units.format(r[name].p50, "s"), tperf.units.format(r[name].p99, "s"))
end
print("output tokens/s", r.tokens_per_second)
]]):format(command.lua(asked, ""))
end

-- How many requests with so many tokens of context the fleet has room for at once; nil: the engine's cache is not
-- limited.
local function users_at(asked, context)
  local alone = {}
  for name, value in pairs(asked) do alone[name] = value end
  alone.load, alone.prompt, alone.output, alone.count, alone.slo = nil, nil, nil, nil, nil
  alone.requests = { { arrival = 0, prompt = context - 1, output = 1 } }
  alone.engine = {}
  for name, value in pairs(asked.engine or {}) do alone.engine[name] = value end
  alone.engine.max_model_len = context
  local r = command.call("serve", require "tperf".serve, alone)
  if not r.full_context then return nil end
  return math.tointeger(math.floor(math.min(r.full_context.requests, r.max_num_seqs))) * (asked.replicas or 1)
end

local function seconds(value) return format.number(value, "s", 3) end

-- What people look for first: { what, figure, note } each.
local function facts_of(r, asked, context)
  local facts, users = {}, context and users_at(asked, context)
  if context then
    facts[1] = { ("Users at %d tokens"):format(context), users and tostring(users) or "no limit",
      "who wait for an answer at once, by the cache" }
  end
  if r.ttft then facts[#facts + 1] = { "First token", seconds(r.ttft.p50), seconds(r.ttft.p99) .. " for 99 in 100" } end
  if r.tpot then
    facts[#facts + 1] = { "Each further token", seconds(r.tpot.p50), seconds(r.tpot.p99) .. " for 99 in 100" }
  end
  local dollars = r.cost and r.cost.generated
  facts[#facts + 1] = { "Fleet", ("%d GPU%s"):format(r.gpus, r.gpus == 1 and "" or "s"),
    dollars and ("$%.3g for a million output tokens"):format(dollars) or nil }
  return facts
end

--- At one rate: { facts, latencies, details (tables), saturated, warnings, command, script }. values: options of
--- `tperf serve`. context: tokens of a user's context, to say for how many there is room.
function serve.serve(question)
  local asked = question_of(question.values)
  local r = command.call("serve", require "tperf".serve, asked)
  local context = question.context and numbers.one("integer", question.context, 2)
  if question.context and not context then error("--context: an integer from 2 is needed", 0) end
  return {
    facts = facts_of(r, asked, context),
    latencies = grid(of.latencies(r)), details = grid(of.details(r)),
    saturated = r.saturated, warnings = r.warnings or {}, served = r.requests_per_second,
    command = command.line("serve", question.values), script = script_of(asked),
  }
end

--- At several rates: { chart (SVG) } of a latency's percentiles against the rate. latency: "ttft", "tpot" or "e2e".
function serve.load(question)
  local asked, tperf = question_of(question.values), require "tperf"
  local rate = asked.load and asked.load.rate or error("--rate is missing", 0)
  local rows, names = {}, { ttft = "time to the first token", tpot = "time per token", e2e = "time of a request" }
  local name = names[question.latency] and question.latency or "ttft"
  for _, times in ipairs(LOADS) do
    asked.load.rate = rate * times
    local r = command.call("serve", tperf.serve, asked)
    for _, figure in ipairs(FIGURES) do
      if r[name] then rows[#rows + 1] = { rate = asked.load.rate, figure = figure, seconds = r[name][figure] } end
    end
  end
  if not rows[1] then return {} end
  return { chart = tperf.plot.lines({
    rows = rows, series = "figure", x = { key = "rate", title = "requests/s" }, width = question.width, logy = 10,
    y = { key = "seconds", title = names[name], unit = "s" }, title = names[name] .. " as the load grows",
    guides = { { x = rate, label = "asked" } },
  }):svg() }
end

return serve
