--- Tables with named fields.
local tables = {}

--- A copy of a table with some fields changed or added.
---@param base table
---@param changes table
---@return table
function tables.with(base, changes)
  local all = {}
  for name, value in pairs(base) do all[name] = value end
  for name, value in pairs(changes) do all[name] = value end
  return all
end

return tables
