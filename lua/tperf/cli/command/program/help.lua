local check = require "tperf.base.check"

return {
  summary = "print the commands, or the options of one",
  arguments = "[COMMAND]",
  from = { "commands" },
  options = { { long = "man", help = "print the manual page, for man -l" } },
  run = function(values, arguments)
    local commands = require "tperf.cli.commands"
    local name = arguments[1]
    if arguments[2] then return false, "help takes one command" end
    local command = name and commands.find(name)
    if name and not command then
      return false, ("unknown command '%s'%s"):format(name, check.suggest(name, commands.names()))
    end
    if values.man then
      io.stdout:write(require "tperf.cli.man"())
    elseif command then
      io.stdout:write(require "tperf.input.options".help(name, command))
    else
      io.stdout:write(commands.overview())
    end
  end,
}
