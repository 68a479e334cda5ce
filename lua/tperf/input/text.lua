--- Reads text files in UTF-8, with or without a byte order mark.
local io = io -- scripts may lose it
local check = require "tperf.base.check"
local roots = require "tperf.base.roots"

local text = {}

local MOST_BYTES <const> = 256 << 20
local BLOCK_BYTES <const> = 1 << 16

local function open(path)
  local file, message = io.open(path, "rb")
  return file or check.fail("%s", message)
end

-- The start of a file without its byte order mark.
local function unmarked(content, path)
  local mark = content:sub(1, 2)
  if mark == "\xFF\xFE" or mark == "\xFE\xFF" then check.fail("%s: is UTF-16 text; save it as UTF-8", path) end
  return content:sub(1, 3) == "\xEF\xBB\xBF" and content:sub(4) or content
end

--- The content of a file. Raises at the user's line.
---@param path string
---@return string
function text.read(path)
  local file <close> = open(path)
  local content, problem = roots.rest(file, MOST_BYTES)
  if not content then check.fail("%s: %s", path, problem) end
  if #content > MOST_BYTES then check.fail("%s: more than %d MiB", path, MOST_BYTES >> 20) end
  return unmarked(content, path)
end

--- Calls use(next_block) with a function that returns the file's next block, nil after the last.
---@param path string
---@param use fun(next_block: fun(): string?): any
---@return any …  what use returns
function text.with_blocks(path, use)
  local file <close> = open(path)
  local first = true
  return use(function()
    local block, problem = file:read(BLOCK_BYTES)
    if problem then check.fail("%s: %s", path, problem) end
    if not block or not first then return block end
    first = false
    return unmarked(block, path)
  end)
end

return text
