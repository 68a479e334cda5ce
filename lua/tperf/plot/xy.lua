--- Series of points on two numeric axes: the common part of line charts, scatter plots and rooflines.
local axes = require "tperf.plot.draw.axes"
local band = require "tperf.plot.draw.band"
local braille = require "tperf.plot.draw.braille"
local canvas = require "tperf.plot.draw.canvas"
local check = require "tperf.base.check"
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
function xy.schema(own)
  for _, name in ipairs { "xmin", "xmax", "ymin", "ymax" } do own[name] = check.number { optional = true } end
  own.logx, own.logy = xy.log_flag, xy.log_flag
  own.guides = check.list(check.record_of {
    x = check.number { optional = true },
    y = check.number { optional = true },
    f = check.func { optional = true },
    label = check.string { optional = true },
  }, { default = {} })
  return figure.schema(own)
end

local function is_power_of_two(value)
  return value > 0 and 2.0 ^ math.floor(math.log(value, 2) + 0.5) == value
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
  if lo > hi then check.fail("%s: %s: nothing lies between %smin and %smax", what, o.name, o.name, o.name) end
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

-- Candidate positions for a name of width w around its point: right, left, above, below.
local function positions(p, w, box)
  local middle = math.max(box.left + 1, math.min(p.px - w / 2, box.left + box.width - w - 1)) - p.px
  return { { 8, 4 }, { -8 - w, 4 }, { middle, -8 }, { middle, 18 } }
end

-- Labels points where there is room; a label that would cover something is left out (the tooltip has it).
local function point_labels(c, box, points, taken)
  for _, p in ipairs(points) do taken[#taken + 1] = { p.px - 4, p.py - 4, p.px + 4, p.py + 4 } end
  local named = {}
  for i, p in ipairs(points) do
    local text = p.label and not named[p] and canvas.fit(names_at(points, i, named), 170)
    local w = text and canvas.text_width(text) or 0
    for _, at in ipairs(text and positions(p, w, box) or {}) do
      local left, base = p.px + at[1], p.py + at[2]
      local area = { left, base - 10, left + w, base + 3 }
      if left > box.left and left + w < box.left + box.width and base - 10 > box.top
        and base < box.top + box.height and not overlaps(area, taken) then
        taken[#taken + 1] = area
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

local function draw_guides(c, box, plot, side, taken)
  for _, guide in ipairs(plot.guides) do
    local pieces = clip.line(guides.points(guide, plot.x, plot.y))
    for _, piece in ipairs(pieces) do
      into_box(box, piece)
      c:line(piece, { class = "tp-axis", color = style.soft, width = 1.2, dash = guide.solid and {} or { 5, 4 },
        title = guide.label })
      keep_clear(piece, taken)
    end
    local last = pieces[#pieces]
    if guide.label and last then
      if guide.along then
        name_along(c, last, guide.label)
      elseif guide.x then
        c:text(last[1] + 5, box.top + 12, guide.label, { class = "tp-soft", color = style.soft })
      else
        local look = { class = "tp-axis", color = style.soft, width = 1.2, dash = guide.solid and {} or { 5, 4 } }
        side[#side + 1] = { y = last[#last], text = guide.label, class = "tp-soft", color = style.soft,
          key = function(cc, lx, ly) cc:line({ lx, ly, lx + 26, ly }, look) end }
      end
    end
  end
end

local function draw_series(c, box, plot, series, side, labelled, taken)
  local look = series.look
  if series.connect then
    for _, run in ipairs(runs_of(series, plot.x, plot.y)) do
      for _, piece in ipairs(clip.line(run)) do
        into_box(box, piece)
        c:line(piece, { color = look.color, width = series.width or 2, dash = look.dash, title = series.name })
        keep_clear(piece, taken)
      end
    end
  end
  local last
  -- A point between two gaps needs its marker to be visible; else about 16 markers per line tell series apart.
  local stride = series.connect and math.max(1, #series.points // 16) or 1
  for i, point in ipairs(series.points) do
    if point.y then
      local u, v = plot.x.at(point.x), plot.y.at(point.y)
      if u >= -1e-9 and u <= 1 + 1e-9 and v >= -1e-9 and v <= 1 + 1e-9 then
        local px, py = box.left + u * box.width, box.top + (1 - v) * box.height
        local before, after = series.points[i - 1], series.points[i + 1]
        local alone = not (before and before.y) and not (after and after.y)
        if series.markers and (i % stride == 0 or alone or stride == 1) then
          local radius = point.radius or series.radius or 3.4
          c:marker(px, py, look.marker, radius, { color = look.color, title = point.title })
        end
        last = py
        labelled[#labelled + 1] = { px = px, py = py, label = point.label, title = point.title }
      end
    end
  end
  if series.name and last then
    side[#side + 1] = { y = last, text = series.name, key = function(cc, lx, ly)
      if series.connect then
        cc:line({ lx, ly, lx + 26, ly }, { color = look.color, width = series.width or 2, dash = look.dash })
      end
      if series.markers then cc:marker(lx + 13, ly, look.marker, 3.4, { color = look.color }) end
    end }
  end
end

local function draw(c, plot)
  local texts = {}
  for _, series in ipairs(plot.series) do texts[#texts + 1] = series.name end
  for _, guide in ipairs(plot.guides) do
    if not guide.x and not guide.along then texts[#texts + 1] = guide.label end
  end
  local room = axes.label_room(texts, plot.width)
  plot.right = #texts > 0 and room + 40 or 8
  local box = axes.layout(plot)
  box.label_room = room + 1
  axes.draw(c, plot, box)
  local side, labelled = {}, {}
  local taken = {}
  band.draw(c, box, plot, into_box)
  draw_guides(c, box, plot, side, taken)
  for _, series in ipairs(plot.series) do draw_series(c, box, plot, series, side, labelled, taken) end
  point_labels(c, box, labelled, taken)
  axes.side_labels(c, box, side)
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
--- series: { name?, points = { { x, y|nil, low?, high?, title?, label?, radius? } … }, look, connect, markers, width?,
---  radius? }
---@param plot table  what, title?, subtitle?, width, height, x, y, series, guides, description
---@return tperf.Plot
function xy.new(plot)
  local labels = 0
  for _, series in ipairs(plot.series) do labels = labels + (series.name and 1 or 0) end
  plot.height = math.max(plot.height, 15 * (labels + #plot.guides) + 110)
  plot.draw = function(c) draw(c, plot) end
  plot.lines = function(options) return text_lines(plot, options) end
  return figure.new(plot)
end

return xy
