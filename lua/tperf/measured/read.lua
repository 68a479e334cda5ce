--- Parsing shared by the readers of measurements.
local read = {}

local LEAST <const>, MOST <const> = 1e-15, 1e15 -- limits of any size, count, rate or time

--- A positive number, or nil.
function read.positive(text)
  local number = tonumber(text)
  if number and number > LEAST and number < MOST then return number end
end

--- A positive integer, or nil.
function read.count(text)
  local number = read.positive(text)
  return number and math.tointeger(number)
end

--- A text, or `otherwise` if the table's column is missing or empty.
---@param text string?
---@param otherwise string?
function read.text(text, otherwise)
  return text and text ~= "" and text or otherwise or ""
end

return read
