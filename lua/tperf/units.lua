--- Quantities as people write them: "900 GB/s", "80 GiB", "400 Gb/s" (bits), "2.5 us", "312 TFLOP/s", "700 W".
-- Units: "bytes", "bytes/s", "FLOP", "FLOP/s", "s", "W", "J", "Hz". Implemented in src/base/units.c.
local core = require "tperf.core"

local units = {}

--- Reads a quantity; a number without a unit is in the base unit.
---@param text string
---@param unit string  the base unit, and so the dimension, to expect
---@return number?     # in the base unit; nil when the text is wrong
---@return string?     # what is wrong with it
function units.parse(text, unit)
  return core.units.parse(text, unit)
end

--- Prints a quantity with a fitting prefix; its text reads back and prints as the same text.
---@param value number  in the base unit
---@param unit string
---@param digits? integer  significant digits, 4 when absent
---@return string
function units.format(value, unit, digits)
  return core.units.format(value, unit, digits)
end

return units
