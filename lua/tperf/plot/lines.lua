--- Line charts: one or more series over a linear, logarithmic or categorical x axis.
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"
local guides = require "tperf.plot.draw.guides"
local xy = require "tperf.plot.xy"

local WHAT = "plot.lines"

local schema = xy.schema {
  rows = check.any {},
  x = rows.field,
  y = check.one_of(rows.field, check.list(rows.field, { min = 1 })),
  series = rows.optional_field,
  low = rows.optional_field, high = rows.optional_field,
  errors = check.choice { { "band", "bars" }, default = "band" },
  markers = check.boolean { default = true },
}

local function is_named(o, x)
  for _, row in ipairs(o.rows) do
    if type(x.get(row)) == "string" and not x.quantities then return true end
  end
  return false
end

-- Raises if two rows of a series have one x: a line through both would be a vertical stroke that nobody measured.
local function check_once(o, x, name, points)
  local first = {}
  for _, point in ipairs(points) do
    local before = first[point.x]
    if before then
      check.fail("%s: rows %d and %d%s are both at %s = %s; name a 'series' that tells them apart, or draw their mean, "
        .. "or plot.scatter", WHAT, before, point.row, name and " of '" .. name .. "'" or "", x.title or "x",
        check.show(o.rows[point.row] and x.get(o.rows[point.row])))
    end
    first[point.x] = point.row
  end
end

-- The points of one series, sorted by x.
local function points_of(o, x, y, group, named)
  local points, banded = {}, o.errors == "band"
  local low = o.low and rows.column(WHAT, o.rows, o.low, o.yunit)
  local high = o.high and rows.column(WHAT, o.rows, o.high, o.yunit)
  for _, r in ipairs(group.rows) do
    local px
    if named then px = rows.name(WHAT, x, o.rows, r) else px = rows.number(WHAT, x, o.rows, r, o.logx) end
    if px then
      local py = rows.number(WHAT, y, o.rows, r, o.logy)
      local from, to = rows.interval(WHAT, low, high, o.rows, r, o.logy)
      points[#points + 1] = { x = px, y = py, low = from, high = to, banded = banded, row = r,
        title = py and string.format("%s%s: %s", group.name and group.name .. ", " or "",
          named and px or scale.number(px, x.unit), scale.number(py, y.unit)) }
    end
  end
  check_once(o, x, group.name, points)
  if not named then table.sort(points, function(a, b) return a.x < b.x end) end
  return points
end

local function scales(o, x, ys, all, named)
  local xs, values, names, seen = {}, {}, {}, {}
  for _, series in ipairs(all) do
    for _, point in ipairs(series.points) do
      if not named then xs[#xs + 1] = point.x end
      if named and not seen[point.x] then seen[point.x], names[#names + 1] = true, point.x end
      for _, name in ipairs { "y", "low", "high" } do values[#values + 1] = point[name] end
    end
  end
  for _, guide in ipairs(o.guides) do
    if guide.x and not named then xs[#xs + 1] = guide.x end
    if guide.y then values[#values + 1] = guide.y end
  end
  local sx
  if named then
    sx = scale.band(names)
    sx.title = o.xlabel or x.title or ""
  else
    sx = xy.scale(WHAT, xs, { log = o.logx, unit = o.xunit or x.unit, min = o.xmin, max = o.xmax, name = "x",
      label = o.xlabel or x.title, zero = false })
  end
  return sx, xy.scale(WHAT, values, { log = o.logy, unit = ys[1].unit, min = o.ymin, max = o.ymax, name = "y",
    label = o.ylabel or (#ys == 1 and ys[1].title or ""), nice = true })
end

--- A line chart. nil or NaN as y leaves a gap; zero and negative values on a log axis are refused.
--- logx, logy: the base, or true (base 2 if all values are powers of two, else 10). guides: horizontal ({ y = }),
--- vertical ({ x = }) or curved ({ f = function(x) … }) lines, each with a label. Several y fields are several series.
---@param options table
---  y        a field or a list of fields, each a series
---  low, high   fields with the bounds of an interval around each point; only with a single y field
---  errors   how it is drawn: "band" (default) or "bars"
---  markers  false: lines without markers
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  guides.check(WHAT, o.guides, o.logx, o.logy)
  local fields = (type(o.y) == "table" and not o.y.key) and o.y or { o.y }
  if (o.low or o.high) and not (o.low and o.high and #fields == 1) then
    check.fail("%s: 'low' and 'high' go together, with one y field", WHAT)
  end
  local x = rows.column(WHAT, o.rows, o.x, o.xunit)
  local series_of = o.series and rows.column(WHAT, o.rows, o.series)
  local named, all, ys, names = is_named(o, x), {}, {}, {}
  for i, field in ipairs(fields) do ys[i] = rows.column(WHAT, o.rows, field, o.yunit) end
  rows.shorten(ys)
  for i in ipairs(fields) do
    for _, group in ipairs(rows.groups(WHAT, o.rows, series_of)) do
      local name = group.name
      if #fields > 1 then name = (name and name .. ", " or "") .. (ys[i].title or "y " .. i) end
      all[#all + 1] = { name = name, points = points_of(o, x, ys[i], { name = name, rows = group.rows }, named),
        look = style.series(#all + 1), connect = true, markers = o.markers }
      names[#names + 1] = name
    end
  end
  local sx, sy = scales(o, x, ys, all, named)
  local about = string.format("Line chart of %s against %s", o.ylabel or ys[1].title or "y", o.xlabel or x.title or "x")
  if #names > 0 then about = about .. string.format("; %d series: %s", #names, table.concat(names, ", ")) end
  local plot = figure.start(WHAT, o)
  plot.x, plot.y, plot.series, plot.guides, plot.description = sx, sy, all, o.guides, about .. "."
  return xy.new(plot)
end
