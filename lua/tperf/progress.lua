--- A progress line on standard error: only on a terminal, only once the work has taken half a second.
local core = require "tperf.core"

local progress = {}

local WAIT <const>, REDRAW <const> = 0.5, 0.1 -- seconds

--- Starts a line. Call the result with (done, total) as the work goes on, and without arguments at its end.
---@param label string
---@return fun(done?: number, total?: number)
function progress.start(label)
  if not core.is_terminal(2) then return function() end end
  local due, shown = core.clock() + WAIT, false
  return function(done, total)
    if not done then
      if shown then io.stderr:write "\r\27[K" end
      shown, due = false, math.huge
      return
    end
    local now = core.clock()
    if now < due then return end
    due, shown = now + REDRAW, true
    local part = total and total > 0 and ("%3.0f %%"):format(100 * done / total) or tostring(done)
    io.stderr:write("\r", label, " ", part, "\27[K")
  end
end

return progress
