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

-- All except least_microbatches and remedy may return nil.
local RESULTS = {
  refuse = { test = is_text, what = "a text, or nil" },
  remedy = { test = is_text, what = "a text", always = true },
  least_microbatches = { test = is_integer, what = "an integer", always = true },
  closed_form = { test = is_form, what = "a table of numbers by F, B, D, W, O and p2p, or nil" },
  in_flight = { test = is_integer, what = "an integer, or nil" },
}

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
      return value
    end
  end
  return definition
end
