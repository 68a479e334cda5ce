--- tperf.check: what a model's blocks make, beside its description; and comparisons for scripts' tests (`tperf test`).
local check = require "tperf.base.check"

local checks = {}

local DEEPEST <const> = 16

local function is_number(value) return type(value) == "number" and value == value end

-- Whether two numbers differ by no more than a part of the larger.
local function is_near(a, b, tolerance)
  return a == b or math.abs(a - b) <= tolerance * math.max(math.abs(a), math.abs(b))
end

-- Raises where two values differ; path: of the fields that led to them.
local function compare(a, b, tolerance, path, depth)
  local where = path == "" and "" or ("'%s': "):format(path)
  if type(a) == "table" and type(b) == "table" and depth < DEEPEST then
    for key, value in pairs(b) do
      compare(a[key], value, tolerance, path == "" and tostring(key) or path .. "." .. tostring(key), depth + 1)
    end
    for key in pairs(a) do
      if b[key] == nil then
        check.fail("tperf.check.near: %s'%s' is not expected, got %s", where, tostring(key), check.show(a[key]))
      end
    end
  elseif not (is_number(a) and is_number(b)) then
    if a ~= b or a ~= a then
      check.fail("tperf.check.near: %sgot %s, expected %s", where, check.show(a), check.show(b))
    end
  elseif not is_near(a, b, tolerance) then
    check.fail("tperf.check.near: %sgot %.15g, expected %.15g within %.4g of it; they differ by %.4g of the larger",
      where, a, b, tolerance, math.abs(a - b) / math.max(math.abs(a), math.abs(b)))
  end
end

--- Raises at the script's line unless two numbers differ by no more than a part of the larger, or two tables in that
--- way field by field; anything else must be equal.
---@param a any                what came out
---@param b any                what is expected
---@param tolerance? number    a part, such as 0.01 (1e-9)
function checks.near(a, b, tolerance)
  if tolerance == nil then tolerance = 1e-9 end
  if not is_number(tolerance) or tolerance < 0 then
    check.fail("tperf.check.near: the tolerance must be a number of at least 0, got %s", check.show(tolerance))
  end
  compare(a, b, tolerance, "", 0)
end

--- Raises at the script's line unless a function raises an error with this text in it.
---@param text string
---@param f function
---@param ... any  its arguments
function checks.raises(text, f, ...)
  if type(text) ~= "string" then check.fail("tperf.check.raises needs a text, got %s", check.show(text)) end
  local ok, message = check.attempt(f, ...)
  if ok then check.fail("tperf.check.raises: no error, expected one with '%s'", text) end
  if not tostring(message):find(text, 1, true) then
    check.fail("tperf.check.raises: got '%s', expected an error with '%s'", tostring(message), text)
  end
end

--- Counts what the blocks of a model make, and compares it with what the model's description says, of which the
--- library's blocks and launch files are made.
---@param value string|table  a model: its name, its file or a table
---@return tperf.checked
local function count(_, value) return require "tperf.question.model_check".run(value) end

return setmetatable(checks, { __call = count })
