--- The columns of a point in a sweep's database.
local check = require "tperf.base.check"
local lazy = require "tperf.base.lazy"

local LONGEST_NAME <const> = 100 -- bytes
local DEEPEST <const> = 3 -- "memory.total" has 2 parts

local columns = {}

local TYPES <const> = { integer = " INTEGER", float = " REAL", boolean = " BOOLEAN", string = "" } -- "": unconverted

local function kind_of(value) return math.type(value) or type(value) end

local function quote(name) return '"' .. name:gsub('"', '""') .. '"' end

-- Adds the figures of a table and of those in it, by path. At one path, the least nested one counts.
local function flatten(flat, t, prefix, depth)
  local nested = {}
  for name, value in lazy.present(t) do
    local kind = type(name) == "string" and kind_of(value)
    if kind == "table" then
      if depth < DEEPEST and name ~= "result" and value[1] == nil then nested[name] = value end
    elseif TYPES[kind] and value == value then
      local path = prefix .. name
      if flat[path] == nil then flat[path] = value end
    end
  end
  for _, name in ipairs(next(nested) and check.names(nested) or {}) do
    flatten(flat, nested[name], prefix .. name .. ".", depth + 1)
  end
end

-- The arguments that are not in the row.
local function flatten_arguments(args, row)
  local flat = {}
  for name, value in next, args do
    if type(value) == "table" and type(value.name) == "string" then value = value.name end
    if type(name) == "string" and row[name] == nil and TYPES[kind_of(value)] and value == value
      and name ~= "threads" and name ~= "progress" then flat[name] = value end
  end
  return flat
end

-- SQLite treats "Time" and "time" as one column.
local function add_columns(list, seen, flat)
  for _, path in ipairs(check.names(flat)) do
    local name = path:lower() == "id" and "id_" or path
    local lower = name:lower()
    if seen[lower] and seen[lower] ~= path then
      check.fail("tperf.sweep: '%s' and '%s' would be one column of the cache, whose names ignore case; rename one",
        seen[lower], path)
    end
    if #path <= LONGEST_NAME and not path:find "%c" and not seen[lower] then
      seen[lower] = path
      list[#list + 1] = { path = path, lower = lower, quoted = quote(name) }
    end
    list.paths = list.paths + 1
  end
end

-- The values in these columns; nil if the point has others.
local function values_in(list, row, args)
  local values, count = {}, 0
  for i, column in ipairs(list) do
    local value = row[column.path]
    if value == nil then value = args[column.path] end
    if value == nil then return nil end
    values[i] = value
  end
  for _ in next, row do count = count + 1 end
  for _ in next, args do count = count + 1 end
  return count == list.paths and values or nil
end

local usual = { paths = 0 } -- the columns of the last point: most points have the same

--- The figures of a point: those of its row that have been found, and the arguments that are not in the row.
---@param row table
---@param args table
---@return table list    the columns: { path, lower = name in lower case, quoted = name in SQL } each; shared by points
---  in succession that have the same fields
---@return any[] values  in these columns
function columns.of(row, args)
  local flat = {}
  flatten(flat, row, "", 1)
  local others = flatten_arguments(args, flat)
  local values = values_in(usual, flat, others)
  if not values then
    local list, seen = { paths = 0 }, {}
    add_columns(list, seen, flat)
    add_columns(list, seen, others)
    usual, values = list, values_in(list, flat, others)
  end
  return usual, values
end

--- The figures of a row by path, also of the tables in it: "memory.total".
---@param row table
---@return table<string, any>
function columns.flat(row)
  local flat = {}
  flatten(flat, row, "", 1)
  return flat
end

--- A name in SQL.
columns.quote = quote

--- How SQL declares a column for this value.
---@param column table
---@param value any
---@return string
function columns.declare(column, value) return column.quoted .. TYPES[kind_of(value)] end

return columns
