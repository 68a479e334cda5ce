--- The text that `tperf` and `tperf help` print: all commands, in groups.
local commands = require "tperf.cli.commands"
local roots = require "tperf.base.roots"

-- The folders that commands are in, as headings.
local GROUPS <const> = { { "question", "questions" }, { "data", "models, machines and measurements" },
  { "program", "scripts and the program itself" } }

-- Where the pages are that help cites, unless it is the current folder.
local function documents()
  local contents = "docs/README.md"
  local path = not roots.exists(contents) and roots.installed(contents)
  return path and ("Pages such as docs/memory.md are in %s.\n"):format(path:match "^(.*)/[^/]*$") or ""
end

--- The text that `tperf` and `tperf help` print.
---@return string
return function()
  local lines, definitions = {}, require "tperf.input.help".definitions
  for _, group in ipairs(GROUPS) do
    local list = {}
    for _, name in ipairs(commands.names()) do
      if commands.is_in(name, group[1]) then
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
%s]]):format(table.concat(lines, "\n"), documents())
end
