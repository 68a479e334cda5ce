--- The one place where reports and plots touch files.
local check = require "tperf.check"

-- Taken when the library is loaded; what a sandbox allows to be written is decided by the program's own open.
local open = io.open

local output = {}

--- Writes a file whole.
---@param path string
---@param content string
function output.write(path, content)
  local file, message = open(path, "wb")
  if not file then check.fail("cannot write '%s': %s", path, message) end
  local ok, problem = file:write(content)
  local closed, late = file:close()
  if not ok or not closed then check.fail("cannot write '%s': %s", path, problem or late) end
end

return output
