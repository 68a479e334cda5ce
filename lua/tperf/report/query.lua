--- Queries rows, or a database: the cache of a sweep, or any SQLite file.
local check = require "tperf.base.check"
local columns = require "tperf.question.sweep.columns"
local core = require "tperf.core"

local WHAT <const> = "report.query"

local function fail(path, message, reason)
  local hints = {
    damaged = "it is no database of SQLite, or a damaged one",
    denied = "a query reads: SELECT, and functions that are quick",
    busy = "another program has it to itself, or began to write to it meanwhile",
    endless = "100 million steps are the most; a LIMIT in it ends it",
    unfinished = "a program was stopped while it wrote to it, and must open it again to take that back",
  }
  local hint = hints[reason] and (" (%s)"):format(hints[reason]) or ""
  check.fail("%s: '%s': %s%s", WHAT, path, message, hint)
end

local function check_names(names)
  local seen = {}
  for _, name in ipairs(names) do
    if seen[name] then check.fail("%s: two columns are called '%s'; name one with AS", WHAT, name) end
    seen[name] = true
  end
end

local MOST_COLUMNS <const> = 1000

-- The rows with their fields by path, and all paths, sorted. SQL's names ignore case.
local function flatten(name, rows)
  local flat, seen = {}, {}
  for i, row in ipairs(rows) do
    if type(row) ~= "table" then check.fail("%s: '%s[%d]' is no row, but %s", WHAT, name, i, check.show(row)) end
    flat[i] = columns.flat(row)
    for path in next, flat[i] do
      local lower = path:lower()
      if seen[lower] and seen[lower] ~= path then
        check.fail("%s: the fields '%s' and '%s' of '%s' differ in case only, which SQL ignores; rename one", WHAT,
          seen[lower], path, name)
      end
      seen[lower] = path
    end
  end
  local paths = {}
  for _, path in next, seen do paths[#paths + 1] = path end
  table.sort(paths)
  if #paths == 0 then check.fail("%s: the rows of '%s' have no fields", WHAT, name) end
  if #paths > MOST_COLUMNS then
    check.fail("%s: the rows of '%s' have more than %d fields", WHAT, name, MOST_COLUMNS)
  end
  return flat, paths
end

-- Runs a statement of our own.
local function run(database, sql, ...)
  local done, message = database:run(sql, ...)
  if not done then check.fail("%s: %s", WHAT, message) end
end

-- Makes a table of rows.
local function fill(database, name, rows)
  local flat, paths = flatten(name, rows)
  local quoted, marks = {}, {}
  for i, path in ipairs(paths) do quoted[i], marks[i] = columns.quote(path), "?" end
  run(database, ("CREATE TABLE %s (%s)"):format(columns.quote(name), table.concat(quoted, ", ")))
  local insertion = ("INSERT INTO %s VALUES (%s)"):format(columns.quote(name), table.concat(marks, ", "))
  local values, count = {}, #paths
  for _, fields in ipairs(flat) do
    for k = 1, count do values[k] = fields[paths[k]] end
    run(database, insertion, table.unpack(values, 1, count))
  end
end

-- A database of rows, each list under its name.
local function of_rows(given)
  local tables = given
  if given[1] ~= nil or next(given) == nil then tables = { rows = given } end
  local database, message = core.store.memory()
  if not database then check.fail("%s: %s", WHAT, message) end
  run(database, "BEGIN")
  for _, name in ipairs(check.names(tables)) do
    if type(tables[name]) ~= "table" then
      check.fail("%s: '%s' must be a list of rows, got %s", WHAT, name, check.show(tables[name]))
    end
    fill(database, name, tables[name])
  end
  run(database, "COMMIT")
  database:confine()
  return database
end

local function of_file(path)
  local file, problem = core.file.real(path)
  if not file then check.fail("%s: %s", WHAT, problem) end
  local database, message, reason = core.store.open(file, "query")
  if not database then fail(path, message, reason) end
  return database
end

--- Queries rows, or a SQLite database such as the cache of a sweep, whose table `points` has a row for each finished
--- point. Besides SQLite's own functions: quantile(x, q), linear between neighbours as numpy's default, and stddev(x),
--- of a sample.
---@param from table[]|table<string, table[]>|string  rows, the table `rows`; several lists of rows, each the table of
---  its name; or a file. Fields of tables in rows are columns by path: "memory.total"
---@param sql string   one SELECT statement, with GROUP BY, JOIN and so on
---@param ... number|string|boolean|nil  a value for each "?" in it
---@return table[] rows     by column name; true and false are 1 and 0
---@return string[] columns the column names, in the order of the SELECT
return function(from, sql, ...)
  if type(from) ~= "string" and type(from) ~= "table" then
    check.fail("%s needs rows or a file's name, got %s", WHAT, check.show(from))
  end
  if type(sql) ~= "string" then check.fail("%s needs a SELECT, got %s", WHAT, check.show(sql)) end
  for i, value in pairs { ... } do
    if type(value) ~= "number" and type(value) ~= "string" and type(value) ~= "boolean" then
      check.fail("%s: value %d must be a number, a text, or true or false, got %s", WHAT, i, check.show(value))
    end
    if value ~= value then check.fail("%s: value %d is not a number (nan), which SQL does not know", WHAT, i) end
  end
  local database <close> = type(from) == "table" and of_rows(from) or of_file(from)
  local rows, names, code = database:run(sql, ...)
  if not rows then fail(type(from) == "string" and from or "rows", names, code) end
  check_names(names)
  return rows, names
end
