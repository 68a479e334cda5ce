--- The one place where the library writes files.
local check = require "tperf.check"
local core = require "tperf.core"

local output = {}

local ABSENT <const> = "No such file or directory"

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
    if message == ABSENT then message = ABSENT .. " (make the folder first)" end
    check.fail("%scannot write '%s': %s", what, path, message)
  end
  local ok, problem = file:write(content)
  local closed, late = file:close()
  if not ok or not closed then check.fail("%scannot write '%s': %s", what, path, problem or late) end
end

--- Makes a folder and those above it where they are missing. What fails shows when a file is written there.
---@param path string
function output.make_folder(path)
  -- Looked up now, and called so: the sandbox's own raises outside the output folder.
  for above in path:gmatch "()/" do pcall(core.resource.make_folder, path:sub(1, above - 1)) end
  pcall(core.resource.make_folder, path)
end

return output
