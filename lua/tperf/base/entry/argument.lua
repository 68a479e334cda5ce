--- Arguments that are no table of fields: those taken by position, and lists that functions of scripts return.
local check = require "tperf.base.check"
local lists = require "tperf.base.lists"

local argument = {}

--- Raises unless a value passes.
---@param what string  prefix of the message: the function's name
---@param name string  the argument's
---@param value any
---@param checker fun(value: any, path: string): any, string?
---@return any checked
function argument.of(what, name, value, checker)
  local result, message = checker(value, name)
  if message then check.fail("%s: %s", what, message) end
  return result
end

--- Raises unless a value is a table.
---@param what string
---@param name string
---@param value any
---@param expected string?  "a model of tperf.model"
---@return table value
function argument.table(what, name, value, expected)
  if type(value) == "table" then return value end
  check.fail("%s: '%s' must be %s, got %s", what, name, expected or "a table", check.show(value))
end

--- Raises unless a value is a list without holes; other fields beside do not matter.
---@param what string
---@param name string
---@param value any
---@return integer length
function argument.list(what, name, value)
  local length, hole = lists.measure(argument.table(what, name, value, "a list"))
  if hole then check.fail("%s: " .. lists.HOLE, what, ("%s[%d]"):format(name, hole)) end
  return length
end

return argument
