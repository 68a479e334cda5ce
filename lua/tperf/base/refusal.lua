--- Refusals: errors that say why a configuration cannot be, as against arguments that make no sense. A sweep, or a
-- table of several configurations, shows a refusal as a row with its reason; alone it is an error like any other.
local check = require "tperf.base.check"

local refusal = {}

local last = {} -- the refusal raised last: its message, and the reason without who says it and the user's line

--- Raises at the user's line.
---@param format string
function refusal.raise(format, ...)
  local text = check.worded(format, ...)
  last.message, last.reason = check.where() .. text, text:gsub("^tperf%.[%w_.:]-: ", "")
  error(last.message, 0)
end

--- What f(...) returns, a function of the core that has nothing but these arguments to say no to.
---@param f function
function refusal.of(f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local place, message = check.where(), results[2]
  if type(message) == "string" and message:sub(1, #place) == place then refusal.raise("%s", message:sub(#place + 1)) end
  error(message, 0)
end

--- What f(...) returns; nil and the reason where it refuses. Other errors are raised again.
---@param f function
function refusal.attempt(f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  if results[2] ~= last.message then error(results[2], 0) end
  return nil, last.reason
end

return refusal
