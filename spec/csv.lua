-- Reads the reference tables of spec/data: a header row, then records { column = text }.
local csv = {}

local function split(line)
  local fields, at = {}, 1
  repeat
    local quoted, after = line:match('^"([^"]*)"()', at)
    if quoted then
      while line:sub(after, after) == '"' do -- a doubled quote: the field goes on
        local more, stop = line:match('^"([^"]*)"()', after)
        quoted, after = quoted .. '"' .. more, stop
      end
    else
      quoted, after = line:match("^([^,]*)()", at)
    end
    fields[#fields + 1], at = quoted, after + 1
  until after > #line
  return fields
end

local function rows_of(lines)
  local rows, header = {}, nil
  for line in lines do
    local fields = split(line)
    if not header then
      header = fields
    else
      local row = {}
      for i, name in ipairs(header) do row[name] = fields[i] or "" end
      rows[#rows + 1] = row
    end
  end
  return rows
end

---@param path string
---@return table[]
function csv.rows(path) return rows_of(io.lines(path)) end

--- The same from text.
function csv.parse(text) return rows_of(text:gmatch "[^\n]+") end

return csv
