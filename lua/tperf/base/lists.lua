--- Lists.
local lists = {}

lists.HOLE = "'%s' is nil: a list has no holes" -- for messages

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

--- At most so many of a list's items, evenly spread: the list itself if it has no more.
---@param list any[]
---@param most integer
---@return any[]
function lists.spread(list, most)
  if #list <= most then return list end
  local few = {}
  for i = 1, most do few[i] = list[1 + (i - 1) * #list // most] end
  return few
end

--- The length of a list, whatever it holds between its ends: Lua's own operator may stop at any hole.
---@param list table
---@return integer length  the largest position that holds something
---@return integer? hole   the first position below it that holds nothing
---@return any stranger    a key that is no position, if there is one
function lists.measure(list)
  local length, count, stranger = 0, 0, nil
  for key in next, list do
    if math.type(key) == "integer" and key >= 1 then
      count = count + 1
      if key > length then length = key end
    else
      stranger = key
    end
  end
  if count == length then return length, nil, stranger end
  local hole = 1
  while rawget(list, hole) ~= nil do hole = hole + 1 end
  return length, hole, stranger
end

return lists
