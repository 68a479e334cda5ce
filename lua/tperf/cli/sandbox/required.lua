--- --require FILE: a script whose schedules and strategies a command may name. It runs first, in the sandbox, which
--- then holds for the whole command: what it defined is called later, and files are written as a script's are.
local lazy = require "tperf.base.lazy"
local limits = lazy.module "tperf.cli.sandbox.limits"
local script = lazy.module "tperf.cli.sandbox.script"

local required = {}

local TAKE <const> = { schedule = true, search = true, train = true } -- commands

--- Adds the option to a command's.
required.option = { long = "require", value = "FILE",
  help = "run this script first: schedules and strategies of yours" }

-- The file that the arguments of a command name; nil if there is none.
local function file_in(arguments)
  for i = 2, #arguments do
    if arguments[i] == "--" then return nil end
    if arguments[i] == "--require" then return arguments[i + 1] end
    local value = arguments[i]:match "^%-%-require=(.+)$"
    if value then return value end
  end
end

--- Runs the script that a command's arguments name, before the command's options are known: axes are options, too.
---@param name string  of the command
---@param arguments string[]
function required.run(name, arguments, host)
  local file = TAKE[name] and file_in(arguments)
  if not file then return end
  assert(limits.apply({}, host))
  script.run({ file }, false, host)
end

return required
