local shared = require "tperf.base.catalogue".shared

-- Says whose the price is by which a row's cost was reckoned, unless the user gave it.
local function tell_price(values, system, row)
  local cost, price = row and (row.cost or row.job and row.job.cost), system.price
  if not (cost and (cost.dollars or cost.generated) and price) or values.gpu_hour then return end
  io.stdout:flush()
  io.stderr:write(("tperf: %s: %g dollars a GPU-hour%s; --gpu-hour says another\n"):format(system.name, price.gpu_hour,
    price.source and ": " .. price.source or ""))
end

--- Warns if no measurement backs a machine's efficiencies, and says which price is the machine's. A machine that names
--- no GPU is not warned about.
---@param values table  a command's options
---@param row table?    an answer, perhaps with its cost
return function(values, row)
  local system = values.system and shared(require "tperf.describe.system")(values.system)
  if not system then return end
  tell_price(values, system, row)
  if not system.accelerator.name then return end
  local rests_on, base = system:calibration()
  if rests_on == "measured" then return end
  io.stdout:flush()
  local words = base and "no kernel of this GPU was timed; its curves are those of " .. base
    or "a datasheet: its peaks are the vendor's, the parts of them that are reached assumed"
  io.stderr:write("tperf: ", system.name, ": ", words, "\n")
end
