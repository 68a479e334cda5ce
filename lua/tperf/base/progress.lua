--- A progress line on standard error, with the time left. It shows only on a terminal, and only after half a second.
--- `progress.report`, of the library for other programs, is told instead.
local check = require "tperf.base.check"
local core = require "tperf.core"
local wording = require "tperf.base.wording"

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
  if progress.report then return progress.report end
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

--- A progress line for a loop of one's own, on standard error, with the time left; where that is no terminal it shows
--- nothing.
---@param total integer  steps of the loop
---@param label? string  before the line ("tperf")
---@return fun(done?: integer)  call it with the steps done so far; without, to end the line
function progress.own(total, label)
  if type(total) ~= "number" or total <= 0 then
    check.fail("tperf.progress needs the number of steps, got %s", check.show(total))
  end
  if label ~= nil and type(label) ~= "string" then
    check.fail("tperf.progress: the label must be a text, got %s", check.show(label))
  end
  local show = progress.start(wording.visible(label or "tperf"))
  return function(done)
    if done == nil then return show() end
    if type(done) ~= "number" then check.fail("tperf.progress: steps are a number, got %s", check.show(done)) end
    show(math.max(done, 1e-9), total)
  end
end

return progress
