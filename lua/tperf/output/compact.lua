--- JSON on one line, as output/json.lua writes it and in fewer steps: it knows no path to a value, which only errors
--- need.
local json = require "tperf.output.json"
local lazy = require "tperf.base.lazy"
local number = require "tperf.output.number"

local quoted = {} -- texts that repeat -> as JSON
local QUOTED <const>, MOST_QUOTED <const> = 64, 4096 -- bytes of such a text, and how many are kept
local kept = 0

local function quote(text)
  local known = quoted[text]
  if known then return known end
  known = json.quote(text)
  if #text <= QUOTED and kept < MOST_QUOTED then quoted[text], kept = known, kept + 1 end
  return known
end

local write

local function list(value, count, into, depth)
  into[#into + 1] = "["
  for i = 1, count do
    if i > 1 then into[#into + 1] = "," end
    if not write(rawget(value, i), into, depth) then return nil end
  end
  into[#into + 1] = "]"
  return true
end

local function object(value, into, depth)
  local names = {}
  for name in next, value do
    if type(name) ~= "string" then return nil end
    names[#names + 1] = name
  end
  table.sort(names)
  local open = "{"
  for _, name in ipairs(names) do
    into[#into + 1] = open .. quote(name) .. ":"
    if not write(rawget(value, name), into, depth) then return nil end
    open = ","
  end
  into[#into + 1] = "}"
  return true
end

function write(value, into, depth)
  local kind = type(value)
  if kind == "number" then
    local finite = value == value and value ~= math.huge and value ~= -math.huge
    into[#into + 1] = finite and number.text(value) or "null"
  elseif kind == "string" then
    into[#into + 1] = quote(value)
  elseif kind == "boolean" then
    into[#into + 1] = tostring(value)
  elseif value == json.EMPTY then
    into[#into + 1] = "{}"
  elseif kind == "table" and depth < json.DEPTH then -- one that leads back to itself has no end
    value = lazy.settle(value)
    if type(next(value)) == "string" then return object(value, into, depth + 1) end
    local count = json.list_length(value)
    return count and list(value, count, into, depth + 1)
  else
    return nil
  end
  return true
end

--- A value as JSON on one line; infinity and NaN are null.
---@param value any
---@return string
return function(value)
  local pieces = {}
  if write(value, pieces, 0) then return table.concat(pieces) end
  return json.encode(value, { indent = 0, nonfinite = "null" }) -- numbers as keys; or it says what JSON cannot carry
end
