--- tperf.sweep: asks one question at many points and returns rows for reports and plots.
local check = require "tperf.base.check"
local lists = require "tperf.question.sweep.lists"
local point = require "tperf.question.sweep.point"
local runner = require "tperf.question.sweep.runner"
local vary = require "tperf.question.sweep.vary"

local WHAT <const> = "tperf.sweep"

local own_fields = { run = true, cache = true, key = true, fields = true, each = true, progress = true,
  on_error = true, estimate = true }

local DEEPEST <const>, MOST_FIELDS <const> = 30, 1 << 20

-- Collects the variations among the arguments, also within plain tables, as sets; returns the fixed arguments.
local function split(given, prefix, sets, depth)
  local fixed = {}
  if depth > DEEPEST then check.fail("%s: '%s' is nested too deep, or contains itself", WHAT, prefix) end
  for name, value in pairs(given) do
    local path = prefix and prefix .. "." .. tostring(name) or name
    sets.fields = sets.fields + 1
    if sets.fields > MOST_FIELDS then check.fail("%s: '%s' has too many fields, or contains itself", WHAT, path) end
    if vary.is(value) then
      if type(name) ~= "string" then
        check.fail("%s: '%s' varies an item of a list; vary the list as a whole", WHAT, path)
      end
      sets[#sets + 1] = vary.set_of(path, value)
    elseif not prefix and path:find(".", 1, true) then
      sets[#sets + 1] = { points = { { [path] = value } }, names = {}, id = -1 }
    elseif type(value) == "table" and getmetatable(value) == nil then
      fixed[name] = split(value, path, sets, depth + 1)
    else
      fixed[name] = value
    end
  end
  return fixed
end

local function paths_of(sets)
  local paths, names, seen = {}, {}, {}
  for _, one in ipairs(sets) do
    local of_set = {}
    for _, list in ipairs(lists.of(one.points) or { one.points }) do
      for _, path in ipairs(lists.paths(list)) do
        if not seen[path] then
          seen[path] = true
          of_set[#of_set + 1] = path
        end
      end
    end
    table.sort(of_set)
    table.move(of_set, 1, #of_set, #paths + 1, paths)
    for path, name in pairs(one.names) do names[path] = name end
  end
  return paths, names
end

local function take_apart(given)
  local o, args, sets = {}, {}, {}
  for key, value in pairs(given) do
    if own_fields[key] then
      o[key] = value
    elseif math.type(key) == "integer" then
      if key < 1 or key > #given then check.fail("%s: there is a gap before [%d]", WHAT, key) end
    elseif type(key) == "string" then
      args[key] = value
    else
      check.fail("%s: %s names no argument", WHAT, check.show(key))
    end
  end
  for i, value in ipairs(given) do
    sets[#sets + 1] = vary.is_set(value) and value or vary.list(WHAT, value, i * 1e-9)
  end
  sets.fields = 0 -- number of fields visited
  o.fixed = split(args, nil, sets, 1)
  table.sort(sets, function(a, b) return a.id < b.id end)
  o.sets = sets
  return o
end

--- Runs a function over many points.
---@param given table
---  run        tperf.search (default), tperf.train, any other question, or a custom function(arguments) that
---             returns a table, a number, or nil; it gets a copy of its point's arguments
---  …          its arguments. Those made by tperf.vary{…} and the like form a grid; the first that was created varies
---             slowest. ["system.network.fast.domain"] = … sets a field of a system, a model or a table
---  [1] …      sets of points over several arguments: tperf.zip{…}, tperf.grid{…}, or a list of tables of arguments
---  cache      a file below the output folder, an SQLite database of finished points: an interrupted run continues
---             from it, and tperf.report.query reads it
---  key        name of the computation, required with a cache and a custom function; change it if the function changes
---  fields     names of the fields that a row keeps ({ "time", "memory.total" }) beside those that vary, so that a
---             million rows need little memory; by default all
---  each       function(row): called with each row, in the order of the points, which is then dropped: for writing
---             millions of rows to a file. The sweep returns no rows then
---  progress   false: no progress line
---  estimate   true: asks some points first, evenly spread, and says on standard error how long all of them will take
---  on_error   "stop" (default): the first error ends the sweep, and names its point; "row": it becomes the row's
---             `error`, with feasible = false, and the sweep goes on. Errors are not kept in a cache
---@return table[] rows  one per point: each varied argument under its short name (the last part of its path, or `as`),
---  the fields of the result (for a search, of the best configuration), and `result` itself. A point that is refused
---  because its sizes do not divide or do not fit has feasible = false and a `reason` instead; if all points are
---  refused, that is an error. `rows.units` has the units of varied arguments by name, for tables and plots
local function sweep(given)
  if type(given) ~= "table" then check.fail("%s needs a table of arguments, got %s", WHAT, check.show(given)) end
  local o = take_apart(given)
  local paths, chosen = paths_of(o.sets)
  local names = point.names(paths, chosen)
  local points = vary.product(WHAT, o.sets)
  local rows = runner.run {
    run = o.run, points = points, paths = paths, names = names, fixed = o.fixed,
    build = point.builder(o.fixed, paths),
    cache = o.cache, key = o.key, fields = o.fields, each = o.each, quiet = o.progress == false,
    on_error = o.on_error, estimate = o.estimate,
  }
  rows.units = point.units(paths, names, lists.of(points))
  return rows
end

return {
  run = sweep, vary = vary.values, linspace = vary.linspace, logspace = vary.logspace, zip = vary.zip, grid = vary.grid,
}
