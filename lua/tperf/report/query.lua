--- Queries a database: the cache of a sweep, or any SQLite file.
local check = require "tperf.base.check"
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

--- Queries a SQLite database, such as the cache of a sweep, whose table `points` has a row for each finished point.
---@param path string  the file
---@param sql string   one SELECT statement
---@param ... number|string|boolean|nil  a value for each "?" in it
---@return table[] rows     by column name; true and false are 1 and 0
---@return string[] columns the column names, in the order of the SELECT
return function(path, sql, ...)
  if type(path) ~= "string" then check.fail("%s needs a file's name, got %s", WHAT, check.show(path)) end
  if type(sql) ~= "string" then check.fail("%s needs a SELECT, got %s", WHAT, check.show(sql)) end
  for i, value in pairs { ... } do
    if type(value) ~= "number" and type(value) ~= "string" and type(value) ~= "boolean" then
      check.fail("%s: value %d must be a number, a text, or true or false, got %s", WHAT, i, check.show(value))
    end
    if value ~= value then check.fail("%s: value %d is not a number (nan), which SQL does not know", WHAT, i) end
  end
  local file, problem = core.file.real(path)
  if not file then check.fail("%s: %s", WHAT, problem) end
  local database <close>, message, reason = core.store.open(file, "query")
  if not database then fail(path, message, reason) end
  local rows, names, code = database:run(sql, ...)
  if not rows then fail(path, names, code) end
  check_names(names)
  return rows, names
end
