--- Facts about schemas of tperf.base.check that are computed once per schema.
local sized = require "tperf.core".resource.sized

local schemas = {}

--- The keys of a map, sorted, for messages and for a fixed order.
---@param map table<string, any>
---@return string[]
function schemas.names(map)
  local names = {}
  for name in pairs(map) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- Memoises a function of one table.
---@param f function
function schemas.once(f)
  local known = setmetatable({}, { __mode = "k" })
  return function(key, ...)
    local value = known[key]
    if value == nil then
      value = f(key, ...)
      known[key] = value
    end
    return value
  end
end

--- The names of a schema's fields, sorted.
schemas.names_of = schemas.once(schemas.names)

--- The set of fields whose checker does something with nil: supplies a default or reports the field as missing.
---@param missing function  check.missing
schemas.asked_of = schemas.once(function(schema, missing)
  local set = {}
  for name, one in pairs(schema) do
    local told = missing(one)
    set[name] = not (told and told.optional and told.default == nil)
  end
  return set
end)

local SCALAR <const> = { number = true, string = true, boolean = true }
local EXACT <const> = { number = true, boolean = true } -- defaults of these kinds are what their checkers return

-- What absent fields become: `values`, the checked defaults that are scalars and therefore the same every time, by
-- name; `asked`, the other fields, whose checkers make a default or report that the field is missing; `count`, of all
-- fields.
local absent_of = schemas.once(function(schema, missing)
  local values, asked, count = {}, {}, 0
  for name, one in next, schema do
    local told, value = missing(one), nil
    count = count + 1
    local default = told and told.default
    if EXACT[type(default)] then
      value = default
    elseif default ~= nil then
      local made, message = one(nil, name)
      if not message and SCALAR[type(made)] then value = made end
    end
    if value ~= nil then
      values[name] = value
    elseif not told or told.default ~= nil or not told.optional then
      asked[#asked + 1] = name
    end
  end
  return { values = values, asked = asked, count = count }
end)

--- The checked copy of a table that nothing is wrong with, in no order; nil: something is.
function schemas.sound(value, schema, missing)
  local absent = absent_of(schema, missing)
  local copy = sized(absent.count)
  for name, default in next, absent.values do copy[name] = default end
  for name, given in next, value do
    local one = schema[name]
    if not one then return nil end
    local field, message = one(given, name)
    if message then return nil end
    copy[name] = field
  end
  local asked = absent.asked
  for i = 1, #asked do
    local name = asked[i]
    if copy[name] == nil and rawget(value, name) == nil then
      local field, message = schema[name](nil, name)
      if message then return nil end
      copy[name] = field
    end
  end
  return copy
end

return schemas
