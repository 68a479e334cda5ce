--- Numbers printed and rounded as in Python, for upstream's texts and JSON.
local python = {}

--- repr(): the shortest digits that read back as the same double; integers without a point.
---@param x number
---@return string
function python.repr(x)
  if math.type(x) == "integer" then return ("%d"):format(x) end
  if x ~= x then return "nan" end
  if x == math.huge or x == -math.huge then return x > 0 and "inf" or "-inf" end
  local shortest -- a double with 15 digits or fewer always reads back; subnormals may need fewer
  for precision = math.abs(x) < 2.3e-308 and 0 or 14, 16 do
    shortest = ("%." .. precision .. "e"):format(x)
    if tonumber(shortest) == x then break end
  end
  local sign, first, rest, exponent = shortest:match "^(-?)(%d)%.?(%d*)e(.+)$"
  local digits = (first .. rest):gsub("0+$", "")
  exponent = tonumber(exponent)
  if digits == "" then return sign .. "0.0" end
  if exponent < -4 or exponent >= 16 then
    local mantissa = #digits > 1 and first .. "." .. digits:sub(2) or first
    return ("%s%se%s%02d"):format(sign, mantissa, exponent < 0 and "-" or "+", math.abs(exponent))
  end
  if exponent < 0 then return sign .. "0." .. ("0"):rep(-exponent - 1) .. digits end
  digits = digits .. ("0"):rep(exponent + 2 - #digits)
  return sign .. digits:sub(1, exponent + 1) .. "." .. digits:sub(exponent + 2)
end

--- round(x, digits): the nearest decimal to the double, ties to even; integers, infinities and NaN stay.
---@param x number
---@param digits integer
---@return number
function python.round(x, digits)
  if math.type(x) == "integer" or x ~= x or math.abs(x) == math.huge then return x end
  return tonumber(("%." .. digits .. "f"):format(x)) + 0.0
end

--- str() of any value a summary holds.
---@return string
function python.str(x)
  if x == nil then return "None" end
  if x == true then return "True" elseif x == false then return "False" end
  return type(x) == "number" and python.repr(x) or tostring(x)
end

local prefixes = { { 4, "T" }, { 3, "G" }, { 2, "M" }, { 1, "K" } }

--- A number with a decimal (base 1000) or binary (base 1024) prefix: "162.58 G". nil stays nil.
---@param x number?
---@param digits integer?  decimals, default 2
---@param base integer?    default 1024
---@return string?
function python.number(x, digits, base)
  if x == nil then return nil end
  base = base or 1024
  for _, prefix in ipairs(prefixes) do
    local unit = base ^ prefix[1]
    if math.abs(x) >= unit then return python.repr(python.round(x / unit, digits or 2)) .. " " .. prefix[2] end
  end
  return python.repr(x)
end

--- A duration in the largest fitting unit. As in upstream, exactly 1 s is "1000.0 ms", and negatives are in us.
---@param seconds number?
---@param digits integer?  decimals, default 2
---@return string
function python.duration(seconds, digits)
  if seconds == nil then return "None" end
  local value, unit
  if seconds >= 86400 then value, unit = seconds / 86400, "days"
  elseif seconds >= 3600 then value, unit = seconds / 3600, "hours"
  elseif seconds >= 60 then value, unit = seconds / 60, "minutes"
  elseif seconds > 1 then value, unit = seconds, "s"
  elseif seconds > 1e-3 then value, unit = seconds * 1e3, "ms"
  else value, unit = seconds * 1e6, "us" end
  return python.repr(python.round(value + 0.0, digits or 2)) .. " " .. unit
end

return python
