--- Box plots and violins: the distribution of a value, for each of several names.
local axes = require "tperf.plot.draw.axes"
local braille = require "tperf.plot.draw.braille"
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local format = require "tperf.output.format"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local statistics = require "tperf.plot.draw.statistics"
local style = require "tperf.plot.draw.style"
local terminal = require "tperf.output.terminal"
local xy = require "tperf.plot.xy"

local WHAT <const> = "plot.box"
local WIDEST <const>, SHARE <const> = 60, 0.7 -- px, and the part of its band that a box fills
local POINTS <const> = 96 -- of a violin's outline

local schema = figure.schema({
  rows = check.any {},
  x = rows.optional_field,
  y = rows.field,
  series = rows.optional_field,
  violin = check.boolean { default = false },
  horizontal = check.boolean { default = false },
  logy = xy.log_flag,
  ymin = check.number { optional = true },
  ymax = check.number { optional = true },
}, { "xunit" })

-- The sorted values of each name and series, and the names in order.
local function values_of(o, x, y)
  local names, seen, series, all = {}, {}, {}, {}
  local groups = rows.groups(WHAT, o.rows, o.series and rows.column(WHAT, o.rows, o.series))
  for k, group in ipairs(groups) do
    series[k] = { name = group.name, boxes = {} }
    for _, r in ipairs(group.rows) do
      local name = x and rows.name(WHAT, x, o.rows, r) or ""
      local value = rows.number(WHAT, y, o.rows, r, o.logy)
      if not seen[name] then seen[name], names[#names + 1] = true, name end
      if value then
        local list = series[k].boxes[name] or {}
        series[k].boxes[name], list[#list + 1], all[#all + 1] = list, value, value
      end
    end
    for _, list in pairs(series[k].boxes) do table.sort(list) end
  end
  return names, series, all
end

-- --- drawing: every position is a pair of one along the names, in px, and a value ---

local function pen(c, box, plot)
  local value = plot.value
  local function place(across, at)
    local t = math.max(0, math.min(1, value.at(at)))
    if plot.horizontal then return box.left + t * box.width, across end
    return across, box.top + (1 - t) * box.height
  end
  local function ring_of(list)
    local out = {}
    for i = 1, #list, 2 do out[i], out[i + 1] = place(list[i], list[i + 1]) end
    return out
  end
  local function seen(at)
    local t = value.at(at)
    return t >= -1e-9 and t <= 1 + 1e-9
  end
  return {
    line = function(list, look) c:line(ring_of(list), look) end,
    area = function(list, look) c:area(ring_of(list), look) end,
    dot = function(across, at, look)
      if not seen(at) then return end
      local x, y = place(across, at)
      c:marker(x, y, "ring", 2.6, look)
    end,
    seen = seen,
  }
end

local INK <const> = { color = style.ink, class = "tp-line", width = 1.3 }
local MIDDLE <const> = { color = style.ink, class = "tp-line", width = 2.2 }

local function told(plot, name, series, b, n)
  local function number(value) return scale.number(value, plot.unit) end
  return ("%s%s%d rows, median %s, quartiles %s and %s, whiskers %s and %s"):format(
    series.name and series.name .. ", " or "", name ~= "" and name .. ": " or "", n, number(b.median), number(b.q1),
    number(b.q3), number(b.low), number(b.high))
end

local function draw_box(p, at, wide, b, look)
  local half = wide / 2
  p.line({ at, b.low, at, b.q1 }, INK)
  p.line({ at, b.q3, at, b.high }, INK)
  if p.seen(b.low) then p.line({ at - half / 2, b.low, at + half / 2, b.low }, INK) end
  if p.seen(b.high) then p.line({ at - half / 2, b.high, at + half / 2, b.high }, INK) end
  local ring = { at - half, b.q1, at + half, b.q1, at + half, b.q3, at - half, b.q3 }
  p.area(ring, look)
  p.line({ at - half, b.q1, at + half, b.q1, at + half, b.q3, at - half, b.q3, at - half, b.q1 }, INK)
  if p.seen(b.median) then p.line({ at - half, b.median, at + half, b.median }, MIDDLE) end
  for _, value in ipairs(b.outliers) do p.dot(at, value, { color = style.soft, class = "tp-soft" }) end
end

-- A violin as wide as its density, at its widest as wide as a box; within it the quartiles.
local function draw_violin(p, at, wide, b, look, values, is_log)
  local shown = values
  if is_log then
    shown = {}
    for i, value in ipairs(values) do shown[i] = math.log(value) end
  end
  local places, density = statistics.density(shown, POINTS)
  if not places then return draw_box(p, at, wide, b, look) end
  local most, ring = 0, {}
  for _, d in ipairs(density) do most = math.max(most, d) end
  local function add(i, side)
    ring[#ring + 1] = at + side * density[i] / most * wide / 2
    ring[#ring + 1] = is_log and math.exp(places[i]) or places[i]
  end
  for i = 1, #places do add(i, 1) end
  for i = #places, 1, -1 do add(i, -1) end
  p.area(ring, look)
  p.line({ at, b.q1, at, b.q3 }, { color = style.ink, class = "tp-line", width = 3.5 })
  if p.seen(b.median) then p.line({ at - wide / 6, b.median, at + wide / 6, b.median }, MIDDLE) end
end

local function draw(c, plot)
  local box = axes.layout(plot)
  axes.draw(c, plot, box)
  local p, n = pen(c, box, plot), #plot.category.ticks
  local room = (plot.horizontal and box.height or box.width) / n * SHARE
  local wide = math.min(WIDEST, room / #plot.series)
  for _, tick in ipairs(plot.category.ticks) do
    local t = plot.category.at(tick.value)
    local middle = plot.horizontal and box.top + (1 - t) * box.height or box.left + t * box.width
    for k, series in ipairs(plot.series) do
      local values = series.boxes[tick.value]
      if values then
        local b, at = statistics.box(values), middle + (k - 0.5 - #plot.series / 2) * wide
        local look = { color = series.look.color, opacity = plot.alpha or 0.6,
          title = told(plot, tick.value, series, b, #values) }
        if plot.violin then draw_violin(p, at, 0.86 * wide, b, look, values, plot.value.kind == "log") else
          draw_box(p, at, 0.86 * wide, b, look)
        end
      end
    end
  end
  axes.side_labels(c, plot, box)
end

-- As text: a line for each box, whiskers, quartiles and the median on one scale.
local function text(plot, how)
  local out, gutter, lines = {}, 0, {}
  for _, tick in ipairs(plot.category.ticks) do
    for _, series in ipairs(plot.series) do
      local values = series.boxes[tick.value]
      local parts = { tick.value ~= "" and tick.value or nil, series.name }
      local label = format.clip(format.printable(table.concat(parts, ", ")), 30)
      if values then lines[#lines + 1] = { label = label, b = statistics.box(values) } end
      gutter = math.max(gutter, format.width(label))
    end
  end
  local width = math.max(10, how.width - gutter - 3)
  local rule, block, middle, edge = "─", "█", "│", "│"
  if how.ascii then rule, block, middle, edge = "-", "=", "|", "|" end
  if plot.title then out[1], out[2] = terminal.bold(format.printable(plot.title), how.color), "" end
  for _, line in ipairs(lines) do
    local cells = {}
    for i = 1, width do cells[i] = " " end
    local function cell(value)
      return 1 + math.floor(math.max(0, math.min(1, plot.value.at(value))) * (width - 1) + 0.5)
    end
    for i = cell(line.b.low), cell(line.b.high) do cells[i] = rule end
    for i = cell(line.b.q1), cell(line.b.q3) do cells[i] = block end
    cells[cell(line.b.median)] = middle
    out[#out + 1] = (" "):rep(gutter - format.width(line.label)) .. line.label .. " " .. edge .. " "
      .. table.concat(cells):gsub(" +$", "")
  end
  local low, high = scale.number(plot.value.lo, plot.unit), scale.number(plot.value.hi, plot.unit)
  out[#out + 1] = (" "):rep(gutter + 3) .. low .. (" "):rep(math.max(1, width - format.width(low) - format.width(high)))
    .. high
  if plot.value.title ~= "" then out[#out + 1] = (" "):rep(gutter + 3) .. format.printable(plot.value.title) end
  local whole = table.concat(out, "\n") .. "\n"
  return how.ascii and braille.to_ascii(whole) or whole
end

local function entries_of(plot)
  local list = {}
  for k, series in ipairs(plot.series) do
    series.look = style.series(k)
    if series.name then
      list[#list + 1] = { text = series.name, key = function(c, x, y)
        c:rect(x + 6, y - 5, 16, 10, { color = series.look.color, opacity = plot.alpha or 0.6 })
      end }
    end
  end
  return list
end

--- Box plots of y for each x: the quartiles (as numpy computes them), the median, whiskers to the farthest values
--- within 1.5 times the quartiles' distance, and what lies beyond as rings. Rows without a value are left out.
---@param options table
---  x       a field: a box for each of its values; default: one box
---  violin  true: outlines by the density (Gaussian kernels, Scott's bandwidth) instead of boxes
---  horizontal  true: values to the right, the first name at the top
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  local x, y = o.x and rows.column(WHAT, o.rows, o.x), rows.column(WHAT, o.rows, o.y, o.yunit)
  local names, series, all = values_of(o, x, y)
  local plot = figure.start(WHAT, o)
  plot.series, plot.unit, plot.violin, plot.horizontal = series, y.unit, o.violin, o.horizontal
  plot.value = xy.scale(WHAT, all, { log = o.logy, unit = y.unit, min = o.ymin, max = o.ymax, name = "y",
    label = o.ylabel or y.title, nice = true })
  plot.category = scale.band(names)
  plot.category.title = o.xlabel or x and x.title or ""
  plot.x, plot.y = plot.category, plot.value
  if o.horizontal then plot.x, plot.y = plot.value, scale.flipped(plot.category) end
  plot.right, plot.entries = 8, entries_of(plot)
  axes.make_room(plot, plot.horizontal and 20 * #names * #series or nil)
  plot.draw = function(c) draw(c, plot) end
  plot.lines = function(how) return text(plot, how) end
  plot.description = ("%s of %s: %d values for %d names."):format(o.violin and "Violins" or "Boxes",
    o.ylabel or y.title or "y", #all, #names)
  return figure.new(plot)
end
