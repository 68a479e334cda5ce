--- Checks the results of a custom schedule's functions when they return.
local check = require "tperf.base.check"

local function is_number(value) return type(value) == "number" and value - value == 0 end

local function is_integer(value) return math.type(value) and math.tointeger(value) end

local function is_text(value) return type(value) == "string" end

local COEFFICIENTS = { F = true, B = true, D = true, W = true, O = true, p2p = true }

local function is_form(value)
  if type(value) ~= "table" then return false end
  for key, item in next, value do
    if not COEFFICIENTS[key] or not is_number(item) then return false end
  end
  return true
end

local function is_positive(value) return is_integer(value) and value >= 1 end

-- All except least_microbatches and remedy may return nil.
local RESULTS = {
  refuse = { test = is_text, what = "a text, or nil" },
  remedy = { test = is_text, what = "a text", always = true },
  least_microbatches = { test = is_integer, what = "an integer", always = true },
  closed_form = { test = is_form, what = "a table of numbers by F, B, D, W, O and p2p, or nil" },
  in_flight = { test = is_positive, what = "an integer of at least 1, or nil" },
}

-- Seconds of a pass if a forward takes one, its backward two, and an overlapped pair as long as its halves.
local UNIT <const> = { F = 1, B = 2, D = 1, W = 1, O = 3, p2p = 0 }

-- Refuses a makespan below the passes of a device itself.
local function check_form(name, form, p)
  local whole, least = 0, 3 * p.microbatches * p.stages / p.devices
  for kind, count in pairs(form) do whole = whole + UNIT[kind] * count end
  if whole < least * (1 - 1e-9) then
    check.fail("schedule '%s': closed_form gives a makespan of %.10g for %d devices, %d stages and %d micro-batches, "
      .. "less than the %.10g of a device's own passes (F = 1, D = 1, W = 1, B = 2, O = 3, p2p = 0)", name, whole,
      p.devices, p.stages, p.microbatches, least)
  end
end

--- A definition with each function's result checked.
---@param name string  the schedule's name
---@param definition table
---@return table definition
return function(name, definition)
  for field, result in pairs(RESULTS) do
    local f = definition[field]
    definition[field] = f and function(...)
      local value = f(...)
      if value == nil and not result.always then return nil end
      if not result.test(value) then
        check.fail("schedule '%s': %s returned %s, where %s must be", name, field, check.show(value), result.what)
      end
      if field == "closed_form" then check_form(name, value, ...) end
      return value
    end
  end
  return definition
end
