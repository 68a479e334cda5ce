--- A progress line on standard error, with the time left. It shows only on a terminal, and only after half a second.
local core = require "tperf.core"

local progress = {}

-- "about 3 min left", extrapolated from the speed so far.
local function time_left(elapsed, done, total)
  local seconds = elapsed / done * (total - done)
  if seconds < 90 then return (", %.0f s left"):format(seconds) end
  if seconds < 90 * 60 then return (", %.0f min left"):format(seconds / 60) end
  return (", %.1f h left"):format(seconds / 3600)
end

local WAIT <const>, REDRAW <const> = 0.5, 0.1 -- seconds

--- Starts a progress line. Call the result with (done, total) as the work proceeds, and without arguments to end it.
---@param label string
---@return fun(done?: number, total?: number)
function progress.start(label)
  if not core.is_terminal(2) then return function() end end
  local start, shown = core.clock(), false
  local due = start + WAIT
  return function(done, total)
    if not done then
      if shown then io.stderr:write "\r\27[K" end
      shown, due = false, math.huge
      return
    end
    local now = core.clock()
    if now < due then return end
    due, shown = now + REDRAW, true
    local part = tostring(done)
    if total and total > 0 and done > 0 then
      part = ("%3.0f %%%s"):format(100 * done / total, time_left(now - start, done, total))
    end
    io.stderr:write("\r", label, " ", part, "\27[K")
  end
end

return progress
