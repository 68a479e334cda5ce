--- Custom strategies and schedules: their code is the script's, so that a name does not identify it, and other
--- processes do not have it.
local debug = debug
local check = require "tperf.base.check"
local axes = require "tperf.describe.strategy.axes"
local schedule = require "tperf.describe.schedule"
local several = require "tperf.describe.strategy.several"

local function is_own(f) return not check.is_library(debug.getinfo(f, "S").source) end

--- Returns which argument of a question is the script's own code, and its name.
---@param args table
---@return "strategy"|"schedule"|nil what
---@return string? name
return function(args)
  for _, s in ipairs(args.strategy ~= nil and several(args.strategy) or { axes.asked(args) }) do
    if not s.built_in then return "strategy", s.name end
  end
  local wanted = type(args.schedule) == "table" and args.schedule or { args.schedule }
  if wanted[1] == "any" then wanted = schedule.names() end
  local known = {}
  for _, name in ipairs(schedule.names()) do known[name] = true end
  for _, name in ipairs(wanted) do
    local order = known[name] and schedule.get(name).order
    if order and is_own(order) then return "schedule", name end
  end
end
