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
  local format = string.format
  -- Subnormal numbers have fewer than 15 significant digits: 5e-324.
  for digits = value ~= 0 and math.abs(value) < 0x1p-1022 and 1 or 15, 14 do
    local text = format("%." .. digits .. "g", value)
    if tonumber(text) == value then return text end
  end
  local text = format("%.15g", value)
  if tonumber(text) ~= value then text = format("%.16g", value) end
  return tonumber(text) == value and text or format("%.17g", value)
end

return number
