--- Histograms: how many rows have a value in each bin.
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local guides = require "tperf.plot.draw.guides"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local statistics = require "tperf.plot.draw.statistics"
local style = require "tperf.plot.draw.style"
local xy = require "tperf.plot.xy"

local WHAT <const> = "plot.histogram"
local MOST <const> = 1000 -- bins

local schema = xy.schema({
  rows = check.any {},
  x = rows.field,
  series = rows.optional_field,
  bins = check.one_of_or_nil(check.integer { min = 1, max = MOST },
    check.list(check.number {}, { min = 2, max = MOST })),
  show = check.choice { { "count", "share", "density" }, default = "count" },
}, { "yunit", "logy" })

local LABELS <const> = { count = "Rows", share = "Share of rows", density = "Density" }

-- The edges of bins between two values: as many equal ones as asked for (on a log axis, of equal factors), or, without
-- a number, at round values.
local function edges_between(o, lo, hi, sorted)
  local count = o.bins or statistics.bins(sorted)
  if lo == hi then
    if o.logx then return { lo / 2, lo * 2 } end
    return { lo - 0.5, lo + 0.5 }
  end
  local edges = {}
  if o.bins or o.logx then
    for i = 0, count do
      local part = i / count
      edges[i + 1] = o.logx and lo * (hi / lo) ^ part or lo + (hi - lo) * part
    end
    edges[#edges] = hi
    return edges
  end
  local step = scale.step(hi - lo, count)
  for i = math.floor(lo / step + 1e-9), math.ceil(hi / step - 1e-9) do edges[#edges + 1] = i * step end
  if edges[1] > lo then table.insert(edges, 1, edges[1] - step) end
  if edges[#edges] < hi then edges[#edges + 1] = edges[#edges] + step end
  return edges
end

-- Edges as given, ascending, around all values.
local function edges_given(o, x, all)
  for i = 2, #o.bins do
    if o.bins[i] <= o.bins[i - 1] then check.fail("%s: the edges in 'bins' must ascend; [%d] does not", WHAT, i) end
  end
  if o.logx and o.bins[1] <= 0 then
    check.fail("%s: bins[1] is %s, which a log axis cannot show", WHAT, check.show(o.bins[1]))
  end
  for _, one in ipairs(all) do
    if one.value < o.bins[1] or one.value > o.bins[#o.bins] then
      check.fail("%s: row %d: '%s' is %s, outside the edges in 'bins', %s to %s", WHAT, one.row, x.title or "x",
        check.show(one.value), check.show(o.bins[1]), check.show(o.bins[#o.bins]))
    end
  end
  return o.bins
end

-- A series' bins as rectangles, and the outline around them.
local function shape_of(sorted, edges, o, unit)
  local blocks, outline, counts = {}, {}, statistics.counts(sorted, edges)
  outline[1] = { x = edges[1], y = 0 }
  for i, count in ipairs(counts) do
    local high = count
    if o.show ~= "count" then high = count / #sorted end
    if o.show == "density" then high = high / (edges[i + 1] - edges[i]) end
    blocks[i] = { edges[i], edges[i + 1], 0, high, title = ("%s to %s: %s"):format(scale.number(edges[i], unit),
      scale.number(edges[i + 1], unit), scale.number(high, o.show == "share" and "%" or nil)) }
    outline[#outline + 1] = { x = edges[i], y = high }
    outline[#outline + 1] = { x = edges[i + 1], y = high }
  end
  outline[#outline + 1] = { x = edges[#edges], y = 0 }
  return blocks, outline
end

--- A histogram of a field: bins from an edge to below the next, the last bin's upper edge included. Rows without a
--- value are left out.
---@param options table
---  bins  their number (equal ones from the least to the largest value), or their edges; default: at round numbers
---  show  "count" (default), "share" of the series' rows, or "density": share per unit of x
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  guides.check(WHAT, o.guides, o.logx)
  local x = rows.column(WHAT, o.rows, o.x, o.xunit)
  local groups = rows.groups(WHAT, o.rows, o.series and rows.column(WHAT, o.rows, o.series))
  local all, values = {}, {}
  for _, group in ipairs(groups) do
    group.sorted = {}
    for _, r in ipairs(group.rows) do
      local value = rows.number(WHAT, x, o.rows, r, o.logx)
      if value then
        all[#all + 1], group.sorted[#group.sorted + 1] = { value = value, row = r }, value
        values[#values + 1] = value
      end
    end
    table.sort(group.sorted)
  end
  if #all == 0 then check.fail("%s: no row has a number for %s", WHAT, x.title or "x") end
  table.sort(values)
  local edges = type(o.bins) == "table" and edges_given(o, x, all)
    or edges_between(o, values[1], values[#values], values)
  local plot, ys = figure.start(WHAT, o), { 0 }
  plot.series, plot.guides = {}, o.guides
  for i, group in ipairs(groups) do
    local blocks, outline = shape_of(group.sorted, edges, o, x.unit)
    for _, point in ipairs(outline) do ys[#ys + 1] = point.y end
    plot.series[i] = { name = group.name, blocks = blocks, points = outline, connect = true, width = 1.6,
      markers = false, opacity = o.alpha or (#groups > 1 and 0.3 or 0.75), look = style.series(i), unmarked = true }
  end
  plot.alpha = nil
  plot.x = xy.scale(WHAT, { edges[1], edges[#edges] }, { log = o.logx, unit = x.unit, min = o.xmin or edges[1],
    max = o.xmax or edges[#edges], name = "x", label = o.xlabel or x.title })
  plot.y = xy.scale(WHAT, ys, { unit = o.show == "share" and "%" or nil, min = o.ymin, max = o.ymax, name = "y",
    label = o.ylabel or LABELS[o.show], zero = true, nice = true })
  plot.description = ("Histogram of %s: %d values in %d bins."):format(o.xlabel or x.title or "x", #all, #edges - 1)
  return xy.new(plot)
end
