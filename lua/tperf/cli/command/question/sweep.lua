local options = require "tperf.input.options"
local say = require "tperf.output.terminal".say

local SUMMARY = [[
SELECT question, tperf, count(*) AS points, sum(length(record)) AS bytes FROM records GROUP BY question, tperf]]
local SUMMARY_COLUMNS = {
  { key = "question" }, { key = "points" }, { key = "bytes", unit = "bytes" }, { key = "tperf", title = "version" },
}

local function columns_of(names)
  local columns = {}
  for i, name in ipairs(names) do columns[i] = { key = name } end
  return columns
end

local function print_summary(values, query)
  local show = require "tperf.cli.answer.table"
  show(values, query(values.db, SUMMARY), SUMMARY_COLUMNS)
  if values.json or values.csv then return end
  local _, names = query(values.db, "SELECT * FROM points LIMIT 0")
  say(("\ncolumns of the table points: %s"):format(table.concat(names, ", ")))
end

return {
  summary = "query the cache of a sweep",
  arguments = "[SQL]",
  example = "tperf sweep --db FILE 'SELECT gpus, tp, time FROM points ORDER BY time'",
  details = [[
FILE is the cache of a sweep (tperf.sweep { cache = "FILE" }), a SQLite database, even
while it is being written. SQL is one SELECT on the table points, a row for each finished
point: what varied, the arguments, and the figures of the answer. Without SQL, prints the
number of points and the names of the columns.
--check reads the whole database and verifies it.]],
  options = options.join({
    { long = "db", value = "FILE", help = "the database" },
    { long = "check", help = "compare every record with its checksum" },
  }, options.formats),
  run = function(values, arguments)
    if not values.db then return false, "--db FILE is missing" end
    if arguments[2] then return false, "one SELECT is needed: put it in quotes" end
    if values.check then
      local points = require "tperf.question.sweep.cache_file".check(values.db)
      say(("%s: %d points, all as they were written"):format(values.db, points))
      return
    end
    local query = require "tperf.report".query
    if not arguments[1] then return print_summary(values, query) end
    local rows, names = query(values.db, arguments[1])
    require "tperf.cli.answer.table"(values, rows, columns_of(names))
  end,
}
