--- Filled contours: a value over a plane, with marked points.
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local isoband = require "tperf.plot.draw.isoband"
local map = require "tperf.plot.map"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"
local xy = require "tperf.plot.xy"

local WHAT = "plot.contour"

local schema = map.schema {
  logx = xy.log_flag,
  logy = xy.log_flag,
  x2 = rows.optional_field,
  levels = check.one_of(check.integer { min = 1, max = 50, optional = true },
    check.list(check.number {}, { min = 1, max = 50 })),
}

-- Round numbers in a decade, about evenly spaced on a log scale.
local decades = {
  { 1, 2, 5 }, { 1, 1.5, 2, 3, 5, 7 }, { 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 },
  { 1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3.2, 3.6, 4, 4.5, 5, 5.5, 6, 7, 8, 9 },
}

-- Levels from the coarsest of these that gives at least half of `count` between lo and hi; nil if none does.
local function log_levels(lo, hi, count)
  local first, last = math.floor(math.log(lo, 10)), math.ceil(math.log(hi, 10))
  if last - first > count then return nil end
  for _, numbers in ipairs(decades) do
    local list = {}
    for k = first, last do
      for _, number in ipairs(numbers) do
        local level = k < 0 and number / 10.0 ^ -k or number * 10.0 ^ k
        if level > lo and level < hi then list[#list + 1] = level end
      end
    end
    if 2 * #list >= count then return list end
  end
end

-- Levels at round numbers, evenly spaced on a linear or log scale.
local function levels_of(o, grid)
  if type(o.levels) == "table" then
    local list = {}
    for i, level in ipairs(o.levels) do list[i] = level end
    table.sort(list)
    return list
  end
  local count = o.levels or 12
  local list = {}
  if grid.hi - grid.lo <= 1e-12 * math.abs(grid.hi) then return list end
  local s
  local by_logarithm = o.logz and log_levels(grid.lo, grid.hi, count)
  if by_logarithm then return by_logarithm end
  if o.logz and grid.hi > 1.5 * grid.lo then
    s = scale.log(grid.lo, grid.hi, { unit = grid.z.unit })
  else
    s = scale.linear(grid.lo, grid.hi, { unit = grid.z.unit, count = count })
  end
  for _, tick in ipairs(s.ticks) do
    if tick.value > grid.lo and tick.value < grid.hi then list[#list + 1] = tick.value end
  end
  return list
end

-- A second x axis on top, for a field that increases or decreases monotonically with x: ticks at round values,
-- interpolated between the rows.
local function second_axis(o, grid, x)
  local column = rows.column(WHAT, o.rows, o.x2)
  local at, pairs_of = {}, {}
  for r = 1, #o.rows do
    local px, value = rows.number(WHAT, grid.x, o.rows, r), rows.number(WHAT, column, o.rows, r)
    if not value then check.fail("%s: row %d has no number for %s", WHAT, r, column.title or "x2") end
    if at[px] and at[px] ~= value then
      check.fail("%s: row %d: %s is %s, but another row with the same %s has %s; the second axis needs one value each",
        WHAT, r, column.title or "x2", check.show(value), grid.x.title or "x", check.show(at[px]))
    end
    at[px] = value
  end
  for i, px in ipairs(grid.xs) do pairs_of[i] = { at[px], x.at(px) } end
  table.sort(pairs_of, function(a, b) return a[1] < b[1] end)
  local s = scale.linear(pairs_of[1][1], pairs_of[#pairs_of][1], { unit = column.unit, count = 6 })
  s.at = function(value)
    for i = 1, #pairs_of - 1 do
      local a, b = pairs_of[i], pairs_of[i + 1]
      if value <= b[1] or i == #pairs_of - 1 then
        return b[1] > a[1] and a[2] + (value - a[1]) / (b[1] - a[1]) * (b[2] - a[2]) or a[2]
      end
    end
    return pairs_of[1][2]
  end
  s.title = scale.title(column.title, s.unit)
  return s
end

--- Filled contours of z over x and y, from rows that lie on a grid (of any spacing). A point without a value is
--- left blank (missing says what that means). marks: highlighted points { x =, y =, label = }. x2: a field that
--- is monotonic in x, for a second axis on top. levels: their number, or a list of values.
---@param options table
---  x2      a field that is monotonic in x, for a second axis on top
---  levels  their number, or a list of values
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  local grid = map.grid(WHAT, o, true)
  if #grid.xs < 2 or #grid.ys < 2 then
    check.fail("%s needs at least two values of x and two of y, got %d and %d; plot.lines shows a single row or column",
      WHAT, #grid.xs, #grid.ys)
  end
  local function axis(values, log, column, label, name)
    local s = xy.scale(WHAT, values, { log = log, unit = column.unit, name = name, label = label or column.title,
      min = values[1], max = values[#values] })
    s.bare = true
    return s
  end
  local plot = figure.start(WHAT, o)
  plot.x = axis(grid.xs, o.logx, grid.x, o.xlabel, "x")
  plot.y = axis(grid.ys, o.logy, grid.y, o.ylabel, "y")
  plot.x2 = o.x2 and second_axis(o, grid, plot.x)
  local levels, shade = levels_of(o, grid), map.shade(o, grid)
  local blocks, positions = {}, {}
  for i = 0, #levels do
    local from, to = levels[i] or grid.lo, levels[i + 1] or grid.hi
    from, to = math.max(from, grid.lo), math.min(to, grid.hi)
    blocks[i + 1] = style.ramp((shade(math.max(from, grid.lo)) + shade(math.max(to, grid.lo))) / 2)
    positions[i] = i / (#levels + 1)
  end
  local bar = map.bar(grid, o, levels, positions, blocks)
  return map.figure("Filled contours", plot, o, { grid = grid, shade = shade, bar = bar }, function(c, box)
    local us, vs = {}, {}
    for i, value in ipairs(grid.xs) do us[i] = box.left + plot.x.at(value) * box.width end
    for j, value in ipairs(grid.ys) do vs[j] = box.top + (1 - plot.y.at(value)) * box.height end
    if grid.missing > 0 then map.hatch(c, box.left, box.top, box.width, box.height, 9) end
    for i = 0, #levels do
      local rings, segments = isoband.area(us, vs, grid.values, levels[i] or -math.huge)
      c:area(rings, { color = blocks[i + 1] })
      for _, line in ipairs(isoband.join(segments)) do c:line(line, { color = "#ffffff", width = 0.7 }) end
    end
  end)
end
