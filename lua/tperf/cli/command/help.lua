local check = require "tperf.check"

return {
  summary = "print the commands, or the options of one",
  arguments = "[COMMAND]",
  run = function(_, arguments)
    local commands = require "tperf.cli.commands"
    local name = arguments[1]
    if arguments[2] then return false, "help takes one command" end
    if not name then return io.stdout:write(commands.overview()) and 0 end
    local command = commands.find(name)
    if not command then
      return false, ("unknown command '%s'%s"):format(name, check.suggest(name, commands.names()))
    end
    io.stdout:write(require "tperf.cli.options".help(name, command))
  end,
}
