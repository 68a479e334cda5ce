--- What a command's answer is about: rows printed as JSON or CSV name their model, system and version beside the
--- software, so that they can be put beside those of other runs.
local core = require "tperf.core"

local subject = {}

local NAMES <const> = { "model", "system", "version" }

-- Rows of ops, stages, requests or steps are parts of an answer, and name nothing.
local function is_answer(row)
  return row.software ~= nil or row.throughput ~= nil or row.bus_bandwidth ~= nil or row.samples_per_second ~= nil
end

-- Of an object, or of its name; a launch file's model may have none.
local function name_of(value)
  if type(value) == "table" then return value.name end
  return value
end

--- Sets `model`, `system` and `version` of rows that have none.
---@param values table  the command's options; `asked`: its arguments, of which the first is a model
---@param rows table[]
---@return table[] columns  those to add to a table
function subject.into(values, rows)
  local columns = {}
  local names = { model = values.asked and name_of(values.asked[1]), system = name_of(values.system),
    version = core.version }
  for _, row in ipairs(rows) do
    for _, name in ipairs(is_answer(row) and NAMES or {}) do
      if row[name] == nil then rawset(row, name, names[name]) end
    end
  end
  for i, name in ipairs(rows[1] and is_answer(rows[1]) and NAMES or {}) do columns[i] = { key = name } end
  return columns
end

return subject
