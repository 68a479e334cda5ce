-- Lets the commonest assertions of luassert, where they hold, return at once. It takes some microseconds for each to
-- build a state and the text of a failure, and specs that compare whole runs assert millions.
local luassert = require "luassert"

local meta = getmetatable(luassert)
local usual = meta.__index
local quick = {}

function quick.equal(...)
  local expected, got = ...
  if select("#", ...) > 1 and expected == got then return ... end
  return usual(luassert, "equal")(...) -- a tail call: the failure is the caller's
end

function quick.not_equal(...)
  local one, other = ...
  if select("#", ...) > 1 and one ~= other then return ... end
  return usual(luassert, "not_equal")(...)
end

function quick.near(...)
  local expected, got, tolerance = ...
  local numbers = math.type(expected) and math.type(got) and math.type(tolerance)
  if numbers and expected - tolerance <= got and got <= expected + tolerance then return ... end
  return usual(luassert, "near")(...)
end

function quick.matches(...)
  local pattern, text = ...
  if select("#", ...) == 2 and type(pattern) == "string" and type(text) == "string" and text:find(pattern) then
    return ...
  end
  return usual(luassert, "matches")(...)
end

-- Those of one value.
for name, holds in pairs {
  is_true = function(value) return value == true end, is_false = function(value) return value == false end,
  is_nil = function(value) return value == nil end, falsy = function(value) return not value end,
  truthy = function(value) return value end,
} do
  quick[name] = function(...)
    if select("#", ...) > 0 and holds((...)) then return ... end
    return usual(luassert, name)(...)
  end
end

quick.is_near, quick.is_truthy = quick.near, quick.truthy

function meta.__index(self, key) return quick[key] or usual(self, key) end
