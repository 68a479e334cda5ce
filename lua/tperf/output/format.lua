--- Values as text for people: short numbers with units, and nothing that could break a terminal or a table.
local check = require "tperf.base.check"
local units = require "tperf.base.units"
local wording = require "tperf.base.wording"

local format = {}

-- 1234567 -> "1,234,567".
local function grouped(digits)
  local sign, rest = digits:match "^(-?)(.*)$"
  local whole, fraction = rest:match "^(%d+)(.*)$"
  if not whole then return digits end
  whole = whole:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
  return sign .. whole .. fraction
end

local function plain(value, digits)
  if math.type(value) == "integer" then return tostring(value) end
  local text = string.format("%." .. digits .. "g", value)
  -- A float with an integral value (4096.0) prints as an integer.
  if value == math.floor(value) and math.abs(value) < 1e15 then return string.format("%.0f", value) end
  -- 422522.3 to four digits is easier to read as 422500 than as 4.225e+05.
  if math.abs(value) < 1e7 and text:find("e+", 1, true) then return string.format("%.0f", tonumber(text)) end
  return text
end

local function dollars(value, digits)
  local sign, size = value < 0 and "-$" or "$", math.abs(value)
  if size > 0 and size < 1 then return sign .. string.format("%." .. digits .. "g", size) end
  return sign .. grouped(string.format("%.2f", size))
end

-- The units that take SI prefixes (or minutes and days); others, such as "tokens/s", follow the plain number.
local scaled = { bytes = true, ["bytes/s"] = true, FLOP = true,
  ["FLOP/s"] = true, s = true, W = true, J = true, Hz = true }

--- A number with its unit. "%" takes a fraction: 0.5 is "50 %".
---@param value number
---@param unit? string
---@param digits? integer  significant digits (default 4)
---@return string
function format.number(value, unit, digits)
  digits = digits or 4
  if value ~= value then return "nan" end
  if math.abs(value) == math.huge then return value > 0 and "inf" or "-inf" end
  if not unit or unit == "" then return plain(value, digits) end
  if unit == "$" then return dollars(value, digits) end
  if unit == "%" then return plain(100.0 * value, digits) .. " %" end
  if scaled[unit] then return units.format(value, unit, digits) end
  return plain(value, digits) .. " " .. unit
end

local LINE <const> = { ["\n"] = "\\n", ["\t"] = "\\t" }

local function escape(character, code)
  return LINE[character] or (code and code > 127 and "\\u{%X}" or "\\x%02X"):format(code or character:byte())
end

--- Makes text safe to print in one line: what wording.visible escapes, and line ends and tabs.
---@param text string
---@return string
function format.printable(text) return wording.visible(text, escape) end

-- The text of a value by the column's pattern.
local function by_pattern(value, column)
  if type(value) == "number" and value - value ~= 0 then return format.number(value) end
  local ok, text = pcall(string.format, column.format, value)
  if ok then return text end
  check.fail("column '%s': cannot format %s as '%s'", column.name, check.show(value), column.format)
end

--- The text of a table's cell.
---@param value any
---@param column table  with unit, format, digits
---@return string
function format.cell(value, column)
  if value == nil then return "" end
  if column.format then
    if type(column.format) == "string" then return format.printable(by_pattern(value, column)) end
    local ok, text = pcall(column.format, value)
    if not ok then check.fail("column '%s': cannot format %s: %s", column.name, check.show(value), text) end
    if text == nil then return "" end
    if text ~= text then return format.number(text) end
    local shown = tostring(text)
    if type(text) ~= "string" and shown:find "^%a+: " then -- an address, another in every run
      check.fail("column '%s': its format returned %s, where a text must be", column.name, check.show(text))
    end
    return format.printable(shown)
  end
  if type(value) == "number" then return format.number(value, column.unit, column.digits) end
  if type(value) == "string" then return format.printable(value) end
  if type(value) == "boolean" then return value and "yes" or "no" end
  check.fail("column '%s' holds %s: name one of its fields, as in '%s.field', or give the column a format",
    column.name, check.show(value), column.name)
end

-- Code points that terminals draw over nothing (0) or over two cells (2), in order: { first, last, cells }. Unicode 15,
-- the common blocks.
local CELLS <const> = {
  { 0x300, 0x36F, 0 }, { 0x483, 0x489, 0 }, { 0x591, 0x5BD, 0 }, { 0x610, 0x61A, 0 }, { 0x64B, 0x65F, 0 },
  { 0x900, 0x902, 0 }, { 0xE31, 0xE31, 0 }, { 0xE34, 0xE3A, 0 }, { 0x1100, 0x115F, 2 }, { 0x1AB0, 0x1AFF, 0 },
  { 0x1DC0, 0x1DFF, 0 }, { 0x200B, 0x200F, 0 }, { 0x2060, 0x2064, 0 }, { 0x20D0, 0x20FF, 0 }, { 0x2E80, 0x303E, 2 },
  { 0x3041, 0x33FF, 2 }, { 0x3400, 0x4DBF, 2 }, { 0x4E00, 0x9FFF, 2 }, { 0xA000, 0xA4CF, 2 }, { 0xAC00, 0xD7A3, 2 },
  { 0xF900, 0xFAFF, 2 }, { 0xFE00, 0xFE0F, 0 }, { 0xFE20, 0xFE2F, 0 }, { 0xFE30, 0xFE6F, 2 }, { 0xFEFF, 0xFEFF, 0 },
  { 0xFF00, 0xFF60, 2 }, { 0xFFE0, 0xFFE6, 2 }, { 0x1F300, 0x1F64F, 2 }, { 0x1F680, 0x1F6FF, 2 },
  { 0x1F900, 0x1F9FF, 2 }, { 0x20000, 0x3FFFD, 2 },
}

-- The cells of a code point: the ranges are halved until one is left.
local function cells_of(code)
  local low, high = 1, #CELLS
  while low <= high do
    local middle = (low + high) // 2
    local range = CELLS[middle]
    if code < range[1] then high = middle - 1 elseif code > range[2] then low = middle + 1 else return range[3] end
  end
  return 1
end

--- The width of a text in terminal cells.
---@param text string  valid UTF-8 without control characters
---@return integer
function format.width(text)
  if not text:find "[\x80-\xFF]" then return #text end
  local width = 0
  for _, code in utf8.codes(text) do width = width + cells_of(code) end
  return width
end

--- A text truncated to a width in terminal cells, with "…" at the cut.
---@return string
function format.clip(text, width)
  if format.width(text) <= width then return text end
  local out, used = {}, 0
  for c in text:gmatch(utf8.charpattern) do
    used = used + format.width(c)
    if used > width - 1 then break end
    out[#out + 1] = c
  end
  return table.concat(out) .. "…"
end

return format
