--- tperf.sweep: the same question over many points, as rows for reports and plots.
local check = require "tperf.base.check"
local point = require "tperf.question.sweep.point"
local runner = require "tperf.question.sweep.runner"
local vary = require "tperf.question.sweep.vary"

local WHAT <const> = "tperf.sweep"

local own_fields = { run = true, cache = true, key = true, fields = true, each = true, progress = true }

local DEEPEST <const>, MOST_FIELDS <const> = 30, 1 << 20

-- Variations among the arguments, also within plain tables of arguments, as sets; the rest is what stays fixed.
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
    for _, p in ipairs(one.points) do
      for path in pairs(p) do
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
  sets.fields = 0 -- looked at
  o.fixed = split(args, nil, sets, 1)
  table.sort(sets, function(a, b) return a.id < b.id end)
  o.sets = sets
  return o
end

--- Runs a function over points.
---@param given table
---  run        tperf.search (default), tperf.train, tperf.collective, or a function(arguments) of one's own that
---             returns a table, a number, or nil
---  …          its arguments. Those that are tperf.vary{…} or the like make a grid, the first that was made
---             outermost; ["system.network.fast.domain"] = … sets a field of a system, a model or a table
---  [1] …      sets of points over several arguments: tperf.zip{…}, tperf.grid{…}, or a list of tables of arguments
---  cache      a file below the output folder, a database of SQLite, that keeps finished points: a run that was ended
---             takes up from there, and tperf.report.query asks it
---  key        with a cache and functions of one's own: a text that names what they compute, to change when they do
---  fields     names of what a row keeps ({ "time", "memory.total" }) beside what varies, so that a million rows need
---             little memory; without, all of the answer
---  each       function(row): called with each row, in the order of the points, which is then forgotten: a sweep writes
---             millions of them to a file, and returns none
---  progress   false: no progress line
---@return table[] rows  one per point: each varied argument under its short name (the last part of its path, or `as`),
---  the fields of what run returned (of the best configuration, for a search), and `result`, that itself. A point that
---  is refused, as its sizes divide nothing or do not fit, has feasible = false and a `reason` instead; when all are,
---  that is an error. `rows.units` has the units of varied arguments by name, for tables and plots
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
  }
  rows.units = point.units(paths, names, vary.lists_of(points))
  return rows
end

return {
  run = sweep, vary = vary.values, linspace = vary.linspace, logspace = vary.logspace, zip = vary.zip, grid = vary.grid,
}
