--- The subcommands: each file below lua/tperf/cli/command/ is one, under its name. To add one, add a file that returns
--   { summary = "…", arguments = "MODEL …" or nil, example, quick, details, options (see input/options.lua),
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

--- Whether a command's file is in this folder below lua/tperf/cli/command.
function commands.is_in(name, folder) return all()[name]:sub(#PREFIX + 1):match "^[^.]*" == folder end

return commands
