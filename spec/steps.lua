--- Counts the Lua instructions of a call, for specs about work that must not grow: unlike seconds, the count is the
--- same on every machine and in every build.
local steps = {}

local EVERY <const> = 100

--- Calls f and counts the Lua instructions that it runs, to the hundred, in this coroutine.
---@param f fun(): any
---@param most? integer  more than these end the call with an error
---@return integer count
---@return any result  the first one of f's
function steps.count(f, most)
  local count = 0
  local hook, mask, every = debug.gethook()
  debug.sethook(function()
    count = count + EVERY
    if most and count > most then
      debug.sethook()
      error(("more than %d Lua instructions"):format(most), 0)
    end
  end, "", EVERY)
  local outcome = table.pack(pcall(f))
  if hook then debug.sethook(hook, mask, every) else debug.sethook() end
  if not outcome[1] then error(outcome[2], 0) end
  return count, outcome[2]
end

return steps
