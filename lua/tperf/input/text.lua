--- Reads a whole text file in UTF-8, with or without a byte order mark.
local io = io -- scripts may lose it
local check = require "tperf.base.check"
local roots = require "tperf.base.roots"

local text = {}

local MOST_BYTES <const> = 256 << 20

--- The content of a file. Raises at the user's line.
---@param path string
---@return string
function text.read(path)
  local file, message = io.open(path, "rb")
  if not file then check.fail("%s", message) end
  local content, problem = roots.rest(file, MOST_BYTES)
  file:close()
  if not content then check.fail("%s: %s", path, problem) end
  if #content > MOST_BYTES then check.fail("%s: more than %d MiB", path, MOST_BYTES >> 20) end
  local mark = content:sub(1, 2)
  if mark == "\xFF\xFE" or mark == "\xFE\xFF" then check.fail("%s: is UTF-16 text; save it as UTF-8", path) end
  return content:sub(1, 3) == "\xEF\xBB\xBF" and content:sub(4) or content
end

return text
