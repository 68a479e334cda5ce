--- Chooses the columns of a table to show.
local at = require "tperf.output.columns".at

local shown = {}

-- Whether any row has a value in the column, and whether any has an unusual one.
local function present(rows, column)
  local some, unusual = #rows == 0, #rows == 0 or column.usual == nil
  for _, row in ipairs(rows) do
    if some and unusual then break end
    local value = type(column.key) ~= "function" and at(row, column.key)
    if type(column.key) == "function" then value = column.key(row) end
    some = some or value ~= nil
    unusual = unusual or value ~= nil and value ~= column.usual
  end
  return some, unusual
end

local function plain(column)
  local copy = {}
  for name, value in pairs(column) do copy[name] = value end
  copy.usual, copy.csv = nil, nil
  return copy
end

--- The columns that some row has; without `all`, only those in which some row differs from the `usual` value.
---@param rows table[]
---@param columns tperf.Column[]  with usual, and csv: only shown with `all`
---@param all boolean?
---@param usual boolean?  also those where every row has the usual value
---@return tperf.Column[]
function shown.columns(rows, columns, all, usual)
  local wanted = {}
  for _, column in ipairs(columns) do
    local some, unusual = present(rows, column)
    if some and (all or (unusual or usual) and not column.csv) then wanted[#wanted + 1] = plain(column) end
  end
  return wanted
end

return shown
