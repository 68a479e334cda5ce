--- Keeps the host program's locale out of the library. Lua itself reads and prints numbers, orders strings and knows
--- letters by the locale of the thread: after os.setlocale "de_DE" 1.5 is printed as 1,5, in JSON, too. So whatever a
--- script calls runs in the locale "C", and the script's own is put back when it returns.
local core = require "tperf.core"

local getinfo, getmetatable = debug.getinfo, debug.getmetatable -- scripts may lose them

local neutral = {}

local is_plain, enter, leave = core.locale.is_plain, core.locale.enter, core.locale.leave

local inside = false -- the library has changed the locale

local function finish(before, done, ...)
  leave(before)
  inside = false
  if not done then error((...), 0) end
  return ...
end

--- Calls a function in the locale "C".
---@param f function
---@return any ...
function neutral.call(f, ...)
  if inside or is_plain() then return f(...) end
  inside = true
  return finish(enter(), pcall(f, ...))
end

local call = neutral.call

local inner = setmetatable({}, { __mode = "k" }) -- a function that neutral.of returned -> what it calls

--- A function that does so.
---@param f any
---@return any f  as it is if it does so already, or is no function of Lua: C's own work needs none
function neutral.of(f)
  if type(f) ~= "function" or inner[f] or getinfo(f, "S").what == "C" then return f end
  local function outer(...) return call(f, ...) end
  inner[outer] = f
  return outer
end

--- What a function of neutral.of calls; any other value as it is. For documentation.
---@param f any
---@return any f
function neutral.inner(f) return inner[f] or f end

local EVENTS <const> = { "__call", "__tostring" }

--- Makes the functions of a table neutral, and the events of its metatable.
---@param methods table
---@return table methods
function neutral.methods(methods)
  for name, f in next, methods do methods[name] = neutral.of(f) end
  local meta = getmetatable(methods)
  for _, event in ipairs(meta and EVENTS or {}) do rawset(meta, event, neutral.of(rawget(meta, event))) end
  return methods
end

return neutral
