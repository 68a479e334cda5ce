--- Scatter plots, optionally with the Pareto front.
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local pareto = require "tperf.plot.pareto"
local density = require "tperf.plot.draw.density"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"
local guides = require "tperf.plot.draw.guides"
local xy = require "tperf.plot.xy"

local WHAT = "plot.scatter"

local direction = check.choice { { "min", "max" } }

local schema = xy.schema {
  rows = check.any {},
  x = rows.field,
  y = rows.field,
  series = rows.optional_field,
  label = rows.optional_field,
  low = rows.optional_field, high = rows.optional_field,
  xlow = rows.optional_field, xhigh = rows.optional_field,
  density = check.boolean { optional = true },
  pareto = check.record_of({ x = direction, y = direction }, { optional = true }),
}

local function points_of(o, x, y, label, group)
  local points, ends = {}, {}
  for name, of in pairs { low = y, high = y, xlow = x, xhigh = x } do
    ends[name] = o[name] and rows.column(WHAT, o.rows, o[name], of.unit)
  end
  for _, r in ipairs(group.rows) do
    local px, py = rows.number(WHAT, x, o.rows, r, o.logx), rows.number(WHAT, y, o.rows, r, o.logy)
    if px and py then
      local name = label and label.get(o.rows[r]) ~= nil and rows.name(WHAT, label, o.rows, r) or nil
      local what = (group.name and group.name .. ": " or "") .. (name and name .. ": " or "")
      local low, high = rows.interval(WHAT, ends.low, ends.high, o.rows, r, o.logy)
      local xlow, xhigh = rows.interval(WHAT, ends.xlow, ends.xhigh, o.rows, r, o.logx)
      points[#points + 1] = { x = px, y = py, name = name, low = low, high = high, xlow = xlow, xhigh = xhigh,
        title = what .. scale.number(px, x.unit) .. ", " .. scale.number(py, y.unit) }
    end
  end
  return points
end

-- The front as a staircase: between two of its points only the worse value of each is guaranteed.
local function stairs(points, front, toward)
  local line = {}
  for k, i in ipairs(front) do
    local p, before = points[i], points[front[k - 1]]
    if before then
      -- The corner lies on the side that is worse in both directions.
      local corner = (toward.x == "min") and { x = p.x, y = before.y } or { x = before.x, y = p.y }
      line[#line + 1] = corner
    end
    line[#line + 1] = { x = p.x, y = p.y }
  end
  return line
end

--- A scatter plot; more than 20,000 points are drawn as a density. label: a field that names points (only those of
--- the front, if one is drawn). pareto: the better direction of each axis, as in { x = "min", y = "max" }; draws the
--- front of points that no other beats in both.
---@param options table
---  label   a field that names points
---  low, high     fields with the ends of an error bar along y
---  xlow, xhigh   the same along x
---  density  true: cells, the more opaque the more points lie in them; false: always points
---  pareto  the better direction of each axis: { x = "min", y = "max" }
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  for low, high in pairs { low = "high", xlow = "xhigh" } do
    if (o[low] == nil) ~= (o[high] == nil) then check.fail("%s: '%s' and '%s' go together", WHAT, low, high) end
  end
  guides.check(WHAT, o.guides, o.logx, o.logy)
  local x, y = rows.column(WHAT, o.rows, o.x, o.xunit), rows.column(WHAT, o.rows, o.y, o.yunit)
  local series_of = o.series and rows.column(WHAT, o.rows, o.series)
  local label = o.label and rows.column(WHAT, o.rows, o.label)
  local all, series, xs, ys = {}, {}, {}, {}
  for i, group in ipairs(rows.groups(WHAT, o.rows, series_of)) do
    local points = points_of(o, x, y, label, group)
    series[i] = { name = group.name, points = points, look = style.series(i), markers = true, radius = 3.6 }
    for _, point in ipairs(points) do
      all[#all + 1] = point
      for _, name in ipairs { "x", "xlow", "xhigh" } do xs[#xs + 1] = point[name] end
      for _, name in ipairs { "y", "low", "high" } do ys[#ys + 1] = point[name] end
    end
  end
  local dense = o.density
  if dense == nil then dense = #all > density.MOST end
  for _, name in ipairs(dense and { "label", "low", "xlow" } or {}) do
    if o[name] ~= nil and not (name == "label" and o.pareto) then
      check.fail("%s: '%s' of %d points would cover each other: leave it out, or ask for density = false", WHAT, name,
        #all)
    end
  end
  for _, one in ipairs(series) do one.dense = dense end
  for _, guide in ipairs(o.guides) do xs[#xs + 1], ys[#ys + 1] = guide.x, guide.y end
  local front
  if o.pareto then
    front = pareto.front(all, o.pareto.x, o.pareto.y)
    for _, i in ipairs(front) do all[i].label, all[i].radius = all[i].name, 5 end
    table.insert(series, 1, { name = "Pareto front", points = stairs(all, front, o.pareto), connect = true,
      unmarked = true, fixed = true, width = 1.5, look = { color = "#7f7f7f", dash = {}, marker = "circle" } })
  elseif not dense then
    for _, point in ipairs(all) do point.label = point.name end
  end
  local about = string.format("Scatter plot of %s against %s, %d points", o.ylabel or y.title or "y",
    o.xlabel or x.title or "x", #all)
  local plot = figure.start(WHAT, o)
  plot.x = xy.scale(WHAT, xs, { log = o.logx, unit = x.unit, min = o.xmin, max = o.xmax, name = "x",
    label = o.xlabel or x.title, nice = true })
  plot.y = xy.scale(WHAT, ys, { log = o.logy, unit = y.unit, min = o.ymin, max = o.ymax, name = "y",
    label = o.ylabel or y.title, nice = true })
  plot.series, plot.guides = series, o.guides
  plot.description = about .. (front and string.format("; %d on the Pareto front.", #front) or ".")
  return xy.new(plot)
end
