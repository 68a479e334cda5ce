--- Checkers of what descriptions are full of.
local check = require "tperf.base.check"

local fields = {}

--- A count of at least 1, or options.min, and at most 2^31, or options.max; options.default, options.optional.
function fields.size(options)
  options = options or {}
  return check.integer { min = options.min or 1, max = options.max or 1 << 31, default = options.default,
    optional = options.optional }
end

fields.some = { optional = true }

--- true or false; without a default it may be absent.
function fields.flag(default) return check.boolean { default = default, optional = default == nil } end

return fields
