--- A reader of comma-separated values (RFC 4180) with a line of headings.
local check = require "tperf.base.check"
local record = require "tperf.core".csv.record
local text_file = require "tperf.input.text"

local csv = {}

local MOST_VALUES <const> = 1 << 22 -- rows times columns held at once; some 500 MB
local MOST_RECORD <const> = 16 << 20 -- bytes

local function check_columns(columns, name, line)
  local seen = {}
  for _, column in ipairs(columns) do
    if seen[column] and column ~= "" then
      check.fail("%s:%d: two columns are called %s", name, line, check.show(column))
    end
    seen[column] = true
  end
end

-- Calls visit(row, columns) for each row of a text that comes in blocks, until it returns false; returns the columns.
-- Holds no more than the block that it reads from and twice the record that it ends in.
local function each(next_block, name, visit)
  local columns, text, at, line, ended = nil, "", 1, 1, false
  -- A record that many blocks share is parsed from its start each time: so the text doubles.
  local function more()
    local size = #text - at + 1
    if size > MOST_RECORD then check.fail("%s:%d: a line of more than %d MiB", name, line, MOST_RECORD >> 20) end
    local pieces, enough = { text:sub(at) }, 2 * size
    repeat
      local block = next_block()
      ended = block == nil
      pieces[#pieces + 1] = block
      size = size + #(block or "")
    until ended or size >= enough
    text, at = table.concat(pieces), 1
  end
  repeat
    local row, count, lines, stop -- or nil, a message and lines
    if at <= #text then row, count, lines, stop = record(text, at, columns) end
    if not ended and (not row or stop > #text) then -- its end may be in the next block
      more()
    elseif row then
      if not columns then
        columns = row
        check_columns(columns, name, line)
      elseif count > #columns then
        check.fail("%s:%d: %d fields, but the first line names %d columns", name, line, count, #columns)
      elseif count > 0 then -- empty lines are skipped
        row.line = line
        if visit(row, columns) == false then return columns end
      end
      at, line = stop, line + lines + 1
    elseif at <= #text then
      check.fail("%s:%d: %s", name, line + lines, count)
    end
  until ended and at > #text
  if not columns then check.fail("%s: no line that names the columns", name) end
  return columns
end

-- All rows, if they are not too many to hold.
local function all(next_block, name)
  local rows = {}
  local columns = each(next_block, name, function(row, columns)
    if (#rows + 1) * #columns > MOST_VALUES then
      check.fail("%s:%d: more than %d values (rows times columns)", name, row.line, MOST_VALUES)
    end
    rows[#rows + 1] = row
  end)
  return rows, columns
end

--- The rows of a text as tables by column, each with `line`, where it starts. Raises at the user's line.
---@param text string
---@param name string  for messages
---@return table[] rows
---@return string[] columns
function csv.parse(text, name)
  return all(function()
    local whole = text
    text = nil
    return whole
  end, name)
end

--- The rows of a file; see csv.parse.
---@param path string
---@param beside boolean?  another file leads to it, not the user: it must be a regular one
function csv.read(path, beside)
  return text_file.with_blocks(path, function(next_block) return all(next_block, path) end, beside)
end

--- Calls visit(row) for each row of a file, however many, until it returns false.
---@param path string
---@param visit fun(row: table): boolean?
---@return string[] columns
function csv.each(path, visit)
  return text_file.with_blocks(path, function(next_block) return each(next_block, path, visit) end)
end

--- The names in the first line of a file.
---@param path string
---@return string[]
function csv.columns(path) return csv.each(path, function() return false end) end

return csv
