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

--- A row with some columns replaced.
---@param row table
---@param columns table<string, string>
---@return table
function read.with(row, columns)
  local whole = setmetatable({}, getmetatable(row))
  for name, text in pairs(row) do whole[name] = text end
  for name, text in pairs(columns) do whole[name] = text end
  return whole
end

return read
