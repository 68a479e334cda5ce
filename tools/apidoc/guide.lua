--- docs/glossary.md and docs/questions.md, from the tables that `tperf help` reads.
local find = require "tperf.cli.guide.find"
local glossary = require "tperf.cli.guide.glossary"
local questions = require "tperf.cli.guide.questions"

local guide = {}

local WRITTEN <const> = "<!-- `make docs` writes this page. Edit %s. -->\n\n"

local GLOSSARY <const> = WRITTEN:format "lua/tperf/cli/guide/glossary.lua" .. [[
# Glossary

The headings of the commands' tables and the terms that answers use. `tperf help TERM` prints the same, with the
options of that name.
]]

local QUESTIONS <const> = WRITTEN:format "lua/tperf/cli/guide/questions.lua" .. [[
# Which command for which question

Each line runs as it stands; put your own model, system and numbers in. `tperf help WORDS` finds a question by its
words: `tperf help does it fit`.
]]

local function cell(text) return (text:gsub("|", "\\|")) end

local function page_of(name) return name and ("[%s](%s)"):format(name, name) or "" end

local function terms()
  local lines = { GLOSSARY }
  for _, group in ipairs(glossary) do
    lines[#lines + 1] = ("## %s\n\n| term | meaning | also | more |\n|---|---|---|---|"):format(group.title)
    for _, row in ipairs(group.rows) do
      lines[#lines + 1] = ("| %s | %s | %s | %s |"):format(cell(row[1]), cell(row[2]),
        cell(table.concat(row.also or {}, ", ")), page_of(row.page))
    end
    lines[#lines + 1] = ""
  end
  return table.concat(lines, "\n")
end

local function asked()
  local lines = { QUESTIONS }
  for _, group in ipairs(questions) do
    lines[#lines + 1] = ("## %s\n"):format(group.title)
    for _, row in ipairs(group.rows) do
      lines[#lines + 1] = ("**%s** (%s)\n\n    %s\n"):format(row[1], page_of(row.page),
        table.concat(find.command(row[2]), "\n    "))
    end
  end
  return table.concat(lines, "\n")
end

--- The text of each page by its path.
function guide.pages()
  return { ["docs/glossary.md"] = (terms():gsub("\n+$", "\n")), ["docs/questions.md"] = (asked():gsub("\n+$", "\n")) }
end

return guide
