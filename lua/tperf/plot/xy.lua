--- Series of points on two numeric axes: the common part of line charts, scatter plots and rooflines.
local axes = require "tperf.plot.draw.axes"
local band = require "tperf.plot.draw.band"
local braille = require "tperf.plot.draw.braille"
local canvas = require "tperf.plot.draw.canvas"
local check = require "tperf.base.check"
local density = require "tperf.plot.draw.density"
local errors = require "tperf.plot.draw.errors"
local clip = require "tperf.plot.draw.clip"
local figure = require "tperf.plot.figure"
local format = require "tperf.output.format"
local guides = require "tperf.plot.draw.guides"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"

local xy = {}

xy.log_flag = check.one_of(check.boolean { optional = true }, check.integer { min = 2, max = 10 })

--- The schema of plots with two numeric axes: the data, limits and guides.
--  rows         the data: a list of records
--  x, y         a field, a path ("memory.total"), a function of the row or { key =, title =, unit = }
--  series       a field: rows with the same value are one series
--  logx, logy   the base, or true (base 2 if all values are powers of two, else 10)
--  xmin, xmax, ymin, ymax   limits
--  guides       lines { y = }, { x = } or { f = function(x) … end }, each with a label
---@param own table
---@param unused? string[]  of these options
function xy.schema(own, unused)
  for _, name in ipairs { "xmin", "xmax", "ymin", "ymax" } do own[name] = check.number { optional = true } end
  own.logx, own.logy = xy.log_flag, xy.log_flag
  own.guides = check.list(check.record_of {
    x = check.number { optional = true },
    y = check.number { optional = true },
    f = check.func { optional = true },
    label = check.string { optional = true },
  }, { default = {} })
  return figure.schema(own, unused)
end

local function is_power_of_two(value)
  return value > 0 and 2.0 ^ math.floor(math.log(value, 2) + 0.5) == value
end

-- Refuses limits that leave nothing to see.
local function check_limits(what, o, values)
  local low, high = o.min or -math.huge, o.max or math.huge
  if low > high then
    check.fail("%s: '%smin' is %s, above '%smax', %s", what, o.name, check.show(low), o.name, check.show(high))
  end
  local lo, hi
  for _, value in ipairs(values) do
    if value >= low and value <= high then return end
    lo, hi = math.min(lo or value, value), math.max(hi or value, value)
  end
  local limit = hi < low and "min" or "max"
  if lo < low and hi > high or hi >= low and lo <= high then
    check.fail("%s: no value of %s lies between '%smin' and '%smax'", what, o.name, o.name, o.name)
  end
  check.fail("%s: '%s%s' is %s, beyond the data, which lie between %s and %s", what, o.name, limit,
    check.show(o[limit]), check.show(lo), check.show(hi))
end

--- A scale for values. log = true: base 2 if all values are powers of two, as counts of GPUs are, else 10.
---@param what string
---@param values number[]
---@param o table  log, unit, min, max, nice, zero, name ("x" or "y", for messages), label
function xy.scale(what, values, o)
  local lo, hi, powers = nil, nil, true
  for _, value in ipairs(values) do
    lo, hi = math.min(lo or value, value), math.max(hi or value, value)
    powers = powers and is_power_of_two(value)
  end
  local fixed_lo, fixed_hi = o.min, o.max
  lo, hi = fixed_lo or lo, fixed_hi or hi
  if not lo or not hi then
    check.fail("%s: no row has a number for %s", what, o.name)
  end
  if #values > 0 then check_limits(what, o, values) end
  local s
  if o.log then
    if lo <= 0 then check.fail("%s: %smin must be above 0 on a log axis, got %s", what, o.name, check.show(lo)) end
    local base = o.log == true and (powers and hi > lo and 2 or 10) or o.log
    local room = math.exp(0.03 * (math.log(hi) - math.log(lo)))
    s = scale.log(fixed_lo or lo / room, fixed_hi or hi * room, { unit = o.unit, base = base })
  else
    -- Includes zero unless the values lie far from it.
    local zero = o.zero
    if zero == nil then zero = not fixed_lo and not fixed_hi and lo > 0 and lo < 0.4 * hi end
    s = scale.linear(lo, hi, { unit = o.unit, zero = zero, nice = o.nice and not fixed_lo and not fixed_hi })
  end
  s.title = scale.title(o.label, s.unit)
  s.again = function(more) -- for scale.joined
    local same = {}
    for name, value in pairs(o) do same[name] = value end
    same.log = s.base
    return xy.scale(what, more, same)
  end
  s.values = { lo, hi }
  return s
end

-- The series' lines as runs of positions in the unit square; a gap ends a run.
local function runs_of(series, x, y)
  local runs, run = {}, nil
  for _, point in ipairs(series.points) do
    if not point.y then
      run = nil
    else
      if not run then
        run = {}
        runs[#runs + 1] = run
      end
      run[#run + 1], run[#run + 2] = x.at(point.x), y.at(point.y)
    end
  end
  return runs
end

local function overlaps(a, list)
  for _, b in ipairs(list) do
    if a[1] < b[3] and b[1] < a[3] and a[2] < b[4] and b[2] < a[4] then return true end
  end
  return false
end

-- The names of a point and of later points that touch it, without repetition; marks them all as named.
local function names_at(points, from, named)
  local p, list, seen = points[from], {}, {}
  for i = from, #points do
    local q = points[i]
    if q.label and not named[q] and math.max(math.abs(p.px - q.px), math.abs(p.py - q.py)) < 8 then
      list[#list + 1] = not seen[q.label] and q.label or nil
      named[q], seen[q.label] = true, true
    end
  end
  return table.concat(list, ", ")
end

local FAR <const> = { 20, 34, 50, 70, 95 } -- px from a point to a name that is tied to it by a line
local MOST_FAR <const> = 100               -- points: of more, names are only written beside them

-- Candidate positions for a name of width w around its point: right, left, above, below, then farther away all around.
local function positions(p, w, box, few)
  local middle = math.max(box.left + 1, math.min(p.px - w / 2, box.left + box.width - w - 1)) - p.px
  local list = { { 8, 4 }, { -8 - w, 4 }, { middle, -8 }, { middle, 18 } }
  for _, far in ipairs(few and FAR or {}) do
    for turn = 0, 11 do
      local x, y = far * math.cos(turn * math.pi / 6), far * math.sin(turn * math.pi / 6)
      list[#list + 1] = { x < -1 and x - w or x > 1 and x or -w / 2, y + 4, far = true }
    end
  end
  return list
end

-- Marks a line's path as taken, so that no label is written across it.
local function keep_clear(line, taken)
  for i = 1, #line - 3, 2 do
    local x1, y1, x2, y2 = line[i], line[i + 1], line[i + 2], line[i + 3]
    local steps = math.ceil(math.max(math.abs(x2 - x1), math.abs(y2 - y1)) / 6)
    for k = 0, math.max(1, steps) do
      local t = k / math.max(1, steps)
      local x, y = x1 + t * (x2 - x1), y1 + t * (y2 - y1)
      taken[#taken + 1] = { x - 1, y - 1, x + 1, y + 1 }
    end
  end
end

-- The line that ties a name to its point.
local function tie_of(p, left, base, w)
  return { p.px, p.py, math.max(left - 2, math.min(p.px, left + w + 2)), math.max(base - 9, math.min(p.py, base + 2)) }
end

-- Whether a straight line crosses one of these areas.
local function crosses(line, areas)
  local path = {}
  keep_clear(line, path)
  for _, area in ipairs(path) do
    if overlaps(area, areas) then return true end
  end
  return false
end

-- Labels points where there is room, from far away with a line to the point; a label that would cover something
-- everywhere is left out (the tooltip has it).
local function point_labels(c, box, points, taken)
  for _, p in ipairs(points) do taken[#taken + 1] = { p.px - 4, p.py - 4, p.px + 4, p.py + 4 } end
  local named, names, widest = {}, {}, math.max(170, 0.6 * box.width)
  for i, p in ipairs(points) do
    local text = p.label and not named[p] and canvas.fit(names_at(points, i, named), widest)
    local w = text and canvas.text_width(text) or 0
    for _, at in ipairs(text and positions(p, w, box, #points <= MOST_FAR) or {}) do
      local left, base = p.px + at[1], p.py + at[2]
      local area, tie = { left, base - 10, left + w, base + 3 }, at.far and tie_of(p, left, base, w)
      if left > box.left and left + w < box.left + box.width and base - 10 > box.top
        and base < box.top + box.height and not overlaps(area, taken) and not (tie and crosses(tie, names)) then
        taken[#taken + 1], names[#names + 1] = area, area
        if tie then
          c:line(tie, { class = "tp-axis", color = style.axis, width = 0.7 })
          keep_clear(tie, taken)
        end
        c:text(left, base, text, { title = p.title })
        break
      end
    end
  end
end

-- Writes a name along a straight line, above it.
local function name_along(c, line, text)
  local dx, dy = line[#line - 1] - line[1], line[#line] - line[2]
  local length = math.sqrt(dx * dx + dy * dy)
  if length < canvas.text_width(text) + 20 then return end
  local x, y = line[1] + 0.45 * dx + 7 * dy / length, line[2] + 0.45 * dy - 7 * dx / length
  c:text(x, y, text, { anchor = "middle", rotate = math.deg(math.atan(dy, dx)), class = "tp-soft", color = style.soft })
end

-- Maps positions from the unit square to the box, in place.
local function into_box(box, piece)
  for i = 1, #piece, 2 do
    piece[i], piece[i + 1] = box.left + piece[i] * box.width, box.top + (1 - piece[i + 1]) * box.height
  end
end

local function guide_look(guide)
  return { class = "tp-axis", color = style.soft, width = 1.2, dash = guide.solid and {} or { 5, 4 },
    title = guide.label }
end

-- The name of a vertical guide at the top of the frame, on the side of the line that has room.
local function name_vertical(c, box, x, text)
  local w = canvas.text_width(text)
  local fits = x + 5 + w <= box.left + box.width
  c:text(fits and x + 5 or math.max(box.left + w, x - 5), box.top + 12, text, { class = "tp-soft", color = style.soft,
    anchor = not fits and "end" or nil })
end

local function draw_guides(c, box, plot, taken)
  for _, guide in ipairs(plot.guides) do
    local pieces = clip.line(guides.points(guide, plot.x, plot.y))
    for _, piece in ipairs(pieces) do
      into_box(box, piece)
      c:line(piece, guide_look(guide))
      keep_clear(piece, taken)
    end
    local last = pieces[#pieces]
    if guide.entry then guide.entry.y = last and last[#last] or false end
    if guide.label and last then
      if guide.along then name_along(c, last, guide.label) elseif guide.x then
        name_vertical(c, box, last[1], guide.label)
      end
    end
  end
end

local function draw_line(c, box, plot, series, taken)
  local look = series.look
  for _, run in ipairs(runs_of(series, plot.x, plot.y)) do
    run = density.thin(run, math.ceil(box.width))
    for _, piece in ipairs(clip.line(run)) do
      into_box(box, piece)
      c:line(piece, { color = look.color, width = series.width or 2, dash = look.dash, title = series.name,
        opacity = plot.alpha })
      keep_clear(piece, taken)
    end
  end
end

local function draw_errors(c, box, plot, point, look)
  local u, v = plot.x.at(point.x), plot.y.at(point.y)
  if point.low and not point.banded then
    errors.draw(c, box, u, plot.y.at(point.low), plot.y.at(point.high), look)
  end
  if point.xlow then errors.draw(c, box, v, plot.x.at(point.xlow), plot.x.at(point.xhigh), look, true) end
end

local CROWDED <const> = 200 -- points: markers on a single line of more would look like events

local function draw_markers(c, box, plot, series, labelled)
  local look, last = series.look, nil
  local crowded = series.connect and #plot.series == 1 and #series.points > CROWDED
  -- A point between two gaps needs its marker to be visible; else about 16 markers per line tell series apart.
  local stride = series.connect and math.max(1, #series.points // 16) or 1
  for i, point in ipairs(series.points) do
    if point.y then
      local u, v = plot.x.at(point.x), plot.y.at(point.y)
      if u >= -1e-9 and u <= 1 + 1e-9 and v >= -1e-9 and v <= 1 + 1e-9 then
        local px, py = box.left + u * box.width, box.top + (1 - v) * box.height
        local before, after = series.points[i - 1], series.points[i + 1]
        local alone = not (before and before.y) and not (after and after.y)
        draw_errors(c, box, plot, point, look)
        local shown = not crowded and (i % stride == 0 or stride == 1) or alone
        if series.markers and shown and (point.label or not series.dense) then
          local radius = point.radius or series.radius or 3.4
          c:marker(px, py, look.marker, radius, { color = look.color, title = point.title, opacity = plot.alpha })
        end
        last = py
        if not series.dense or point.label then
          labelled[#labelled + 1] = { px = px, py = py, label = point.label, title = point.title }
        end
      end
    end
  end
  return last
end

local THICKEST <const>, SHARE <const> = 22, 0.8 -- px, and the part of its lane that a span fills
local INSTANT <const> = 0.6 -- px: a span without a duration

-- Draws spans as rectangles, their lengths to scale.
local function draw_spans(c, box, plot, series)
  local lane = plot.y.kind == "band" and 1 / #plot.y.ticks or series.gap / (plot.y.hi - plot.y.lo)
  local thick = math.min(THICKEST, SHARE * lane * box.height)
  local last
  for _, span in ipairs(series.spans) do
    local from, to = math.max(0, plot.x.at(span.from)), math.min(1, plot.x.at(span.to))
    local v = plot.y.at(span.lane)
    if from <= to and v >= 0 and v <= 1 then
      local wide, y = (to - from) * box.width, box.top + (1 - v) * box.height
      local x = box.left + from * box.width
      if span.from == span.to then x, wide = x - INSTANT / 2, INSTANT end
      c:rect(x, y - thick / 2, wide, thick, { color = series.look.color, title = span.title, opacity = plot.alpha })
      last = y
    end
  end
  return last
end

local function draw_blocks(c, box, plot, series)
  for _, block in ipairs(series.blocks) do
    local left, right = math.max(0, plot.x.at(block[1])), math.min(1, plot.x.at(block[2]))
    local low, high = math.max(0, plot.y.at(block[3])), math.min(1, plot.y.at(block[4]))
    if left < right and low < high then
      c:rect(box.left + left * box.width, box.top + (1 - high) * box.height, (right - left) * box.width,
        (high - low) * box.height, { color = series.look.color, title = block.title, opacity = series.opacity })
    end
  end
end

local function draw_series(c, box, plot, series, labelled, taken)
  if series.blocks then draw_blocks(c, box, plot, series) end
  if series.connect then draw_line(c, box, plot, series, taken) end
  if series.dense then density.draw(c, box, plot, series) end
  local last = draw_markers(c, box, plot, series, labelled)
  if series.spans then last = draw_spans(c, box, plot, series) end
  -- Beside a line its name is at its end's height; areas and bars have no such place.
  if series.entry then
    series.entry.y = last and not series.spans and not series.blocks and last or nil
    if not last then series.entry.y = false end
  end
end

-- The legend: an entry for each series with a name, and for each guide whose name is not written at its line.
local function entries_of(plot)
  local list = {}
  for _, series in ipairs(plot.series) do
    if series.name or series.dense then
      series.entry = { text = series.name or "few to many points", key = function(c, x, y)
        local look = series.look
        if series.blocks then
          c:rect(x + 6, y - 5, 16, 10, { color = look.color, opacity = series.opacity })
          return c:line({ x + 6, y - 5, x + 22, y - 5 }, { color = look.color, width = 2, dash = look.dash })
        end
        if series.spans then return c:rect(x + 6, y - 5, 16, 10, { color = look.color, opacity = plot.alpha }) end
        if series.dense then return density.key(c, x, y, look.color) end
        if series.connect then
          c:line({ x, y, x + 26, y }, { color = look.color, width = series.width or 2, dash = look.dash,
            opacity = plot.alpha })
        end
        if series.markers then c:marker(x + 13, y, look.marker, 3.4, { color = look.color, opacity = plot.alpha }) end
      end }
      list[#list + 1] = series.entry
    end
  end
  for _, guide in ipairs(plot.guides) do
    if guide.label and not guide.x and not guide.along then
      guide.entry = { text = guide.label, class = "tp-soft", color = style.soft, key = function(c, x, y)
        c:line({ x, y, x + 26, y }, guide_look(guide))
      end }
      list[#list + 1] = guide.entry
    end
  end
  return list
end

local function draw(c, plot)
  local box = axes.layout(plot)
  axes.draw(c, plot, box)
  local labelled, taken = {}, {}
  band.draw(c, box, plot, into_box)
  draw_guides(c, box, plot, taken)
  for _, series in ipairs(plot.series) do draw_series(c, box, plot, series, labelled, taken) end
  point_labels(c, box, labelled, taken)
  axes.side_labels(c, plot, box)
end

local function text_lines(plot, options)
  local legend = {}
  for i, series in ipairs(plot.series) do
    if series.name then
      local mark = series.unmarked and "-" or braille.mark_of(i)
      legend[#legend + 1] = "  " .. mark .. " " .. format.printable(series.name)
    end
  end
  return braille.plot(options, plot, function(grid)
    local function lines(points, color)
      for _, piece in ipairs(clip.line(points)) do
        for i = 1, #piece - 3, 2 do grid:line(piece[i], piece[i + 1], piece[i + 2], piece[i + 3], color) end
      end
    end
    for _, guide in ipairs(plot.guides) do lines(guides.points(guide, plot.x, plot.y), 7) end
    for i, series in ipairs(plot.series) do
      for _, run in ipairs(runs_of(series, plot.x, plot.y)) do
        if series.connect then lines(run, i) end
        if not series.unmarked and (#plot.series > 1 or not series.connect) then
          for k = 1, #run, 2 do grid:mark(run[k], run[k + 1], braille.mark_of(i), i) end
        elseif #run == 2 then
          grid:dot(run[1], run[2], i)
        end
      end
    end
  end, legend)
end

--- Makes a plot from scales, series and guides.
--- A series: { name?, points, look, connect?, markers?, width?, radius?, unmarked? (without a character in text) }
--- and, if it has them:
---  points  { { x, y|nil, low?, high?, banded?, xlow?, xhigh?, title?, label?, radius? } … }
---  dense   the points are too many to be drawn one by one
---  spans   { { from, to, lane, title } … }; gap: of lanes that are numbers
---  blocks  rectangles in data coordinates: { { x1, x2, y1, y2, title } … }; opacity
---@param plot table  what, title?, subtitle?, width, height, x, y, series, guides, description
---@param least? number  px, of the data's height
---@return tperf.Plot
function xy.new(plot, least)
  plot.right = 8
  plot.entries = plot.entries or entries_of(plot)
  axes.make_room(plot, least)
  plot.draw = function(c) draw(c, plot) end
  plot.lines = function(options) return text_lines(plot, options) end
  return figure.new(plot)
end

return xy
