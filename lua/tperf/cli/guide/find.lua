--- What `tperf help WORDS` finds: terms, options by their names, and commands by questions in plain words.
local commands = require "tperf.cli.commands"
local glossary = require "tperf.cli.guide.glossary"
local help = require "tperf.input.help"
local options = require "tperf.input.options"
local questions = require "tperf.cli.guide.questions"
local wrap = require "tperf.base.wrap"

local guide = {}

local WIDTH <const> = 80

-- A name as it is compared: "Micro-Batch" is micro_batch, "--tp" is tp.
local function plain(text) return (text:lower():gsub("^%-+", ""):gsub("[%s_-]+", "_")) end

--- The rows of the glossary for a term.
---@param term string
---@return table[]
function guide.terms(term)
  local found, wanted = {}, plain(term)
  for _, group in ipairs(glossary) do
    for _, row in ipairs(group.rows) do
      local same = plain(row[1]) == wanted
      for _, other in ipairs(row.also or {}) do same = same or plain(other) == wanted end
      if same then found[#found + 1] = row end
    end
  end
  return found
end

-- Adds text in lines that start with two blanks.
local function add_text(lines, text)
  for _, line in ipairs(wrap(text, WIDTH - 2)) do lines[#lines + 1] = "  " .. line end
end

-- The options with a name, one entry for all commands that say the same of it: { option, names of the commands }.
local function options_named(name)
  local list, by_text = {}, {}
  for _, command in ipairs(commands.names()) do
    for _, option in ipairs(options.of(commands.find(command))) do
      if plain(option.long) == plain(name) or option.column and plain(option.column) == plain(name) then
        local one = by_text[option.help]
        if not one then
          one = { option = option, commands = {} }
          by_text[option.help], list[#list + 1] = one, one
        end
        one.commands[#one.commands + 1] = command
      end
    end
  end
  return list
end

local function add_options(lines, name)
  local list = options_named(name)
  if not list[1] then return end
  if lines[1] then lines[#lines + 1] = "" end
  for _, one in ipairs(list) do
    lines[#lines + 1] = help.name(one.option):gsub("^ +", "")
    add_text(lines, one.option.help)
    add_text(lines, (#one.commands < #commands.names() and "Of " .. table.concat(one.commands, ", ")
      or "Of every command") .. ".")
  end
end

-- What is known of a term or an option; nil if nothing is.
local function explained(term)
  local lines = {}
  for i, row in ipairs(guide.terms(term)) do
    if i > 1 then lines[#lines + 1] = "" end
    lines[#lines + 1] = row[1]
    add_text(lines, row[2])
    if row.page then add_text(lines, ("docs/%s says more."):format(row.page)) end
  end
  add_options(lines, term)
  return lines[1] and table.concat(lines, "\n") .. "\n" or nil
end

--- A command line in lines of at most 80 characters, as a shell takes it.
---@param line string
---@return string[]
function guide.command(line)
  local parts = wrap(line, WIDTH - 4, "  ")
  for i = 1, #parts - 1 do parts[i] = parts[i] .. " \\" end
  return parts
end

local COMMON <const> = {}
for word in ("a an and are at by can do does for from get have how i in into is it its long many me most much my of on "
  .. "or our s should so that the there this to use want we what when where which who why will with you your")
  :gmatch "%S+" do
  COMMON[word] = true
end

-- A word without its ending: "serving" and "serves" are one.
local function stem(word)
  for _, ending in ipairs { "ing", "ers", "er", "ed", "es", "s", "e" } do
    local root = word:match("^(..+)" .. ending .. "$")
    if root and #root >= 3 then return root end
  end
  return word
end

local function words_of(text)
  local list = {}
  for word in text:lower():gsub("fine%-tun", "finetun"):gmatch "[%w]+" do
    if not COMMON[word] then list[#list + 1] = stem(word) end
  end
  return list
end

-- How many of the words somebody asks with are in a text.
local function count(asked, text)
  local n, words = 0, words_of(text)
  for _, word in ipairs(asked) do
    for _, own in ipairs(words) do
      if word == own then n = n + 1 break end
    end
  end
  return n
end

local MOST <const> = 3

--- The rows of questions that share most words with a text, the best first.
---@param text string
---@return table[]
function guide.questions(text)
  local asked, found = words_of(text), {}
  for _, group in ipairs(questions) do
    for _, row in ipairs(group.rows) do
      local score = 2 * count(asked, row[1]) + count(asked, row.words)
      if score > 0 then found[#found + 1] = { row = row, score = score, place = #found } end
    end
  end
  table.sort(found, function(a, b)
    if a.score ~= b.score then return a.score > b.score end
    return a.place < b.place
  end)
  local rows = {}
  for i = 1, math.min(MOST, #found) do rows[i] = found[i].row end
  return rows
end

local function answered(text)
  local lines = {}
  for i, row in ipairs(guide.questions(text)) do
    if i > 1 then lines[#lines + 1] = "" end
    lines[#lines + 1] = row[1]
    for _, line in ipairs(guide.command(row[2])) do lines[#lines + 1] = "  " .. line end
    add_text(lines, ("docs/%s says more."):format(row.page))
  end
  if not lines[1] then return nil end
  lines[#lines + 1] = "\ndocs/questions.md has all questions, docs/glossary.md all terms."
  return table.concat(lines, "\n") .. "\n"
end

--- What there is to say of a term, an option, or a question in plain words; nil if nothing is found.
---@param text string
---@return string?
function guide.find(text) return explained(text) or answered(text) end

--- All names of terms, for "did you mean".
---@return string[]
function guide.names()
  local names = {}
  for _, group in ipairs(glossary) do
    for _, row in ipairs(group.rows) do names[#names + 1] = row[1] end
  end
  return names
end

return guide
