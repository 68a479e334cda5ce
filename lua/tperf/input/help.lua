--- What `--help` prints, in 80 columns, from a command's declaration (tperf.input.options).
local options = require "tperf.input.options"
local wrap = require "tperf.base.wrap"

local help = {}

local WIDTH <const> = 80
local LEFT <const> = 28 -- of the names of options: the help of one with a longer name begins on the next line

-- Adds a text after a name, as a list of definitions is printed.
local function define(lines, name, text, left, before)
  local indent = before .. (" "):rep(left + 2)
  local body = wrap(text, WIDTH - #indent)
  local head = before .. name
  if #name > left then
    lines[#lines + 1] = head
  else
    lines[#lines + 1] = head .. (" "):rep(left - #name + 2) .. table.remove(body, 1)
  end
  for _, line in ipairs(body) do lines[#lines + 1] = indent .. line end
end

--- Names and what they mean, in two columns.
---@param list { [1]: string, [2]: string }[]
---@param before? string  at the start of each line
---@param left? integer   the most characters of a name that has its meaning beside it (28)
---@return string[] lines
function help.definitions(list, before, left)
  local longest, lines = 0, {}
  for _, one in ipairs(list) do longest = math.max(longest, #one[1]) end
  for _, one in ipairs(list) do define(lines, one[1], one[2], math.min(longest, left or LEFT), before or "") end
  return lines
end

--- Text in paragraphs: lines that start with two blanks, such as command lines, stay; the others are filled.
---@param text string
---@return string[] lines
function help.filled(text)
  local lines, paragraph = {}, {}
  local function finish()
    if paragraph[1] then
      table.move(wrap(table.concat(paragraph, " "), WIDTH), 1, WIDTH * #paragraph, #lines + 1, lines)
    end
    paragraph = {}
  end
  for line in (text:gsub("%s+$", "") .. "\n"):gmatch "([^\n]*)\n" do
    if line == "" or line:find "^  " then
      finish()
      lines[#lines + 1] = line
    else
      paragraph[#paragraph + 1] = line
    end
  end
  finish()
  return lines
end

--- How an option is written: "-s, --system NAME".
function help.name(option)
  return (option.short and "-" .. option.short .. ", " or "    ") .. "--" .. option.long
    .. (option.value and " " .. option.value or "")
end

local function described(list)
  local pairs_of = {}
  for i, option in ipairs(list) do pairs_of[i] = { help.name(option), option.help } end
  return pairs_of
end

-- The options that a command calls its most usual.
local function quick_of(command)
  local list, by_name = {}, {}
  for _, option in ipairs(options.of(command)) do by_name[option.long] = option end
  for i, name in ipairs(command.quick) do list[i] = by_name[name] end
  return list
end

local function append(lines, more) table.move(more, 1, #more, #lines + 1, lines) end

local function grouped(lines, declared)
  local left = 0
  for _, option in ipairs(declared) do left = math.max(left, #help.name(option)) end
  local group
  for i, option in ipairs(declared) do
    if i == 1 or option.group ~= group then
      group = option.group
      if i > 1 then lines[#lines + 1] = "" end
      lines[#lines + 1] = (group or "options") .. ":"
    end
    define(lines, help.name(option), option.help, math.min(left, LEFT), "  ")
  end
end

--- A command's help.
---@param name string     of the command
---@param command table
---@param all boolean     also what a command that names its most usual options (`quick`) says of the others
---@return string
function help.text(name, command, all)
  local lines = wrap(options.usage(name, command):gsub("\n$", ""), WIDTH, "  ")
  append(lines, { "", command.summary:sub(1, 1):upper() .. command.summary:sub(2) .. "." })
  local quick = command.quick and not all
  if command.example then
    append(lines, { "", "For example:" })
    for line in command.example:gmatch "[^\n]+" do lines[#lines + 1] = "  " .. line end
  end
  if command.details and not quick then
    lines[#lines + 1] = ""
    append(lines, help.filled(command.details))
  end
  lines[#lines + 1] = ""
  if quick then
    append(lines, help.definitions(described(quick_of(command)), "  "))
    append(lines, { "" })
    append(lines, help.filled(("`tperf help %s all` prints all %d options, by group, and more about it."):format(name,
      #options.of(command))))
  else
    grouped(lines, options.of(command))
  end
  return table.concat(lines, "\n") .. "\n"
end

return help
