--- Numbers as text that programs read back.
local number = {}

--- The shortest text that reads back as the same number: 0.1, not 0.10000000000000001. Any double keeps 15 digits
--- (DBL_DIG), so if 15 are enough, %.15g is the shortest form. Infinity and NaN become "inf", "-inf" and "nan".
---@param value number
---@return string
function number.text(value)
  if math.type(value) == "integer" then return string.format("%d", value) end
  if value ~= value then return "nan" end
  if value == math.huge or value == -math.huge then return value > 0 and "inf" or "-inf" end
  local first = 15
  -- Subnormal numbers have fewer than 15 significant digits: 5e-324.
  if value ~= 0 and math.abs(value) < 0x1p-1022 then first = 1 end
  for digits = first, 16 do
    local text = string.format("%." .. digits .. "g", value)
    if tonumber(text) == value then return text end
  end
  return string.format("%.17g", value)
end

return number
