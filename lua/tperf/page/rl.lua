--- Reinforcement learning: the time of a step, by phase.
local command = require "tperf.page.command"
local format = require "tperf.output.format"
local grid = require "tperf.page.grid"
local of = require "tperf.cli.answer.rl"
local question_of = require "tperf.cli.ask.rl"

local rl = {}

local function script_of(asked)
  return ([[
local tperf = require "tperf"

local a = tperf.rl %s
print(tperf.units.format(a.step, "s"), a.bound)
for _, phase in ipairs(a.phases) do print(phase.name, tperf.units.format(phase.time, "s")) end
]]):format(command.lua(asked, ""))
end

--- A step: { facts, phases, memory (tables), warnings, assumed, command, script }. values: options of `tperf rl`.
function rl.rl(question)
  local values, arguments = command.values("rl", question.values)
  local asked = command.need(question_of(values))
  asked.model = arguments[1] or error("MODEL is missing", 0)
  local a = command.call("rl", require "tperf".rl, asked)
  local range, warnings = a.intervals.step, table.move(a.warnings, 1, #a.warnings, 1, {})
  if a.reason then table.insert(warnings, 1, a.reason) end
  return {
    facts = {
      { "Step", format.number(a.step, "s"), ("%s to %s"):format(format.number(range.low, "s", 2),
        format.number(range.high, "s", 2)) },
      { "Bound by", a.bound, a.mode },
      { "Rollout GPUs busy", format.number(a.busy.rollout, "%", 2), ("training: %s"):format(
        format.number(a.busy.training, "%", 2)) },
    },
    phases = grid(of.phases(a)), memory = grid(of.memory(a)), warnings = warnings,
    command = command.line("rl", question.values), script = script_of(asked),
  }
end

return rl
