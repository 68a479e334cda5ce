--- Records some of whose fields are found when somebody reads them: by name, with pairs, or in a report. `next` of
--- stock Lua sees only those that were found.
local lazy = {}

-- Record -> what finds its fields: { { names = set, find = function() -> fields } … }.
local waiting = setmetatable({}, { __mode = "k" })

local function fill(record, one)
  for name, value in pairs(one.find()) do
    if one.names[name] and rawget(record, name) == nil then rawset(record, name, value) end
  end
end

-- Takes one of those that wait, if they are all still there.
local function take(record, list, i)
  table.remove(list, i)
  if #list == 0 then
    waiting[record] = nil
    setmetatable(record, nil)
  end
end

--- Finds all fields of a record now; anything else is returned as it is.
---@param record any
---@return any record
function lazy.settle(record)
  local list = waiting[record]
  while list and #list > 0 do
    local one = list[1]
    take(record, list, 1)
    fill(record, one)
  end
  return record
end

local READER <const> = {
  __index = function(record, name)
    local list = waiting[record]
    for i, one in ipairs(list or {}) do
      if one.names[name] then
        take(record, list, i)
        fill(record, one)
        return rawget(record, name)
      end
    end
  end,
  __pairs = function(record) return next, lazy.settle(record), nil end,
}

--- Lets fields of a record be found when they are read.
---@param record table  without a metatable of its own
---@param names table<string, true>  of fields that it may have; the same table for all such records
---@param find fun(): table  what they are
function lazy.add(record, names, find)
  local list = waiting[record]
  if not list then
    list = {}
    waiting[record] = list
    setmetatable(record, READER)
  end
  list[#list + 1] = { names = names, find = find }
end

--- Whether nobody has read this field yet; then it is not found any more, and others that come with it are not either.
---@param record any
---@param name string
---@return boolean
function lazy.forget(record, name)
  for i, one in ipairs(waiting[record] or {}) do
    if one.names[name] then
      take(record, waiting[record], i)
      return true
    end
  end
  return false
end

-- The fields that are there.
local function each(record)
  if waiting[record] then return next, record, nil end
  return pairs(record)
end

--- Copies a record's fields that have names into another; those that were not read are found when somebody reads them
--- there.
---@param into table
---@param record table
function lazy.copy(into, record)
  local list = waiting[record] or {}
  for name, value in each(record) do
    if type(name) == "string" then into[name] = value end
  end
  for _, one in ipairs(list) do
    lazy.add(into, one.names, function() return lazy.settle(record) end)
  end
end

return lazy
