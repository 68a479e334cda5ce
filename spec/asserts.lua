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

function quick.is_true(...)
  if ... == true then return ... end
  return usual(luassert, "is_true")(...)
end

function quick.truthy(...)
  if (...) then return ... end
  return usual(luassert, "truthy")(...)
end

function meta.__index(self, key) return quick[key] or usual(self, key) end
