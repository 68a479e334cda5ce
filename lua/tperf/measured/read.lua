--- What the readers of measurements share.
local read = {}

--- A positive finite number, or nil.
function read.positive(text)
  local number = tonumber(text)
  if number and number > 0 and number < math.huge then return number end
end

--- A positive integer, or nil.
function read.count(text)
  local number = read.positive(text)
  return number and math.tointeger(number)
end

return read
