--- Rows of a table that are one answer: equal time and memory, and different in one column alone, such as ZeRO stages
--- of a single replica. They share a row, whose value in that column is "0 to 3".
local at = require "tperf.output.columns".at

local FIGURES <const> = { "time", "memory.total" }

local function equal_figures(a, b)
  for _, path in ipairs(FIGURES) do
    if at(a, path) == nil or at(a, path) ~= at(b, path) then return false end
  end
  return true
end

local function value_of(row, column)
  if type(column.key) == "function" then return column.key(row) end
  return at(row, column.key)
end

-- The only column in which two rows differ: a plain field; nil if there is none, or there are several.
local function difference(a, b, columns)
  local found
  for _, column in ipairs(columns) do
    if not column.csv and value_of(a, column) ~= value_of(b, column) then
      local plain = type(column.key) == "string" and not column.key:find(".", 1, true)
      if found or not plain then return nil end
      found = column.key
    end
  end
  return found
end

-- "0 to 3", "1, 4", "1f1b, gpipe"
local function words_of(values)
  table.sort(values)
  local whole = math.type(values[1]) == "integer" and values[#values] - values[1] == #values - 1
  if whole and #values > 2 then return ("%d to %d"):format(values[1], values[#values]) end
  for i, value in ipairs(values) do values[i] = tostring(value) end
  return table.concat(values, ", ")
end

local function same_type(values, value)
  return (type(value) == "number" or type(value) == "string") and type(value) == type(values[1])
end

--- The rows with those that are one answer as one.
---@param rows table[]  the best first
---@param columns tperf.Column[]
---@return table[] rows, boolean merged
return function(rows, columns)
  local groups = {}
  for _, row in ipairs(rows) do
    local last = groups[#groups]
    local key = last and equal_figures(last.row, row) and difference(last.row, row, columns)
    local joins = key and (last.key or key) == key and same_type(last.values or { last.row[key] }, row[key])
    if joins then
      last.key, last.values = key, last.values or { last.row[key] }
      last.values[#last.values + 1] = row[key]
    else
      groups[#groups + 1] = { row = row }
    end
  end
  local list, merged = {}, false
  for i, group in ipairs(groups) do
    list[i] = group.row
    if group.key then
      merged, list[i] = true, {}
      for name, value in pairs(group.row) do list[i][name] = value end
      list[i][group.key] = words_of(group.values)
    end
  end
  return list, merged
end
