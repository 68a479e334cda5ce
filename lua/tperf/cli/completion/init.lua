--- Shell completion, generated from the commands' declarations. A word is completed from the lists below, by name, from
-- "files" and "folders", by the shell, and from the words in an option's or argument's own `from`.
local commands = require "tperf.cli.commands"
local options = require "tperf.input.options"

local completion = {}

local function listed(kind)
  return function() return require "tperf.base.catalogue".list(kind) end
end

local function llm_analysis(kind)
  return function() return require "tperf.compat.llm_analysis".names(kind) end
end

--- The lists that `from` may name, besides files and folders.
completion.lists = {
  commands = commands.names,
  models = listed "models", systems = listed "systems", software = listed "software",
  none = function() return { "none" } end,
  strategies = function() return require "tperf.describe.strategy".names() end,
  schedules = function() return require "tperf.describe.schedule".names() end,
  rules = function() return require "tperf.describe.rules".names() end,
  ["llm-analysis-models"] = llm_analysis "models", ["llm-analysis-gpus"] = llm_analysis "gpus",
  ["llm-analysis-dtypes"] = llm_analysis "dtypes",
}

-- Adds names without characters that a shell would split or expand; names may come from files of any name.
local function add_plain(list, words)
  for _, word in ipairs(words) do
    if word:find "^[%w_./+][%w_./+-]*$" then list[#list + 1] = word end
  end
end

local PLACEHOLDERS = { FILE = "files", DIR = "folders", PREFIX = "files" }

-- Combines what `from` names: { words = {…}, files = boolean, folders = boolean }.
local function source(from)
  local found = { words = {} }
  if type(from) == "table" then
    found.words = from
  elseif from then
    for name in from:gmatch "%S+" do
      if name == "files" or name == "folders" then
        found[name] = true
      else
        add_plain(found.words, completion.lists[name]())
      end
    end
  end
  return found
end

local function option_of(declared)
  local takes = declared.value and source(declared.from or PLACEHOLDERS[declared.value])
  return { long = declared.long, short = declared.short, help = declared.help, placeholder = declared.value,
    takes = takes or nil, many = declared.kind == "list" }
end

--- Every command with the completion sources of its options and arguments:
-- { name, summary, options = { { long, short, help, placeholder, takes, many }, … }, places = { source, … }, more };
-- a source is { words, files, folders }; with `more`, the last place also applies to all further arguments.
---@return table[]
function completion.commands()
  local list = {}
  for i, name in ipairs(commands.names()) do
    local command = commands.find(name)
    local one = { name = name, summary = command.summary, options = {}, places = {} }
    one.more = (command.arguments or ""):find("...", 1, true) ~= nil
    for j, declared in ipairs(options.of(command)) do one.options[j] = option_of(declared) end
    for j, from in ipairs(command.from or {}) do one.places[j] = source(from) end
    list[i] = one
  end
  return list
end

--- The completion script for a shell.
---@param shell "bash"|"fish"|"zsh"
---@return string
function completion.script(shell) return require("tperf.cli.completion." .. shell)(completion.commands()) end

return completion
