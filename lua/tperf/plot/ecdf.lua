--- Empirical distribution functions: the share of rows whose value is at most x.
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local guides = require "tperf.plot.draw.guides"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"
local xy = require "tperf.plot.xy"

local WHAT <const> = "plot.ecdf"

local schema = xy.schema({
  rows = check.any {},
  x = rows.field,
  series = rows.optional_field,
  beyond = check.boolean { default = false },
}, { "yunit" })

-- The steps of a sorted list: at each distinct value up by the share of rows that have it.
local function steps_of(sorted, o, unit)
  local points, n, i = {}, #sorted, 1
  local function share(k)
    local y = (o.beyond and n - k or k) / n
    return not (o.logy and y == 0) and y or nil
  end
  while i <= n do
    local last = i
    while sorted[last + 1] == sorted[i] do last = last + 1 end
    points[#points + 1] = { x = sorted[i], y = share(i - 1) }
    points[#points + 1] = { x = sorted[i], y = share(last), title = ("%s: %s"):format(scale.number(sorted[i], unit),
      scale.number(share(last) or 0, "%")) }
    i = last + 1
  end
  return points
end

--- The empirical distribution of a field: a staircase that rises at each value by the share of rows that have it. Rows
--- without a value are left out.
---@param options table
---  beyond  true: the share of rows above x instead, which shows tails with logy
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  guides.check(WHAT, o.guides, o.logx, o.logy)
  local x = rows.column(WHAT, o.rows, o.x, o.xunit)
  local plot, xs, ys, count = figure.start(WHAT, o), {}, { not o.logy and 0 or nil, 1 }, 0
  plot.series, plot.guides = {}, o.guides
  for i, group in ipairs(rows.groups(WHAT, o.rows, o.series and rows.column(WHAT, o.rows, o.series))) do
    local sorted = {}
    for _, r in ipairs(group.rows) do sorted[#sorted + 1] = rows.number(WHAT, x, o.rows, r, o.logx) end
    table.sort(sorted)
    local points = steps_of(sorted, o, x.unit)
    for _, point in ipairs(points) do xs[#xs + 1], ys[#ys + 1] = point.x, point.y end
    count = count + #sorted
    plot.series[i] = { name = group.name, points = points, connect = true, markers = false, look = style.series(i),
      unmarked = true }
  end
  plot.x = xy.scale(WHAT, xs, { log = o.logx, unit = x.unit, min = o.xmin, max = o.xmax, name = "x",
    label = o.xlabel or x.title })
  plot.y = xy.scale(WHAT, ys, { log = o.logy, unit = "%", min = o.ymin, max = o.ymax, name = "y",
    label = o.ylabel or (o.beyond and "Share of rows above" or "Share of rows"), nice = true })
  plot.description = ("Distribution of %s over %d rows."):format(o.xlabel or x.title or "x", count)
  return xy.new(plot)
end
