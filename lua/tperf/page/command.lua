--- The options of a command as a page's form submits them: text by long name.
local check = require "tperf.base.check"
local commands = require "tperf.cli.commands"
local in_options = require "tperf.cli.ask.in_options"
local number = require "tperf.output.number"
local options = require "tperf.input.options"

local command = {}

--- Parses a command's options and its arguments. Raises if one is invalid.
---@param name string              of the command
---@param given table<string, string>
---@param own? table<string, boolean>  fields of the form that are not options
---@return table values, string[] arguments
function command.values(name, given, own)
  local values, known = {}, { model = true }
  for field in pairs(own or {}) do known[field] = true end
  for _, option in ipairs(options.of(commands.find(name))) do
    local text = given[option.long]
    known[option.long] = true
    if text ~= nil and text ~= "" then
      local ok, message = options.store(values, option, tostring(text))
      if not ok then check.fail("%s", message) end
    end
  end
  for _, field in ipairs(check.names(given)) do
    if not known[field] then check.fail("--%s: tperf %s has no such option", field, name) end
  end
  return values, { given.model ~= "" and given.model or nil }
end

--- Calls f(...) and returns its result. Its errors name options instead of arguments.
function command.call(name, f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local problem = results[2]
  error(type(problem) == "string" and in_options(commands.find(name), problem) or problem, 0)
end

--- Returns a result, or raises the message if the result is nil.
function command.need(result, message)
  if not result then error(message, 0) end
  return result
end

local function quoted(text)
  return text:find "^[%w_./:=,@%%+-]+$" and text or "'" .. text:gsub("'", "'\\''") .. "'"
end

--- The command line that asks the same question.
---@param name string
---@param given table<string, string>
---@return string
function command.line(name, given)
  local words = { "tperf", name, given.model and given.model ~= "" and quoted(given.model) or nil }
  for _, option in ipairs(options.of(commands.find(name))) do
    local text = given[option.long]
    if text ~= nil and text ~= "" then
      words[#words + 1] = "--" .. option.long
      if option.value then words[#words + 1] = quoted(tostring(text)) end
    end
  end
  return table.concat(words, " ")
end

--- A value as Lua source: plain tables, strings, numbers and booleans.
---@param value any
---@param indent? string
---@return string
function command.lua(value, indent)
  if type(value) == "string" then return (("%q"):format(value):gsub("\\\n", "\\n")) end
  if type(value) == "number" then return number.text(value) end
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, item in ipairs(value) do parts[i] = command.lua(item) end
  for _, name in ipairs(check.names(value)) do
    if type(name) == "string" then
      local key = name:find "^[%a_][%w_]*$" and name or ("[%q]"):format(name)
      parts[#parts + 1] = key .. " = " .. command.lua(value[name])
    end
  end
  if indent then
    return "{\n" .. indent .. "  " .. table.concat(parts, ",\n" .. indent .. "  ") .. ",\n" .. indent .. "}"
  end
  return #parts > 0 and "{ " .. table.concat(parts, ", ") .. " }" or "{}"
end

return command
