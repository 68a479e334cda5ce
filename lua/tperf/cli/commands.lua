--- The subcommands: each file below lua/tperf/cli/command/ is one, under its name. To add one, add a file that returns
--   { summary = "…", arguments = "MODEL …" or nil, details = "…" or nil, options = { … } (see input/options.lua),
--     from = the completion source of each argument, like an option's `from`; the last also applies to further ones,
--     run = function(values, arguments, host) … end }
-- run prints to standard output and returns nothing, an exit status, or, on wrong usage, false and a message.
local core = require "tperf.core"

local commands = {}

local PREFIX = "tperf.cli.command."

local modules -- by command name

local function all()
  if modules then return modules end
  modules = {}
  for _, module in ipairs(core.modules(PREFIX)) do modules[module:match "[^.]+$"] = module end
  return modules
end

--- The names of all commands, sorted.
---@return string[]
function commands.names()
  local names = {}
  for name in pairs(all()) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- The command with a name, or nil.
function commands.find(name)
  local module = all()[name]
  return module and require(module)
end

--- The text that `tperf` and `tperf help` print.
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
