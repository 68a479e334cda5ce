--- The subcommands: every file in lua/tperf/cli/command/ is one, found by its name. To add one, add a file that returns
--   { summary = "…", arguments = "MODEL …" or nil, details = "…" or nil, options = { … } (see cli/options.lua),
--     from = what each argument is, for completion, as an option's `from`; the last is for those that follow, too,
--     run = function(values, arguments, host) … end }
-- run prints to standard output and returns nothing, an exit status, or false and a message for wrong usage.
local core = require "tperf.core"

local commands = {}

local PREFIX = "tperf.cli.command."

--- The names of all commands, sorted.
---@return string[]
function commands.names()
  local names = {}
  for _, module in ipairs(core.modules()) do
    if module:sub(1, #PREFIX) == PREFIX then names[#names + 1] = module:sub(#PREFIX + 1) end
  end
  table.sort(names)
  return names
end

--- The command of that name, or nil.
function commands.find(name)
  for _, known in ipairs(commands.names()) do
    if known == name then return require(PREFIX .. name) end
  end
end

--- What `tperf` and `tperf help` print.
---@return string
function commands.overview()
  local lines = {}
  for i, name in ipairs(commands.names()) do
    lines[i] = ("  %-12s %s"):format(name, commands.find(name).summary)
  end
  return ([[
usage: tperf COMMAND [OPTIONS] [ARGUMENTS]

Predicts how large transformer models train and serve on GPU clusters.

commands:
%s

`tperf help COMMAND` tells more.
]]):format(table.concat(lines, "\n"))
end

return commands
