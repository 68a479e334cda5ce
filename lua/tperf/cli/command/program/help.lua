local check = require "tperf.base.check"

-- The help of a command, of a term, or of what some words ask for; nil if there is none.
local function of_words(arguments)
  local commands = require "tperf.cli.commands"
  local name, all = arguments[1], arguments[2] == "all" and not arguments[3]
  local command = (all or not arguments[2]) and commands.find(name)
  if command then return require "tperf.input.help".text(name, command, all) end
  return require "tperf.cli.guide.find".find(table.concat(arguments, " "))
end

return {
  summary = "print the commands, the options of one, or what a word means",
  arguments = "[COMMAND [all] | WORD ...]",
  from = { "commands" },
  example = [[
tperf help search
tperf help search all
tperf help bubble
tperf help how many users]],
  details = [[
Long helps are short at first; `all` prints every option. A WORD is a heading of a table, an option or another
term (docs/glossary.md). Several words are looked up among the questions that commands answer (docs/questions.md).]],
  options = { { long = "man", help = "print the manual page, for man -l" } },
  run = function(values, arguments)
    local commands, name = require "tperf.cli.commands", arguments[1]
    if values.man then
      io.stdout:write(require "tperf.cli.man"())
    elseif not name then
      io.stdout:write(require "tperf.cli.guide.overview"())
    else
      local text = of_words(arguments)
      if text then return io.stdout:write(text) and 0 end
      if arguments[2] then
        return false, ("no question has these words: '%s'"):format(table.concat(arguments, " "))
      end
      local near = check.suggest(name, commands.names())
      if near == "" then near = check.suggest(name, require "tperf.cli.guide.find".names()) end
      return false, ("unknown command '%s'%s"):format(name, near)
    end
  end,
}
