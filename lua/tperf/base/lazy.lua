--- Tables with fields that are computed on first read: by name, with pairs, or in a report. Stock Lua's
--- `next`, `rawget` and `setmetatable` see only those that were found; scripts' own call __settle first.
local core = require "tperf.core"
local frozen = require "tperf.base.object.frozen"
local neutral = require "tperf.base.entry.neutral"

local lazy = {}

local getmetatable = debug.getmetatable -- ignores __metatable

-- Record -> what finds its fields: { { names = set, find = function() -> fields } … }.
local waiting = setmetatable({}, { __mode = "k" })

--- A field of the metatables of records that lack all their fields: function(record) finds them.
lazy.SETTLE = {}

local SETTLE <const> = lazy.SETTLE

-- Takes one of those that wait, if they are all still there.
local function take(record, list, i)
  table.remove(list, i)
  if #list == 0 then
    waiting[record] = nil
    if getmetatable(record) == lazy.reader then setmetatable(record, nil) end
  end
end

--- Like pairs, but only over the fields that have been found.
---@param record table
function lazy.present(record)
  if waiting[record] then return next, record, nil end
  return pairs(record)
end

local add

-- Finds fields of a record, some of which may then have to wait, too.
local function fill(record, one)
  local found = neutral.call(one.find)
  for name, value in lazy.present(found) do
    if one.names[name] and rawget(record, name) == nil then rawset(record, name, value) end
  end
  for _, more in ipairs(waiting[found] or {}) do add(record, more.names, function() return lazy.settle(found) end) end
end

--- Finds all fields of a record now. A view of an object (base/object/frozen.lua) becomes the object; anything else is
--- returned as it is.
---@param record any
---@return any record
function lazy.settle(record)
  record = frozen.plain(record)
  local meta = getmetatable(record)
  local settle = meta and rawget(meta, SETTLE)
  if settle and settle ~= lazy.settle then settle(record) end
  while waiting[record] do
    local one = waiting[record][1]
    take(record, waiting[record], 1)
    fill(record, one)
  end
  return record
end

-- Finds the field with this name, and those that come with it, if it waits.
local function find(record, name)
  for i, one in ipairs(waiting[record] or {}) do
    if one.names[name] then
      take(record, waiting[record], i)
      fill(record, one)
      return true
    end
  end
end

--- What the metatable of a record that waits must have; tables of another metatable take it over (base/closed.lua).
lazy.reader = {
  __index = function(record, name)
    while find(record, name) do
      local value = rawget(record, name)
      if value ~= nil then return value end
    end
  end,
  __newindex = function(record, name, value)
    while find(record, name) do end -- or it would come back
    rawset(record, name, value)
  end,
  __pairs = function(record) return next, lazy.settle(record), nil end,
  __settle = lazy.settle,
}

--- Lets fields of a record be found when they are read.
---@param record table  its metatable, if it has one, has the fields of lazy.reader
---@param names table<string, true>  of fields that it may have; the same table for all such records
---@param how fun(): table  finds them
function lazy.add(record, names, how)
  local list = waiting[record]
  if not list then
    list = {}
    waiting[record] = list
    if not getmetatable(record) then setmetatable(record, lazy.reader) end
  end
  list[#list + 1] = { names = names, find = how }
end

add = lazy.add

local ANY <const> = setmetatable({}, { __index = function() return true end })

--- A record all of whose fields are found when somebody reads one that it lacks.
---@param how fun(): table  finds them; some may wait on
---@param record table?     with fields that it has from the start
---@return table record
function lazy.record(how, record)
  record = record or {}
  add(record, ANY, how)
  return record
end

--- Records whose fields are unpacked, all at once, when somebody reads one.
---@param bytes string  of core.codec.pack
---@return table[] records
function lazy.packed(bytes)
  local records
  local function unpack()
    if records then core.codec.fill(records, bytes) end
    records = nil
  end
  records = core.codec.rows(bytes, {
    [SETTLE] = unpack, __settle = unpack,
    __index = function(record, name)
      unpack()
      return rawget(record, name)
    end,
    __newindex = function(record, name, value)
      unpack()
      rawset(record, name, value)
    end,
    __pairs = function(record)
      unpack()
      return next, record, nil
    end,
  })
  return records
end

--- Lets fields of a record be found in modules of the library, each of which is loaded when somebody reads its field.
---@param record table
---@param places table<string, string>  field -> "module" or "module field"
---@param wrap? fun(value: any, name: string): any  what the field gets instead
---@return table record
function lazy.from(record, places, wrap)
  for name, place in next, places do
    add(record, { [name] = true }, function()
      local path, field = place:match "^(%S+) ?(.*)$"
      local value = require(path)
      if field ~= "" then
        local module = value
        value = neutral.of(module[field])
        module[field] = value -- the same function, whoever asks
      end
      return { [name] = neutral.of(wrap and wrap(value, name) or value) }
    end)
  end
  return record
end

--- A module of the library that is loaded when somebody first reads a field of it or calls it: for what few questions
--- need. What reads it in another way (pairs, as a metatable) needs the module itself.
---@param name string
---@return table module
function lazy.module(name)
  local meta = {}
  local function load()
    local module = require(name)
    if type(module) == "table" then meta.__index = module end
    meta.__call = function(_, ...) return module(...) end
    return module
  end
  meta.__index = function(_, field) return load()[field] end
  meta.__call = function(_, ...) return load()(...) end
  return setmetatable({}, meta)
end

--- The names of the fields that wait.
---@param record any
---@param names table<string, true>  to which they are added
---@return table<string, true> names
function lazy.waiting(record, names)
  for _, one in ipairs(waiting[record] or {}) do
    for name in pairs(one.names) do names[name] = true end
  end
  return names
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

--- Copies a record's fields that have names into another; those that were not read are found when somebody reads them
--- there.
---@param into table  without a list
---@param record table
function lazy.copy(into, record)
  local list = waiting[record] or {}
  for name, value in lazy.present(record) do into[name] = value end
  for i = 1, rawlen(record) do into[i] = nil end
  for _, one in ipairs(list) do
    lazy.add(into, one.names, function() return lazy.settle(record) end)
  end
end

return lazy
