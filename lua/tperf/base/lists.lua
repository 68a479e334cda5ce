--- Lists.
local lists = {}

--- Whether a list has a value.
---@param list any[]
---@param value any
---@return boolean
function lists.has(list, value)
  for _, one in ipairs(list) do
    if one == value then return true end
  end
  return false
end

--- The items that are accepted, in their order.
---@param list any[]
---@param accept fun(item: any, i: integer): any
---@return any[]
function lists.where(list, accept)
  local found = {}
  for i, item in ipairs(list) do
    if accept(item, i) then found[#found + 1] = item end
  end
  return found
end

return lists
