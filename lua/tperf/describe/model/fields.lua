--- Checkers that descriptions use often.
local check = require "tperf.base.check"

local fields = {}

--- A count from 1 (options.min) to 2^31 (options.max); also options.default, options.optional.
function fields.size(options)
  options = options or {}
  return check.integer { min = options.min or 1, max = options.max or 1 << 31, default = options.default,
    optional = options.optional }
end

fields.some = { optional = true }

--- true or false; optional if there is no default.
function fields.flag(default) return check.boolean { default = default, optional = default == nil } end

return fields
