-- Lets specs find the standard globals at once, and places of tests without the names of all functions. busted looks
-- every global up in the blocks around it, and has each test's stack traced with names that Lua seeks in all modules:
-- together a third of the time of small specs.
local busted = require "busted"
local getfenv = require "busted.compatibility".getfenv

-- Like debug.traceback, but a frame is a file and a line.
function debug.traceback(message, level) -- luacheck: ignore 122
  local lines = { (message and message .. "\n" or "") .. "stack traceback:" }
  level = (level or 1) + 1
  local frame = debug.getinfo(level, "Sl")
  while frame do
    lines[#lines + 1] = frame.what == "C" and "\t[C]" or ("\t%s:%d"):format(frame.short_src, frame.currentline)
    level = level + 1
    frame = debug.getinfo(level, "Sl")
  end
  return table.concat(lines, "\n")
end

-- Lets an environment of specs find what it has for standard globals at once, as long as no block sets its own.
local function shorten(environment)
  local meta = getmetatable(environment)
  local usual, set, standard = meta.__index, meta.__newindex, {}
  for name in next, _G do standard[name] = usual(environment, name) end
  function meta.__index(self, name)
    local value = standard[name]
    if value ~= nil then return value end
    return usual(self, name)
  end
  function meta.__newindex(self, name, value)
    standard[name] = nil
    set(self, name, value)
  end
end

local shortened = false -- one environment serves all files of a process

busted.subscribe({ "file", "start" }, function(file)
  if not shortened then shorten(getfenv(debug.getmetatable(file.run).__call)) end
  shortened = true
  return nil, true
end)
