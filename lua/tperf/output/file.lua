--- The one place where the library writes files.
local check = require "tperf.base.check"
local core = require "tperf.core"

local output = {}

--- Fails where a file of that name could not be written: to be asked before work whose result goes there.
---@param path string
function output.check(path)
  local ok, message = core.file.writable(path)
  if not ok then check.fail("%s", message) end
end

--- Writes a file whole: until all of it is on the disk, what is there stays as it is.
---@param path string
---@param content string
---@param what string?  prefix of the message where it cannot be written
function output.write(path, content, what)
  what = what and what .. ": " or ""
  if type(path) ~= "string" or path == "" or path:find "\0" then
    check.fail("%scannot write %s: the name of a file is needed", what, check.show(path))
  end
  -- Looked up now: the sandbox puts its own in place, which writes below the output folder only.
  local ok, message = core.file.write(path, content)
  if not ok then check.fail("%s%s", what, message) end
end

--- Makes a folder and those above it where they are missing. What fails shows when a file is written there.
---@param path string
function output.make_folder(path)
  -- Looked up now, and called so: the sandbox's own raises outside the output folder.
  for above in path:gmatch "()/" do pcall(core.resource.make_folder, path:sub(1, above - 1)) end
  pcall(core.resource.make_folder, path)
end

return output
