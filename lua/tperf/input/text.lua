--- Reads text files in UTF-8, with or without a byte order mark.
local check = require "tperf.base.check"
local core = require "tperf.core"

local text = {}

local MOST_BYTES <const> = 256 << 20
local BLOCK_BYTES <const> = 1 << 16

local pipes = {} -- path -> what came through it: commands read a table more than once, and a pipe gives it once

-- The rest of an open file. Raises if it cannot be read, or is too long.
local function rest_of(file, path)
  local content, problem = core.file.rest(file, MOST_BYTES)
  if not content then check.fail("%s: %s", path, problem) end
  if #content > MOST_BYTES then check.fail("%s: more than %d MiB", path, MOST_BYTES >> 20) end
  return content
end

-- The open file; or nil and the content of what can be read only once. beside: no pipe, since not the user named it.
local function open(path, beside)
  if pipes[path] then return nil, pipes[path] end
  local file, message = core.file.open(path, not beside)
  if not file then check.fail("%s", message) end
  if file:seek "set" then return file end
  local pipe <close> = file
  pipes[path] = rest_of(pipe, path)
  return nil, pipes[path]
end

-- The start of a file without its byte order mark.
local function unmarked(content, path)
  local mark = content:sub(1, 2)
  if mark == "\xFF\xFE" or mark == "\xFE\xFF" then check.fail("%s: is UTF-16 text; save it as UTF-8", path) end
  return content:sub(1, 3) == "\xEF\xBB\xBF" and content:sub(4) or content
end

--- A text without the blanks at its ends. "^%s*(.-)%s*$" and gsub "%s+$" are quadratic in a long run of blanks.
---@param content string
---@return string
function text.trim(content)
  local from = content:find "%S"
  return from and content:match("^.*%S", from) or ""
end

--- The content of a file. Raises at the user's line.
---@param path string
---@param beside boolean?  another file leads to it, not the user: it must be a regular one
---@return string
function text.read(path, beside)
  local opened, content = open(path, beside)
  local file <close> = opened
  return unmarked(content or rest_of(file, path), path)
end

--- The bytes of a file; 0 for a folder.
---@param path string
---@return integer
function text.size(path)
  local opened, content = open(path)
  local file <close> = opened
  local size = content and #content or file:seek "end" or 0
  return size < math.maxinteger and size or 0
end

--- A to-be-closed value that forgets, even after an error, what came through a pipe: the next reading is of what comes
--- then.
---@param path string
---@return table
function text.reading(path)
  return setmetatable({}, { __close = function() pipes[path] = nil end })
end

-- A function that returns a text's next block, nil after the last.
local function blocks_of(content)
  local at = 1
  return function()
    local block = content:sub(at, at + BLOCK_BYTES - 1)
    at = at + BLOCK_BYTES
    return block ~= "" and block or nil
  end
end

local function blocks_from(file, path)
  return function()
    local block, problem = file:read(BLOCK_BYTES)
    if problem then check.fail("%s: %s", path, problem) end
    return block
  end
end

--- Calls use(next_block) with a function that returns the file's next block, nil after the last.
---@param path string
---@param use fun(next_block: fun(): string?): any
---@param beside boolean?  as for text.read
---@return any …  what use returns
function text.with_blocks(path, use, beside)
  local opened, content = open(path, beside)
  local file <close> = opened
  local next_block, first = file and blocks_from(file, path) or blocks_of(content), true
  return use(function()
    local block = next_block()
    if not block or not first then return block end
    first = false
    return unmarked(block, path)
  end)
end

local LONGEST_LINE <const> = 16 << 20

--- Calls visit(line, number) for each line of a file, however many: only one block of it is in memory.
---@param path string
---@param visit fun(line: string, number: integer)
function text.each_line(path, visit)
  text.with_blocks(path, function(next_block)
    local pieces, length, number = {}, 0, 1 -- of the current line
    for block in next_block do
      local from = 1
      for last, after in block:gmatch "()\n()" do
        pieces[#pieces + 1] = block:sub(from, last - 1)
        visit(table.concat(pieces), number)
        pieces, length, number, from = {}, 0, number + 1, after
      end
      pieces[#pieces + 1], length = block:sub(from), length + #block - from + 1
      if length > LONGEST_LINE then
        check.fail("%s:%d: a line of more than %d MiB", path, number, LONGEST_LINE >> 20)
      end
    end
    visit(table.concat(pieces), number)
  end)
end

return text
