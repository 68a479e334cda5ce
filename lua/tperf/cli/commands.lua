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

-- The folders that commands are in, as headings.
local GROUPS <const> = { { "question", "questions" }, { "data", "models, machines and measurements" },
  { "program", "scripts and the program itself" } }

--- The text that `tperf` and `tperf help` print.
---@return string
function commands.overview()
  local lines, definitions = {}, require "tperf.input.help".definitions
  for _, group in ipairs(GROUPS) do
    local list = {}
    for _, name in ipairs(commands.names()) do
      if all()[name]:find(group[1], #PREFIX + 1, true) == #PREFIX + 1 then
        list[#list + 1] = { ("%-10s"):format(name), commands.find(name).summary }
      end
    end
    lines[#lines + 1] = "\n" .. group[2] .. ":"
    local defined = definitions(list, "  ")
    table.move(defined, 1, #defined, #lines + 1, lines)
  end
  return ([[
usage: tperf COMMAND [OPTIONS] [ARGUMENTS]

Predicts how large transformer models train and serve on GPU clusters.
%s

`tperf help COMMAND` tells more of one, `tperf help mfu` explains a term, and
`tperf help does it fit` finds the command for a question.
]]):format(table.concat(lines, "\n"))
end

return commands
