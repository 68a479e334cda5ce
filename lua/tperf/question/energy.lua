--- The power that a GPU draws on average in a training step: its limit while a kernel of it computes, less while it
--- waits for others, for messages or for the host.
local check = require "tperf.base.check"

local energy = {}

local seconds = check.number { min = 0, max = 1e300 }

--- The parts of an iteration in which kernels compute; in the others a GPU waits or communicates. name -> checker
energy.parts = { compute = seconds, memory = seconds, optimizer = seconds }
local COMPUTES <const> = check.names(energy.parts)

-- An assumption: a GPU that waits, with its clocks up and its memory in use, draws a quarter of its limit.
local WAITING_PART <const> = 0.25

--- The argument of questions about energy.
energy.field = check.number { min = 0, max = 1e9, unit = "W", optional = true }

--- Whether a row's breakdown has all these parts: a sweep may have kept some of its fields.
function energy.tells(breakdown)
  if type(breakdown) ~= "table" then return false end
  for _, name in ipairs(COMPUTES) do
    if breakdown[name] == nil then return false end
  end
  return true
end

--- Watts of a GPU on average.
---@param breakdown table?  seconds of the parts of an iteration; without it a GPU computes all the time
---@param time number?      seconds of the iteration
---@param limit number      watts, the board's limit
---@param waiting number?   watts while it waits; a quarter of the limit if not given
---@return number watts
function energy.watts(breakdown, time, limit, waiting)
  if not (breakdown and time) then return limit end
  local computes = 0.0
  for _, name in ipairs(COMPUTES) do computes = computes + (breakdown[name] or 0.0) end
  local part = math.min(computes / time, 1.0)
  local least = math.min(waiting or WAITING_PART * limit, limit)
  return least + (limit - least) * part
end

return energy
