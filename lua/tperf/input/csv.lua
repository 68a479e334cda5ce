--- A reader of comma-separated values (RFC 4180) with a line of headings.
local check = require "tperf.base.check"
local text_file = require "tperf.input.text"

local csv = {}

local MOST_VALUES <const> = 1 << 22 -- rows times columns held at once; some 500 MB
local MOST_RECORD <const> = 16 << 20 -- bytes

-- Parses the record at position `at`: its fields, and the line and position after it; or nil, the line and the error.
local function record(text, at, line)
  local fields = {}
  while true do
    local value
    if text:sub(at, at) == '"' then
      local pieces, stop = {}, at + 1
      while true do
        local quote = text:find('"', stop, true)
        if not quote then return nil, line, "a quoted field has no end" end
        pieces[#pieces + 1] = text:sub(stop, quote - 1)
        at = quote + 1
        if text:sub(at, at) ~= '"' then break end -- a doubled quote stands for one
        stop, pieces[#pieces + 1] = at + 1, '"'
      end
      value = table.concat(pieces)
      for _ in value:gmatch "\n" do line = line + 1 end
    else
      local stop = text:find("[,\r\n]", at) or #text + 1
      value, at = text:sub(at, stop - 1), stop
    end
    fields[#fields + 1] = value
    local next_byte = text:sub(at, at)
    if next_byte == "," then
      at = at + 1
    else
      if next_byte == "\r" then at = at + 1 end
      if text:sub(at, at) == "\n" then
        at = at + 1
      elseif at <= #text and next_byte ~= "\r" then
        return nil, line, "a quoted field does not end where a comma or a line end is"
      end
      return fields, line + 1, at
    end
  end
end

local function check_columns(columns, name, line)
  local seen = {}
  for _, column in ipairs(columns) do
    if seen[column] and column ~= "" then
      check.fail("%s:%d: two columns are called %s", name, line, check.show(column))
    end
    seen[column] = true
  end
end

local function row_of(fields, columns, name, line)
  if #fields > #columns then
    check.fail("%s:%d: %d fields, but the first line names %d columns", name, line, #fields, #columns)
  end
  local row = {}
  for i, column in ipairs(columns) do row[column] = fields[i] or "" end
  row.line = line
  return row
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
    local fields, after, stop
    if at <= #text then fields, after, stop = record(text, at, line) end
    if not ended and (not fields or stop > #text) then -- its end may be in the next block
      more()
    elseif fields then
      if not columns then
        columns = fields
        check_columns(columns, name, line)
      elseif #fields > 1 or fields[1] ~= "" then -- empty lines are skipped
        if visit(row_of(fields, columns, name, line), columns) == false then return columns end
      end
      at, line = stop, after
    elseif at <= #text then
      check.fail("%s:%d: %s", name, after, stop)
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
function csv.read(path)
  return text_file.with_blocks(path, function(next_block) return all(next_block, path) end)
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
