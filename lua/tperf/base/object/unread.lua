--- Objects that nobody has read yet. To know that a script has not changed an object takes a walk over its fields, at
--- every question; an empty table, whose fields come when the first of them is read, has none.
local unread = {}

local inside = setmetatable({}, { __mode = "k" }) -- table -> the object that it stands for, until somebody reads it

--- A table that stands for an object.
---@param object table  which nobody else has
---@return table handle  with the object's metatable, which calls open
function unread.new(object)
  local handle = setmetatable({}, getmetatable(object))
  inside[handle] = object
  return handle
end

--- The object that a table stands for, if nobody has read or written a field; do not hand it to scripts.
---@param handle any
---@return table? object
function unread.object(handle)
  local object = inside[handle]
  return object and next(handle) == nil and object or nil
end

local function copy_of(value)
  if type(value) ~= "table" then return value end
  local copy = setmetatable({}, getmetatable(value))
  for key, part in next, value do copy[key] = copy_of(part) end
  return copy
end

--- Gives a table that stands for an object copies of its fields, except those that were set already.
---@param handle table
---@return table? object  if nothing was set
function unread.open(handle)
  local object, untouched = inside[handle], unread.object(handle)
  inside[handle] = nil
  for key, value in next, object or {} do
    if rawget(handle, key) == nil then rawset(handle, key, copy_of(value)) end
  end
  return untouched
end

--- Whether a field can come from the object that a table stands for.
---@param handle table
---@param key any
---@return boolean
function unread.has(handle, key)
  local object = inside[handle]
  return object ~= nil and rawget(object, key) ~= nil
end

return unread
