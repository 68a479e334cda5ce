--- The one place where the library writes files.
local check = require "tperf.check"
local core = require "tperf.core"

local output = {}

local ABSENT <const> = "No such file or directory"

local function refuse(what, path, problem)
  if problem == ABSENT then problem = ABSENT .. " (make the folder first)" end
  check.fail("%scannot write '%s': %s", what, path, problem)
end

--- Fails where a file of that name could not be written: to be asked before work whose result goes there.
---@param path string
function output.check(path)
  local ok, problem = core.file.writable(path)
  if not ok then refuse("", path, problem) end
end

--- Writes a file whole.
---@param path string
---@param content string
---@param what string?  prefix of the message where it cannot be written
function output.write(path, content, what)
  what = what and what .. ": " or ""
  -- Looked up now: the sandbox puts its own in place, which writes below the output folder only.
  local tried, file, message = pcall(io.open, path, "wb")
  if not tried then check.fail("%s%s", what, (tostring(file):gsub("^[^:]*:%d+: ", ""))) end
  if not file then
    local named = path .. ": "
    if message:sub(1, #named) == named then message = message:sub(#named + 1) end
    refuse(what, path, message)
  end
  local ok, problem = file:write(content)
  local closed, late = file:close()
  if not ok or not closed then refuse(what, path, problem or late) end
end

return output
