--- Command lines as data: parsing, usage and help all follow from a command's declaration.
-- An option is { long = "system", short = "s", value = "NAME", kind = "string", help = "…" }; without `value` it is a
-- switch. Its value arrives under the long name, with "_" for "-".
--   kind    "string" (default), "integer", "number", "list" (comma-separated, repeatable), "integers" ("4,8", or
--           "4..64" by doubling, from 1), "pairs" ("tp=8,dp=2": { tp = 8, dp = 2 }), or a unit of tperf.units such as
--           "s": a number with its unit, which only counts (bytes, FLOP) may omit
--   min     the smallest valid number
--   column  how tables call it, if otherwise
--   from    what completion offers: lists named in cli/completion ("systems files"), or the values themselves; an
--           option that takes a FILE or a DIR needs none
--   writes  the option names something to be written, see cli/outputs.lua
--   group   the heading that the help lists it under ("options"); options of a group stand together
-- A command's `common` options replace those that every command takes. Its help (tperf.input.help) prints its
-- `summary`, its `example`, command lines, and its `details`, of which lines that start with two blanks stay as they
-- are; `quick` has the names of the options that the short form of a long help lists.
local check = require "tperf.base.check"
local numbers = require "tperf.input.numbers"

local options = {}

--- The options of every command.
options.common = {
  { long = "data", value = "DIR", help = "look for models, systems and software in this folder first" },
  { long = "verbose", help = "print a traceback with an error" },
  { long = "help", short = "h", help = "print the command's options" },
}

--- The options of every command that prints a table.
options.formats = {
  { long = "json", help = "print JSON: every field, in SI units" },
  { long = "csv", help = "print CSV: the table's columns, in SI units" },
  { long = "wide", help = "print all columns, not only those that fit 80 characters" },
}

--- Copies of options under a heading of the help.
---@return table[]
function options.under(group, list)
  local copies = {}
  for i, option in ipairs(list) do
    copies[i] = { group = group }
    for name, value in pairs(option) do copies[i][name] = value end
  end
  return copies
end

--- Concatenates lists of options.
---@return table[]
function options.join(...)
  local all = {}
  for _, list in ipairs { ... } do table.move(list, 1, #list, #all + 1, all) end
  return all
end

--- All options of a command, the common ones last.
function options.of(command)
  return options.join(command.options or {}, command.common or options.common)
end

-- "tp=8,dp=2": { tp = 8, dp = 2 }.
local function as_pairs(text)
  local pairs_of = {}
  for item in (text .. ","):gmatch "([^,]*)," do
    local name, value = item:match "^([%w_]+)=(.+)$"
    local number = value and numbers.one("number", value)
    if not number then return nil, ("NAME=NUMBER is needed, got '%s'"):format(item) end
    if pairs_of[name] then return nil, ("'%s' is given twice"):format(name) end
    pairs_of[name] = number
  end
  return pairs_of
end

local function convert(option, text)
  local kind = option.kind or "string"
  if kind == "integers" then return numbers.list(text, option.min or 1) end
  if kind == "pairs" then return as_pairs(text) end
  if kind == "integer" or kind == "number" then return numbers.one(kind, text, option.min) end
  if kind == "string" or kind == "list" then
    if text == "" then return nil, "a value is needed" end
    local doubt = kind == "list" and numbers.doubt(text)
    if doubt then return nil, doubt end
    return text
  end
  if kind == "bytes" then return numbers.bytes(text) end
  return check.quantity(text, kind)
end

local REPEATS = { list = true, integers = true } -- repeating the option appends

--- Converts an option's text and stores the value under the option's name; nil and a message if it is invalid.
function options.store(values, option, text)
  local name = option.long:gsub("-", "_")
  if not option.value then
    values[name] = true
    return true
  end
  local value, message = convert(option, text)
  if value == nil then return nil, ("--%s: %s"):format(option.long, message) end
  if REPEATS[option.kind] then
    values[name] = values[name] or {}
    if option.kind == "integers" then
      table.move(value, 1, #value, #values[name] + 1, values[name])
    else
      for item in value:gmatch " *([^,]+)" do table.insert(values[name], item) end
    end
    return true
  end
  if values[name] ~= nil and values[name] ~= value then
    return nil, ("--%s is given twice, the second time as '%s'; it takes one value"):format(option.long, text)
  end
  values[name] = value
  return true
end

--- "--bytes and --gpus are missing", for the required options that were not given; nil if all were.
---@param names string[]  as in values
function options.missing(values, names)
  local list = {}
  for _, name in ipairs(names) do
    if values[name] == nil then list[#list + 1] = "--" .. name:gsub("_", "-") end
  end
  local last = table.remove(list)
  if not last then return nil end
  return #list > 0 and ("%s and %s are missing"):format(table.concat(list, ", "), last) or last .. " is missing"
end

local function find(declared, key, name)
  for _, option in ipairs(declared) do
    if option[key] == name then return option end
  end
end

local MOST_SUGGESTED <const> = 3

local NAME_WEIGHT <const> = 2 -- a word in an option's name counts more than one in its help

-- " (did you mean …?)" with the options whose name and help share most words with an unknown one: '--tp' for
-- "tensor-model-parallel-size".
local function by_words(declared, name)
  local found, most = {}, 0
  for _, option in ipairs(declared) do
    local own, words, count = " " .. option.long:gsub("-", " ") .. " ", " " .. option.help:lower():gsub("%W+", " "), 0
    for word in name:lower():gmatch "%a%a%a+" do
      if own:find(" " .. word .. " ", 1, true) then count = count + NAME_WEIGHT end
      if word ~= "model" and words:find(" " .. word, 1, true) then count = count + 1 end
    end
    if count > most then found, most = {}, count end
    if count == most and count > 0 and #found < MOST_SUGGESTED then found[#found + 1] = option.long end
  end
  return #found > 0 and (" (did you mean '--%s'?)"):format(table.concat(found, "' or '--")) or ""
end

local function unknown_long(command, declared, name)
  for argument in (command.arguments or ""):gmatch "%u+" do
    if argument == name:upper() then
      return ("there is no option '--%s': %s is an argument of its own"):format(name, argument)
    end
  end
  local titled, names = find(declared, "column", name), {}
  if titled then return ("unknown option '--%s' (did you mean '--%s'?)"):format(name, titled.long) end
  for _, option in ipairs(declared) do -- as abbreviations first
    if #name > 2 and option.long:sub(1, #name) == name then names[#names + 1] = option.long end
  end
  for i, option in ipairs(not names[1] and declared or {}) do names[i] = option.long end
  local near = check.suggest(name, names):gsub("'([^']*)'", "'--%1'")
  return ("unknown option '--%s'%s"):format(name, near ~= "" and near or by_words(declared, name))
end

-- Suggestions for "-tp", with a single dash, too.
local function unknown_short(declared, argument, letter)
  local name = argument:match "^%-(%w[%w-]+)"
  if name and find(declared, "long", name) then
    return ("unknown option '-%s' (did you mean '--%s'?)"):format(name, name)
  end
  return ("unknown option '-%s'"):format(letter)
end

-- Parses an argument that starts with "-". Returns how many of the following arguments it consumed, or nil, message.
local function parse_option(command, declared, values, argument, following)
  local long, text = argument:match "^%-%-([^=]+)=?(.*)$"
  if long then
    local option = find(declared, "long", long) or find(declared, "long", (long:gsub("-", "_")))
    if not option then return nil, unknown_long(command, declared, long) end
    local inline = argument:find("=", 1, true) ~= nil
    if inline and not option.value then return nil, ("--%s takes no value"):format(long) end
    if option.value and not inline then text = following end
    if option.value and text == nil then return nil, ("--%s needs a value: %s"):format(long, option.value) end
    local ok, message = options.store(values, option, text)
    if not ok then return nil, message end
    return option.value and not inline and 1 or 0
  end
  local rest = argument:sub(2)
  while rest ~= "" do -- "-vt" is "-v -t"; "-g1024" is "-g 1024"
    local option = find(declared, "short", rest:sub(1, 1))
    if not option then return nil, unknown_short(declared, argument, rest:sub(1, 1)) end
    rest = rest:sub(2)
    if option.value then
      local value = rest ~= "" and rest or following
      if value == nil then return nil, ("-%s needs a value: %s"):format(option.short, option.value) end
      local ok, message = options.store(values, option, value)
      if not ok then return nil, message end
      return rest == "" and 1 or 0
    end
    options.store(values, option)
  end
  return 0
end

--- Parses a command's arguments: list[first], list[first + 1], …
---@return table? values      by long name; nil if something is wrong
---@return table|string rest  the positional arguments, or the message
function options.parse(command, list, first)
  local declared, values, rest = options.of(command), {}, {}
  local i = first
  while list[i] do
    local argument = list[i]
    if argument == "--" then
      table.move(list, i + 1, #list, #rest + 1, rest)
      break
    elseif argument:sub(1, 1) == "-" and argument ~= "-" then
      local used, message = parse_option(command, declared, values, argument, list[i + 1])
      if not used then return nil, message end
      i = i + used
    elseif command.passes_arguments then -- everything from the script's name on belongs to the script
      table.move(list, i, #list, #rest + 1, rest)
      break
    elseif argument == "" then
      return nil, "an argument is empty"
    else
      rest[#rest + 1] = argument
    end
    i = i + 1
  end
  return values, rest
end

--- "tperf run [OPTIONS] SCRIPT …"
function options.usage(name, command)
  return ("usage: tperf %s [OPTIONS]%s\n"):format(name, command.arguments and " " .. command.arguments or "")
end

return options
