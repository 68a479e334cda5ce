--- A reader of JSON (RFC 8259) of any size, such as profilers' traces, which exceed the limits of the reader of models
-- and systems. Null becomes nil.
local check = require "tperf.base.check"

local json = {}

local DEEPEST <const> = 64
local ESCAPES <const> = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }
local WORDS <const> = { t = { "true", true }, f = { "false", false }, n = { "null", nil } }

local function fail(s, at, what)
  local _, lines = s.text:sub(1, at):gsub("\n", "")
  check.fail("%s:%d: %s at byte %d", s.where, lines + 1, what, at)
end

local function unescaped(s, text, at)
  return (text:gsub("\\(.)(%x?%x?%x?%x?)", function(kind, digits)
    if kind ~= "u" then return (ESCAPES[kind] or fail(s, at, "a wrong escape")) .. digits end
    if #digits < 4 then fail(s, at, "a wrong escape") end
    local code = tonumber(digits, 16)
    return (code < 0xd800 or code > 0xdfff) and utf8.char(code) or "?" -- surrogates do not occur in kernels' names
  end))
end

local function string_at(s, at)
  local from = at + 1
  local stop = from
  while true do
    stop = s.text:find('["\\]', stop)
    if not stop then fail(s, at, "a string without end") end
    if s.text:byte(stop) == 34 then break end
    stop = stop + 2
  end
  local text = s.text:sub(from, stop - 1)
  return text:find("\\", 1, true) and unescaped(s, text, at) or text, stop + 1
end

local value_at

local function skip(s, at) return s.text:find("[^ \t\r\n]", at) or fail(s, #s.text, "an end too early") end

local function object_at(s, at, depth)
  local object = {}
  at = skip(s, at + 1)
  if s.text:byte(at) == 125 then return object, at + 1 end
  while true do
    if s.text:byte(at) ~= 34 then fail(s, at, "a key is missing") end
    local name
    name, at = string_at(s, at)
    at = skip(s, at)
    if s.text:byte(at) ~= 58 then fail(s, at, "a colon is missing") end
    object[name], at = value_at(s, skip(s, at + 1), depth)
    at = skip(s, at)
    local byte = s.text:byte(at)
    if byte == 125 then return object, at + 1 end
    if byte ~= 44 then fail(s, at, "a comma is missing") end
    at = skip(s, at + 1)
  end
end

local function array_at(s, at, depth)
  local list, n = {}, 0
  at = skip(s, at + 1)
  if s.text:byte(at) == 93 then return list, at + 1 end
  while true do
    n = n + 1
    list[n], at = value_at(s, at, depth)
    at = skip(s, at)
    local byte = s.text:byte(at)
    if byte == 93 then return list, at + 1 end
    if byte ~= 44 then fail(s, at, "a comma is missing") end
    at = skip(s, at + 1)
  end
end

function value_at(s, at, depth)
  local byte = s.text:byte(at)
  if depth > DEEPEST then fail(s, at, "nesting of more than 64 levels") end
  if byte == 123 then return object_at(s, at, depth + 1) end
  if byte == 91 then return array_at(s, at, depth + 1) end
  if byte == 34 then return string_at(s, at) end
  local word = WORDS[string.char(byte)]
  if word and s.text:sub(at, at + #word[1] - 1) == word[1] then return word[2], at + #word[1] end
  local digits = s.text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local number = digits and tonumber(digits)
  if not number then fail(s, at, "no value") end
  return number, at + #digits
end

--- Parses a text.
---@param text string
---@param where string  its name, for messages
---@return any
function json.decode(text, where)
  local s = { text = text, where = where }
  return (value_at(s, skip(s, 1), 0))
end

return json
