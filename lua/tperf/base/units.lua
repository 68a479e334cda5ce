--- Quantities with units: "900 GB/s", "80 GiB", "400 Gb/s" (bits), "2.5 us", "312 TFLOP/s", "700 W".
-- The base units are "bytes", "bytes/s", "FLOP", "FLOP/s", "s", "W", "J" and "Hz". Implemented in src/base/units.c.
local check = require "tperf.base.check"
local core = require "tperf.core"

local units = {}

local known = {}
for _, name in ipairs(core.units.names) do known[name] = true end

local function check_unit(what, unit)
  if type(unit) == "string" and known[unit] then return end
  check.fail("%s: the unit must be one of %s, got %s%s", what, table.concat(core.units.names, ", "), check.show(unit),
    check.suggest(unit, core.units.names))
end

--- Parses a quantity. A number without a unit is in the base unit.
---@param text string
---@param unit string  the base unit, and so the dimension, to expect
---@return number?     # in the base unit; nil if the text is invalid
---@return string?     # why it is invalid
function units.parse(text, unit)
  check_unit("tperf.units.parse", unit)
  if type(text) ~= "string" and type(text) ~= "number" then
    check.fail("tperf.units.parse: the text must be a string, got %s", check.show(text))
  end
  return core.units.parse(text, unit)
end

--- The value and base unit of a text that is a quantity with a unit, such as "40 GB"; nil for any other text.
---@param text string
---@return number?
---@return string?
function units.read(text)
  if type(text) ~= "string" then check.fail("tperf.units.read: the text must be a string, got %s", check.show(text)) end
  if not text:find "^[%d.+-].*%a" then return nil end
  for _, unit in ipairs(core.units.names) do
    local value = core.units.parse(text, unit)
    if value then return value, unit end
  end
end

--- Formats a quantity with a suitable prefix. Parsing the text and formatting it again gives the same text.
---@param value number  in the base unit
---@param unit string
---@param digits? integer  significant digits, 4 when absent
---@return string
function units.format(value, unit, digits)
  if type(value) ~= "number" then
    check.fail("tperf.units.format: the value must be a number, got %s", check.show(value))
  end
  check_unit("tperf.units.format", unit)
  local count = digits == nil and 4 or math.type(digits) and math.tointeger(digits)
  if not count or count < 1 or count > 15 then
    check.fail("tperf.units.format: the digits must be an integer from 1 to 15, got %s", check.show(digits))
  end
  return core.units.format(value, unit, count)
end

return units
