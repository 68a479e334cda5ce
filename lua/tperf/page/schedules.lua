--- Schedules: pipeline schedules side by side.
local command = require "tperf.page.command"
local commands = require "tperf.cli.commands"
local view = require "tperf.timeline.picture.view"

local schedules = {}

local MOST_PASSES <const> = 60000 -- limit for charts that are drawn while the user waits

--- { html (table and charts), count, refused (reasons), command }. values: options of `tperf schedule`; names:
--- "1f1b,zbv".
function schedules.schedules(question)
  local given = question.values
  local values = command.values("schedule", given, { names = true })
  if (given.names or "") == "" then error("choose at least one schedule", 0) end
  local answer = command.need(commands.find "schedule".compare(values, { given.names }))
  local line = command.line("schedule", given):gsub("^tperf schedule", "%0 " .. given.names:gsub(",", " "), 1)
  local refused = {}
  for i, row in ipairs(answer.refused) do refused[i] = row.reason end
  return {
    command = line, count = #answer.timelines, refused = refused,
    html = view.body(answer.timelines, "the charts", { most = MOST_PASSES }),
  }
end

return schedules
