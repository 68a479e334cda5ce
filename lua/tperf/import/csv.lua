--- Reads comma-separated values (RFC 4180) whose first line names the columns.
local io = io -- scripts may lose it
local check = require "tperf.check"

local csv = {}

local MOST_BYTES = 256 << 20

-- One record from position `at`: its fields, and the position and line after it.
local function record(text, at, line)
  local fields = {}
  while true do
    local value
    if text:sub(at, at) == '"' then
      local pieces, stop = {}, at + 1
      while true do
        local quote = text:find('"', stop, true)
        if not quote then return nil, line end
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
      if text:sub(at, at) == "\n" then at = at + 1 elseif at <= #text and next_byte ~= "\r" then return nil, line end
      return fields, line + 1, at
    end
  end
end

--- The rows of a text as tables by column, each with `line`, where it starts. Raises at the user's line.
---@param text string
---@param name string  for messages
---@return table[] rows
---@return string[] columns
function csv.parse(text, name)
  if text:sub(1, 3) == "\xEF\xBB\xBF" then text = text:sub(4) end
  local rows, columns, at, line = {}, nil, 1, 1
  while at <= #text do
    local fields, after, stop = record(text, at, line)
    if not fields then check.fail("%s:%d: a quoted field does not end where a comma or a line end is", name, after) end
    if not columns then
      columns = fields
    elseif #fields > 1 or fields[1] ~= "" then -- an empty line is no row
      if #fields > #columns then
        check.fail("%s:%d: %d fields, but the first line names %d columns", name, line, #fields, #columns)
      end
      local row = { line = line }
      for i, column in ipairs(columns) do row[column] = fields[i] or "" end
      rows[#rows + 1] = row
    end
    at, line = stop, after
  end
  if not columns then check.fail("%s: no line that names the columns", name) end
  return rows, columns
end

--- The text of a file. Raises at the user's line.
---@param path string
---@return string
function csv.text(path)
  local file, message = io.open(path, "rb")
  if not file then check.fail("%s", message) end
  local text, problem = file:read(MOST_BYTES + 1)
  file:close()
  if problem then check.fail("%s: %s", path, problem) end -- of a folder
  if text and #text > MOST_BYTES then check.fail("%s: more than %d MiB", path, MOST_BYTES >> 20) end
  return text or ""
end

--- The rows of a file; see csv.parse.
---@param path string
function csv.read(path)
  return csv.parse(csv.text(path), path)
end

return csv
