--- tperf.read: data files of scripts.
local check = require "tperf.base.check"
local core = require "tperf.core"
local csv = require "tperf.input.csv"
local lazy = require "tperf.base.lazy"
local json = lazy.module "tperf.input.json"
local text_file = require "tperf.input.text"
local toml = require "tperf.input.toml"

local WHAT <const> = "tperf.read"

-- The number that a text is, as written in data: not hexadecimal, and not 007, which names something.
local function number_of(text)
  if not text:find "^[+-]?%.?%d" or text:find "^[+-]?0%d" or text:find "[xX]" then return nil end
  return tonumber(text)
end

-- Which columns have nothing but numbers, and gaps.
local function numeric(rows, columns)
  local is = {}
  for _, column in ipairs(columns) do
    local any = false
    is[column] = true
    for _, row in ipairs(rows) do
      local text = row[column] or ""
      if text ~= "" then
        any = true
        if not number_of(text) then is[column] = false break end
      end
    end
    is[column] = is[column] and any
  end
  return is
end

-- The rows of a CSV file with numbers in columns that have nothing else, and nil for empty fields.
local function read_csv(path)
  local read, columns = csv.read(path)
  local is, rows = numeric(read, columns), {}
  for i, from in ipairs(read) do
    local row = {}
    for _, column in ipairs(columns) do
      local text = from[column]
      if text and text ~= "" then row[column] = is[column] and number_of(text) or text end
    end
    rows[i] = row
  end
  return rows, columns
end

local READERS <const> = {
  csv = read_csv,
  json = function(path) return json.decode(text_file.read(path), path) end,
  yaml = function(path)
    local value, message = core.yaml(text_file.read(path), path)
    if value == nil then check.fail("%s: %s", WHAT, message) end
    return value -- without the places of its parts
  end,
  toml = function(path)
    local value, message = toml(text_file.read(path), path)
    if value == nil then check.fail("%s: %s", WHAT, message) end
    return value
  end,
}
READERS.yml = READERS.yaml

--- Reads a file of data: .csv, .json, .yaml (.yml) or .toml. A script in the sandbox reads it as it reads any file, and
--- the manifest of a run lists it.
---@param path string
---@return any value      of .csv: rows by column, with numbers in columns that have nothing but numbers and gaps (007
---  and 0x10 are texts), and nil for empty fields; of others: their content, JSON's null as nil
---@return string[]? columns  of .csv: their names, in the file's order
return function(path)
  if type(path) ~= "string" then check.fail("%s needs a file's name, got %s", WHAT, check.show(path)) end
  local ending = (path:match "%.([^./]*)$" or ""):lower()
  local reader = READERS[ending]
  if not reader then
    check.fail("%s: '%s' must end in .csv, .json, .yaml or .toml, which says how it is read; io.open reads others",
      WHAT, path)
  end
  local value, columns = reader(path)
  return value, ending == "csv" and columns or nil
end
