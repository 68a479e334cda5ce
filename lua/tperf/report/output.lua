--- The one place where reports and plots touch files.
local check = require "tperf.check"

local output = {}

--- Writes a file whole.
---@param path string
---@param content string
function output.write(path, content)
  -- Looked up now: the sandbox puts its own in place, which writes below the output folder only.
  local tried, file, message = pcall(io.open, path, "wb")
  if not tried then check.fail("%s", (tostring(file):gsub("^[^:]*:%d+: ", ""))) end
  if not file then check.fail("cannot write '%s': %s", path, message) end
  local ok, problem = file:write(content)
  local closed, late = file:close()
  if not ok or not closed then check.fail("cannot write '%s': %s", path, problem or late) end
end

return output
