--- Writing files. Nothing else in the library does.
local check = require "tperf.base.check"
local core = require "tperf.core"

local output = {}

--- Raises if a file of that name could not be written. Call it before the work whose result goes there.
---@param path string
function output.check(path)
  local ok, message = core.file.writable(path)
  if not ok then check.fail("%s", message) end
end

--- Writes a file atomically: an existing file stays until the new one is complete on disk.
---@param path string
---@param content string
---@param what string?  prefix of the error message
function output.write(path, content, what)
  what = what and what .. ": " or ""
  if type(path) ~= "string" or path == "" or path:find "\0" then
    check.fail("%scannot write %s: the name of a file is needed", what, check.show(path))
  end
  -- Looked up at each call, because the sandbox replaces it with one that writes only below the output folder.
  local ok, message = core.file.write(path, content)
  if not ok then check.fail("%s%s", what, message) end
end

--- Makes a folder and its missing parents. A failure shows when a file is written there.
---@param path string
function output.make_folder(path)
  -- Looked up at each call, as above; the sandbox's version raises outside the output folder.
  for above in path:gmatch "()/" do pcall(core.resource.make_folder, path:sub(1, above - 1)) end
  pcall(core.resource.make_folder, path)
end

return output
