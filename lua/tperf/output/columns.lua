--- Rows and columns, as every report writer takes them: rows are records, possibly nested.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"

local columns = {}

--- A column of a table.
---@class tperf.Column
---@field key string|fun(row: table): any  a field's name, a path such as "memory.total", or a function of the row
---@field title? string                    heading for people (default: the key)
---@field unit? string    what the number is in: "bytes", "s", "FLOP/s", "W", "$", "%" (of a fraction) …
---@field format? string|fun(value: any): string  how people see the value: a string.format pattern or a function
---@field digits? integer                  significant digits people see (default 4)
---@field align? "left"|"right"            default: right for numbers, left for the rest

--- The value at a path ("memory.total") of a record: the field of that very name first, then step by step.
---@return any
function columns.at(row, path)
  local value = row[path]
  if value ~= nil then return value end
  if not path:find(".", 1, true) then return row[tonumber(path)] end
  value = row
  for name in path:gmatch "[^.]+" do
    if type(value) ~= "table" then return nil end
    local field = value[name]
    if field == nil then field = value[tonumber(name)] end
    value = field
  end
  if value == row then return nil end
  return value
end

local function is_scalar(value)
  local kind = type(value)
  return kind == "number" or kind == "string" or kind == "boolean"
end

local DEEPEST <const> = 5 -- levels of records within a row

-- The scalar fields of the rows, sorted, because pairs() has no fixed order; nested: those of records within them, too,
-- as paths. All rows are looked at, because a field may be absent from the first.
local function default_columns(rows, nested)
  local names, seen = {}, {}
  local function add(record, prefix, depth)
    for name, value in pairs(record) do
      local path = type(name) == "string" and prefix .. name
      if path and is_scalar(value) and not seen[path] then
        seen[path], names[#names + 1] = true, path
      elseif path and nested and type(value) == "table" and depth < DEEPEST and rawget(value, 1) == nil then
        add(value, path .. ".", depth + 1)
      end
    end
  end
  for _, row in ipairs(rows) do add(row, "", 1) end
  table.sort(names)
  return names
end

--- Names of the fields a row has, nested ones as paths; for "did you mean".
---@return string[]
function columns.names(row, prefix, into)
  into, prefix = into or {}, prefix or ""
  if #into > 500 or #prefix > 200 then return into end
  for name, value in pairs(row) do
    if type(name) == "string" then
      into[#into + 1] = prefix .. name
      if type(value) == "table" then columns.names(value, prefix .. name .. ".", into) end
    end
  end
  table.sort(into)
  return into
end

local schema = {
  key = check.one_of(check.string {}, check.func {}),
  title = check.string { optional = true, empty = true },
  unit = check.string { optional = true },
  format = check.one_of(check.string { optional = true }, check.func {}),
  digits = check.integer { min = 1, max = 17, optional = true },
  align = check.choice { { "left", "right" }, optional = true },
}

local function column_of(given, what, i)
  if type(given) == "string" then given = { key = given } end
  local column = check.record(string.format("%s: column %d", what, i), given, schema)
  local key = column.key
  if type(key) == "function" then
    if not column.title then check.fail("%s: column %d is a function and needs a title", what, i) end
    column.get, column.name = key, column.title
  else
    column.get = function(row) return columns.at(row, key) end
    column.name = key
  end
  column.title = column.title or column.name
  return column
end

--- Checks rows: a list of tables, without holes.
---@param what string  prefix of messages
function columns.check_rows(what, rows)
  if type(rows) ~= "table" then check.fail("%s needs a list of rows, got %s", what, check.show(rows)) end
  local count = 0
  for key in pairs(rows) do
    -- A result has fields besides its rows (candidates, seconds): only integer keys count.
    if type(key) == "number" then count = count + 1 end
  end
  for i = 1, count do
    if type(rows[i]) ~= "table" then
      check.fail("%s: row %d must be a table, got %s", what, i, check.show(rows[i]))
    end
  end
end

--- Checks a list of columns, each a name, a function or a record.
---@param what string  prefix of messages
---@param wanted any
---@return (string|tperf.Column)[] wanted
function columns.check_wanted(what, wanted)
  if type(wanted) ~= "table" then
    check.fail("%s: columns must be a list of names or column records, got %s", what, check.show(wanted))
  end
  argument.list(what, "columns", wanted)
  for i, column in ipairs(wanted) do
    local key = type(column) == "table" and column.key or column
    if type(key) ~= "string" and type(key) ~= "function" then
      check.fail("%s: column %d must be a name, or a record whose 'key' is one or a function, got %s", what, i,
        check.show(column))
    end
    if type(column) == "table" then check.record(("%s: column %d"):format(what, i), column, schema) end
  end
  return wanted
end

--- Checks the columns asked for (or takes every scalar field, sorted by name).
---@param what string                     prefix of messages
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@param nested? boolean  without `wanted`, also the fields of records within rows, by their paths
---@return table[] columns  each with name, title, get(row), unit, format, digits, align
function columns.resolve(what, rows, wanted, nested)
  columns.check_rows(what, rows)
  if wanted ~= nil then
    if type(wanted) == "table" then argument.list(what, "columns", wanted) else columns.check_wanted(what, wanted) end
  end
  local list, seen = {}, {}
  for i, given in ipairs(wanted or default_columns(rows, nested)) do
    local column = column_of(given, what, i)
    if type(rows.units) == "table" and type(rows.units[column.name]) == "string" then
      column.unit = column.unit or rows.units[column.name]
    end
    if seen[column.name] then
      check.fail("%s: columns %d and %d are both named '%s'", what, seen[column.name], i, column.name)
    end
    list[i], seen[column.name] = column, i
    columns.check_present(what, rows, column)
  end
  if #list == 0 then check.fail("%s has no columns to show: name some, or give rows with fields", what) end
  return list
end

--- Refuses a path that no row has if it resembles one that some row has: a typing error would otherwise print an empty
--- column. A field that merely happens to be absent from these rows, such as `reason`, gives an empty column.
---@param needed? boolean  refuse any path that no row has
function columns.check_present(what, rows, column, needed)
  if #rows == 0 or type(column.key) ~= "string" then return end
  for _, row in ipairs(rows) do
    if column.get(row) ~= nil then return end
  end
  local names = {}
  for i = 1, math.min(#rows, 20) do columns.names(rows[i], "", names) end
  local hint = check.suggest(column.key, names)
  if hint == "" and not needed then return end
  if hint == "" and #rows > 0 and #names > 0 and #names <= 12 then
    hint = " (the rows have: " .. table.concat(names, ", ") .. ")"
  end
  check.fail("%s: no row has a field '%s'%s", what, column.key, hint)
end

return columns
