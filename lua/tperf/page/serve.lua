--- Serve: requests through an engine, and latency against load.
local command = require "tperf.page.command"
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

--- At one rate: { latencies, details (tables), saturated, warnings, command, script }. values: options of
--- `tperf serve`.
function serve.serve(question)
  local asked = question_of(question.values)
  local r = command.call("serve", require "tperf".serve, asked)
  return {
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
