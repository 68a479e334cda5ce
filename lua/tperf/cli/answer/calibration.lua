local shared = require "tperf.base.catalogue".shared

--- Warns if no measurement backs a machine's efficiencies. A machine that names no GPU is skipped.
---@param values table  a command's options
return function(values)
  local system = values.system and shared(require "tperf.describe.system")(values.system)
  if not system or not system.accelerator.name then return end
  local rests_on, base = system:calibration()
  if rests_on == "measured" then return end
  io.stdout:flush()
  local words = base and "no kernel of this GPU was timed; its curves are those of " .. base
    or "a datasheet: its peaks are the vendor's, the parts of them that are reached assumed"
  io.stderr:write("tperf: ", system.name, ": ", words, "\n")
end
