--- Filled contours: a value over a plane, with marked points.
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local isoband = require "tperf.plot.draw.isoband"
local map = require "tperf.plot.map"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
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
  { 1, 3 },
  { 1, 2, 5 }, { 1, 1.5, 2, 3, 5, 7 }, { 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 },
  { 1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3.2, 3.6, 4, 4.5, 5, 5.5, 6, 7, 8, 9 },
}

-- The list whose length is nearest to a count.
local function nearest(lists, count)
  local best
  for _, list in ipairs(lists) do
    if not best or math.abs(#list - count) < math.abs(#best - count) then best = list end
  end
  return best
end

-- Round numbers between lo and hi on a log scale: those of every decade, or powers of ten some decades apart.
local function log_levels(lo, hi, count)
  local first, last = math.floor(math.log(lo, 10)), math.ceil(math.log(hi, 10))
  local lists = {}
  local function add(numbers, step)
    local list = {}
    for k = first // step * step, last, step do
      for _, number in ipairs(numbers) do
        local level = k < 0 and number / 10.0 ^ -k or number * 10.0 ^ k
        if level > lo and level < hi then list[#list + 1] = level end
      end
    end
    lists[#lists + 1] = list
  end
  for _, numbers in ipairs(decades) do add(numbers, 1) end
  for step = 1, last - first do add({ 1 }, step) end
  return nearest(lists, count)
end

-- Round numbers between lo and hi, evenly spaced: multiples of 1, 2 or 5 times a power of ten.
local function even_levels(lo, hi, count)
  local lists, step = {}, scale.step(hi / count - lo / count, 1)
  for _, factor in ipairs { 1, 0.5, 0.4, 0.2, 2, 2.5, 5 } do
    local list = {}
    for _, value in ipairs(scale.multiples(lo, hi, step * factor)) do
      if value > lo and value < hi then list[#list + 1] = value end
    end
    lists[#lists + 1] = list
  end
  return nearest(lists, count)
end

-- Levels at round numbers, evenly spaced on a linear or log scale, about as many as asked for.
local function levels_of(o, grid)
  if type(o.levels) == "table" then
    local list = {}
    for i, level in ipairs(o.levels) do list[i] = level end
    table.sort(list)
    return list
  end
  local count = o.levels or 12
  if grid.hi - grid.lo <= 1e-12 * math.abs(grid.hi) then return {} end
  local factor = scale.unit(math.max(math.abs(grid.lo), math.abs(grid.hi)), grid.z.unit) -- round in the unit shown
  local make = o.logz and grid.hi > 1.5 * grid.lo and log_levels or even_levels
  local list = make(grid.lo / factor, grid.hi / factor, count)
  for i, level in ipairs(list) do list[i] = level * factor end
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

-- The levels, the colours between them, and their bar.
local function shaded(o, grid)
  local levels, shade, blocks, positions = levels_of(o, grid), map.shade(WHAT, o, grid), {}, {}
  for i = 0, #levels do
    local from, to = levels[i] or grid.lo, levels[i + 1] or grid.hi
    from, to = math.max(from, grid.lo), math.min(to, grid.hi)
    blocks[i + 1] = shade.color((shade.of(math.max(from, grid.lo)) + shade.of(math.max(to, grid.lo))) / 2)
    positions[i] = i / (#levels + 1)
  end
  return { levels = levels, blocks = blocks, shade = shade, bar = map.bar(grid, o, levels, positions, blocks) }
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
    s.again = not o.x2 and function(more) -- a second axis keeps its own
      return axis({ math.min(table.unpack(more)), math.max(table.unpack(more)) }, log, column, label, name)
    end or nil
    return s
  end
  local plot = figure.start(WHAT, o)
  plot.x = axis(grid.xs, o.logx, grid.x, o.xlabel, "x")
  plot.y = axis(grid.ys, o.logy, grid.y, o.ylabel, "y")
  plot.x2 = o.x2 and second_axis(o, grid, plot.x)
  return map.figure("Filled contours", plot, o, grid, function() return shaded(o, grid) end, function(c, box, of)
    local us, vs = {}, {}
    for i, value in ipairs(grid.xs) do us[i] = box.left + plot.x.at(value) * box.width end
    for j, value in ipairs(grid.ys) do vs[j] = box.top + (1 - plot.y.at(value)) * box.height end
    if grid.missing > 0 then map.hatch(c, box.left, box.top, box.width, box.height, 9) end
    for i = 0, #of.levels do
      local rings, segments = isoband.area(us, vs, grid.values, of.levels[i] or -math.huge)
      c:area(rings, { color = of.blocks[i + 1] })
      for _, line in ipairs(isoband.join(segments)) do c:line(line, { color = "#ffffff", width = 0.7 }) end
    end
  end)
end
