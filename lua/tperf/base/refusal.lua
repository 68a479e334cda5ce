--- Refusals: errors that say why a configuration is infeasible, as opposed to errors in the arguments. A sweep, or a
-- table of several configurations, shows a refusal as a row with its reason; anywhere else it is an ordinary error.
local check = require "tperf.base.check"

local refusal = {}

local last = {} -- the last refusal raised: its message, and its reason without prefix and position

--- Raises at the user's line.
---@param format string
function refusal.raise(format, ...)
  local text = check.worded(format, ...)
  last.text, last.message, last.reason = text, check.where() .. text, text:gsub("^tperf%.[%w_.:]-: ", "")
  error(last.message, 0)
end

--- What a refusal says, without its position, to be raised again; nil: another error.
---@param message any  of the last error
---@return string?
function refusal.text_of(message) return message == last.message and message ~= nil and last.text or nil end

local function unless_failed(ok, message, ...)
  if ok then return message, ... end
  local place = check.where()
  if type(message) == "string" and message:sub(1, #place) == place then refusal.raise("%s", message:sub(#place + 1)) end
  error(message, 0)
end

--- Calls a function of the core and turns its error, which can only be about these arguments, into a refusal.
---@param f function
function refusal.of(f, ...) return unless_failed(pcall(f, ...)) end

local function unless_refused(ok, message, ...)
  if ok then return message, ... end
  if message ~= last.message then error(message, 0) end
  return nil, last.reason
end

--- Returns what f(...) returns, or nil and the reason if it refuses. Other errors are raised again.
---@param f function
function refusal.attempt(f, ...) return unless_refused(pcall(f, ...)) end

return refusal
