--- The wording of messages: how values are shown, and how long a message may be.
local hidden = require "tperf.core".hidden
local math, string, table = math, string, table -- a script may delete the globals

local wording = {}

local LONGEST = 1500 -- characters of a message: the names in it are the user's, and may be any length

--- Text of others, such as names in files, as it may be shown on a terminal: whatever would act on it, or make a line
--- read otherwise than it is written, becomes a visible escape.
---@param text string
---@param escape? fun(character: string, code?: integer): string  code: nil for a byte that is not UTF-8. Default: as in
---  Lua, "\27", "\u{202E}"
---@return string
function wording.visible(text, escape)
  local first, last, code = hidden(text)
  if not first then return text end
  local parts, at = {}, 1
  while first do
    local character = text:sub(first, last)
    parts[#parts + 1] = text:sub(at, first - 1)
    parts[#parts + 1] = escape and escape(character, code) or code and code > 127 and string.format("\\u{%X}", code)
      or string.format("\\%d", character:byte())
    at = last + 1
    first, last, code = hidden(text, at)
  end
  parts[#parts + 1] = text:sub(at)
  return table.concat(parts)
end

--- The same, but for line ends and tabs.
function wording.lines(text)
  return (text:gsub("[^\n\t]+", wording.visible))
end

--- A value as a message shows it: short and on one line.
---@return string
function wording.show(value)
  local kind = math.type(value) or type(value)
  if kind == "integer" or kind == "boolean" or kind == "nil" then return tostring(value) end
  if value ~= value then return "nan" end -- without a sign
  if kind == "float" then
    local text = string.format("%.15g", value)
    -- all digits of what is no integer and would look like one: 7.9999999999999991
    return math.tointeger(tonumber(text)) and tonumber(text) ~= value and string.format("%.17g", value) or text
  end
  if kind ~= "string" then return "a " .. kind end
  local text = #value > 60 and value:sub(1, 57):gsub("[\xC2-\xF4][\x80-\xBF]*$", "") .. "..." or value
  return '"' .. wording.visible((text:gsub('["\\]', { ['"'] = "\\34", ["\\"] = "\\92" }))) .. '"'
end

-- A float in place of an integer is shown with its fraction.
local function filled(format, ...)
  local ok, message = pcall(string.format, format, ...)
  if ok then return message end
  local values = table.pack(...)
  for i = 1, values.n do
    if type(values[i]) ~= "string" then values[i] = wording.show(values[i]) end
  end
  return string.format((format:gsub("%%[%d.]*[dgf]", "%%s")), table.unpack(values, 1, values.n))
end

--- Formats a message, shortened to a readable length and without control characters.
---@param format string
---@return string
function wording.worded(format, ...)
  local message = select("#", ...) > 0 and filled(format, ...) or format
  message = message:gsub("[^\n]+", wording.visible)
  return #message > LONGEST and message:sub(1, LONGEST) .. "..." or message
end

local FEW <const> = 16

--- After the name of a field that a record does not have: the nearest names, or all of them if they are few.
---@param name any
---@param names string[]
---@return string
function wording.hint(name, names)
  local near = require "tperf.base.suggest"(name, names)
  if near ~= "" or #names == 0 or #names > FEW then return near end
  return "; there are " .. table.concat(names, ", ")
end

return wording
