--- Numbers as people type them in options: counts are decimal ("8k", "2T", "1,024"), sizes in bytes are binary as in
-- nccl-tests where the prefix stands alone ("1K" is 1 KiB), decimal with the unit ("1kB").
local units = require "tperf.base.units"

local numbers = {}

local DECIMAL <const> = { k = 3, M = 6, G = 9, B = 9, T = 12 } -- B: billion
local BINARY <const> = { K = 10, M = 20, G = 30, T = 40 }

-- "1024" for "1,024": the number, if commas stand where they separate thousands.
local function without_commas(text)
  return text:gsub(",%d%d%d", "_"):find "^%d%d?%d?_+$" and text:gsub(",", "") or nil
end

-- What a text with a suffix spells without it: "8e3" for "8k".
local function without_suffix(text)
  local digits, suffix = text:match "^([%d.]+)(%a)$"
  return DECIMAL[suffix] and tonumber(digits) and ("%se%d"):format(digits, DECIMAL[suffix]) or nil
end

-- A hint for a common mistake: "; write 8192, or 8k for 8000" for "8K", which people use for both, "; write 0.1" for
-- "10%", or "".
local function remedy_of(text)
  local digits, suffix = text:match "^([%d.]+)([K%%])$"
  local number = tonumber(digits)
  if not number then return "" end
  if suffix == "%" then return ("; write %g"):format(number / 100) end
  return ("; write %.15g, or %sk for %.15g"):format(1024 * number, digits, 1000 * number)
end

local function finite(number) return number and number == number and math.abs(number) < math.huge and number or nil end

--- The number that a text is; nil and a message.
---@param kind "integer"|"number"
---@param text string
---@param min number?
function numbers.one(kind, text, min)
  local number = finite(tonumber(without_commas(text) or without_suffix(text) or text))
  if kind == "integer" then number = number and math.tointeger(number) end
  if not number then
    return nil, ("%s is needed, got '%s'%s"):format(kind == "integer" and "an integer" or "a number", text,
      remedy_of(text))
  end
  if min and number < min then
    return nil, ("%s of at least %g is needed, got '%s'"):format(kind == "integer" and "an integer" or "a number", min,
      text)
  end
  return number
end

--- The bytes that a text is; nil and a message.
---@param text string
function numbers.bytes(text)
  local digits, prefix = text:match "^([%d.]+)([kKmMgGtT])$"
  if tonumber(digits) then return tonumber(digits) * 2.0 ^ BINARY[prefix:upper()] end
  return units.parse(text, "bytes")
end

--- The integer that vLLM reads: "32k" is 32,000, "32K" 32,768 (vllm/engine/arg_utils.py, human_readable_int); or nil.
---@param text string
function numbers.of_vllm(text)
  local digits, suffix = text:match "^([%d.]+)([kKmMgGtT])$"
  local number = tonumber(digits or text)
  if not digits then return math.tointeger(number) end
  if BINARY[suffix] then return math.tointeger(number) and math.tointeger(number) << BINARY[suffix] end
  return number and math.tointeger(number * 10.0 ^ DECIMAL[suffix == "k" and suffix or suffix:upper()])
end

-- Whether a text may be meant as one number with commas between thousands: "1,024", "1,152"; but not "8,128" and
-- "128,256", which are lists of numbers as GPUs come.
local function may_be_one(text)
  if not without_commas(text) then return false end
  if text:find(",0", 1, true) then return true end
  if text:find "^%d%d%d" then return false end
  for item in text:gmatch "%d+" do
    local number = math.tointeger(tonumber(item))
    if number & number - 1 ~= 0 then return true end
  end
  return false
end

--- Spells a list of integers so that it is read as one.
---@param list integer[]
---@return string
function numbers.spelled(list)
  local text = table.concat(list, ",")
  return may_be_one(text) and table.concat(list, ", ") or text
end

--- Why a list may be meant as one number, with a unit or not, with commas between thousands; nil: it is a list.
---@param text string
---@return string?
function numbers.doubt(text)
  local digits, unit = text:match "^([%d,]+)(%s*%a*)$"
  if not digits or not (may_be_one(digits) or unit ~= "" and without_commas(digits)) then return nil end
  local as_list = (text:find(",0", 1, true) or unit ~= "") and "" or (", or '%s' for the list"):format((text:gsub(",",
    ", ")))
  return ("'%s' may be one number; write %s%s%s"):format(text, without_commas(digits), unit, as_list)
end

--- The integers in a text: of "4,8,64", and of "4..64": 4, 8, 16, 32, 64; nil and a message.
---@param text string
---@param min integer
function numbers.list(text, min)
  local list, doubt = {}, numbers.doubt(text)
  if doubt then return nil, doubt end
  for item in (text .. ","):gmatch " *([^,]-) *," do
    local first, last = item:match "^(%d+%a?)%.%.(%d+%a?)$"
    local low, high = numbers.one("integer", first or item), numbers.one("integer", last or item)
    if not low or not high or low < min or high < low or low == 0 and high > 0 then
      return nil, ("integers such as 4,8 or 4..64 are needed, got '%s'"):format(text)
    end
    repeat
      list[#list + 1] = low
      low = low * 2
    until low > high or low <= 0 -- overflow, or a start at 0
  end
  return list
end

return numbers
