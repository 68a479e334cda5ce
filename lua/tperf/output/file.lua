--- Writing files. Nothing else in the library does.
local check = require "tperf.base.check"
local core = require "tperf.core"

local output = {}

local MISSING <const> = "No such file or directory"

--- What f() returns; again, once the folders of a path are made, if they were missing. Those of an absolute path are
--- the user's: they must be there. So must those of a name without an ending, which scripts cannot write.
---@param path string
---@param f fun(): any, string?, ...
function output.in_folder(path, f)
  local value, message, code = f()
  local folder = not value and type(message) == "string" and message:find(MISSING, 1, true)
    and path:match "^(.*[^/])/+[^/]+%.%w+$"
  if not folder or folder:sub(1, 1) == "/" or not pcall(output.make_folder, folder) then return value, message, code end
  return f()
end

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
  local ok, message = output.in_folder(path, function() return core.file.write(path, content) end)
  if not ok then check.fail("%s%s", what, message) end
end

--- Makes a folder and its missing parents, unless they are there. Raises if that fails, with the reason.
---@param path string
---@param what string?  prefix of the error message
function output.make_folder(path, what)
  what = what and what .. ": " or ""
  if path == "" or path:find "\0" then
    check.fail("%scannot make the folder %s: the name of a folder is needed", what, check.show(path))
  end
  local problem -- why the outermost of the missing ones cannot be made; those that are out of reach may be there
  for last in (path .. "/"):gmatch "[^/]()/" do
    -- Looked up at each call, as above.
    local made, message = core.resource.make_folder(path:sub(1, last - 1))
    problem = not made and (problem or message) or nil
  end
  if problem then check.fail("%s%s", what, problem) end
end

return output
