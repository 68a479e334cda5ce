--- Bar charts: stacked or grouped, optionally with lines on a second axis.
local axes = require "tperf.plot.draw.axes"
local bars_text = require "tperf.plot.draw.bars_text"
local check = require "tperf.base.check"
local errors = require "tperf.plot.draw.errors"
local figure = require "tperf.plot.figure"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"
local xy = require "tperf.plot.xy"

local WHAT = "plot.bars"

local fields = check.one_of(rows.optional_field, check.list(rows.field, { min = 1 }))

local schema = figure.schema {
  rows = check.any {},
  x = rows.field,
  y = fields,
  series = rows.optional_field,
  mode = check.choice { { "stacked", "grouped" }, default = "stacked" },
  share = check.boolean { default = false },
  logy = xy.log_flag,
  y2 = fields,
  y2unit = check.string { optional = true },
  y2label = check.string { optional = true, empty = true },
  logy2 = xy.log_flag,
  horizontal = check.boolean { default = false },
  low = rows.optional_field, high = rows.optional_field,
}

local function list_of(o, field, unit)
  local list = {}
  if field == nil then return list end
  for i, one in ipairs((type(field) == "table" and not field.key) and field or { field }) do
    list[i] = rows.column(WHAT, o.rows, one, unit)
  end
  rows.shorten(list)
  return list
end

-- The names on the x axis, and the parts of the bars (one per y field or series), each with its value for each name.
local function table_of(o, x, ys)
  local names, parts, seen = {}, {}, {}
  local series_of = o.series and rows.column(WHAT, o.rows, o.series)
  if series_of and #ys > 1 then check.fail("%s takes several y fields or a series, not both", WHAT) end
  for r = 1, #o.rows do
    local name = rows.name(WHAT, x, o.rows, r)
    if not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  local low, high = o.low and rows.column(WHAT, o.rows, o.low, o.yunit), o.high
    and rows.column(WHAT, o.rows, o.high, o.yunit)
  local function part_of(title, column, of_rows)
    local part = { title = title, unit = column.unit, values = {}, from = {}, lows = {}, highs = {} }
    for _, r in ipairs(of_rows) do
      local name = rows.name(WHAT, x, o.rows, r)
      if part.from[name] then
        check.fail("%s: rows %d and %d both have %s for '%s'; one plot for each of report.groups(rows, …) tells them "
          .. "apart", WHAT, part.from[name], r, title or "a value", name)
      end
      local value = rows.number(WHAT, column, o.rows, r, o.logy)
      if value and value < 0 and o.share then
        check.fail("%s: row %d: %s is %s; a negative part has no share of a whole", WHAT, r, title or "a value",
          check.show(value))
      end
      part.values[name], part.from[name] = value, r
      part.lows[name], part.highs[name] = rows.interval(WHAT, low, high, o.rows, r, o.logy)
    end
    parts[#parts + 1] = part
  end
  for _, group in ipairs(rows.groups(WHAT, o.rows, series_of)) do
    for _, column in ipairs(ys) do part_of(group.name or column.title, column, group.rows) end
  end
  return names, parts
end

-- Converts the values to fractions of their bar's sum.
local function to_shares(names, parts)
  for _, name in ipairs(names) do
    local sum = 0
    for _, part in ipairs(parts) do sum = sum + (part.values[name] or 0) end
    for _, part in ipairs(parts) do
      part.values[name] = part.values[name] and (sum > 0 and part.values[name] / sum or 0)
    end
  end
  for _, part in ipairs(parts) do part.unit = "%" end
end

-- The sums of a bar's parts above and below zero.
local function sums(parts, name)
  local above, below = 0, 0
  for _, part in ipairs(parts) do
    local value = part.values[name] or 0
    if value > 0 then above = above + value else below = below + value end
  end
  return above, below
end

local function value_scale(o, names, parts, label)
  local values = {}
  for _, name in ipairs(names) do
    local above, below = sums(parts, name)
    if above - below == math.huge then
      check.fail("%s: the parts of '%s' add up to more than a number can hold", WHAT, name)
    end
    if o.mode == "stacked" then values[#values + 1], values[#values + 2] = above, below end
    for _, part in ipairs(parts) do
      if o.mode == "grouped" then values[#values + 1] = part.values[name] end
      values[#values + 1], values[#values + 2] = part.lows[name], part.highs[name]
    end
  end
  if o.logy then
    -- Bars on a log axis have no natural zero; they start at the power below the smallest value.
    local lo, hi = rows.range(values)
    if not lo then check.fail("%s: no row has a number for y", WHAT) end
    local base = xy.scale(WHAT, values, { log = o.logy, name = "y" }).base
    local foot, top = base ^ math.floor(math.log(lo, base) - 1e-9), base ^ math.ceil(math.log(hi, base) - 1e-9)
    return xy.scale(WHAT, values, { log = base, unit = parts[1].unit, name = "y", label = label,
      min = math.max(foot, scale.SMALLEST), max = math.min(top, scale.LARGEST) })
  end
  return xy.scale(WHAT, values, { unit = parts[1].unit, name = "y", label = label, zero = true, nice = true,
    max = o.share and 1 or nil, min = o.share and 0 or nil })
end

-- Hatches a rectangle with slanted lines 5 px apart, to tell fills apart without colour.
local function hatch(c, x, y, w, h, kind, color)
  local function slants(flip)
    for d = 5, w + h, 5 do
      local x1, y1, x2, y2 = math.min(d, w), math.max(0, d - w), math.max(0, d - h), math.min(d, h)
      if flip then x1, x2 = w - x1, w - x2 end
      c:line({ x + x1, y + y1, x + x2, y + y2 }, { color = color, width = 0.9 })
    end
  end
  if kind == "/" or kind == "x" then slants(false) end
  if kind == "\\" or kind == "x" then slants(true) end
end

local function block(c, x, y, w, h, fill, title, alpha)
  if h <= 0 or w <= 0 then return end
  c:rect(x, y, w, h, { color = fill.color, title = title, opacity = alpha })
  if fill.hatch then hatch(c, x, y, w, h, fill.hatch, style.luminance(fill.color) > 0.3 and "#333333" or "#ffffff") end
end

local function part_title(name, part, value)
  return string.format("%s%s: %s", name, part.title and ", " .. part.title or "", scale.number(value, part.unit))
end

-- The part of a bar between two values, at `from` px of the names' axis and `wide` px thick.
local function piece(c, box, plot, from, wide, low, high, fill, title)
  if plot.horizontal then
    return block(c, box.left + low * box.width, from, (high - low) * box.width, wide, fill, title, plot.alpha)
  end
  block(c, from, box.top + (1 - high) * box.height, wide, (high - low) * box.height, fill, title, plot.alpha)
end

-- A line of the paper's colour between two parts of a bar.
local function seam(c, box, plot, from, wide, at)
  local look = { class = "tp-gap", color = style.paper, width = 1 }
  if plot.horizontal then
    local x = box.left + at * box.width
    return c:line({ x, from, x, from + wide }, look)
  end
  local y = box.top + (1 - at) * box.height
  c:line({ from, y, from + wide, y }, look)
end

local ERROR <const> = { color = style.ink, class = "tp-line" }

local function error_bar(c, box, plot, middle, low, high)
  if not low then return end
  local at = plot.horizontal and 1 - (middle - box.top) / box.height or (middle - box.left) / box.width
  errors.draw(c, box, at, plot.value.at(low), plot.value.at(high), ERROR, plot.horizontal)
end

-- Draws a bar of stacked parts: upwards from zero those above it, downwards those below. Returns the middle of each.
local function draw_stack(c, box, plot, name, from, wide, foot)
  local above, below, middles = 0, 0, {}
  for k, part in ipairs(plot.parts) do
    local value = part.values[name]
    if value then
      local start = value < 0 and below or above
      local a, b = start == 0 and foot or plot.value.at(start), plot.value.at(start + value)
      local low, high = math.min(a, b), math.max(a, b)
      piece(c, box, plot, from, wide, low, high, style.fill(part.fill or k), part_title(name, part, value))
      if start ~= 0 and (high - low) * (plot.horizontal and box.width or box.height) > 2 then
        seam(c, box, plot, from, wide, a)
      end
      if value < 0 then below = below + value else above = above + value end
      middles[k] = (low + high) / 2
    end
  end
  for _, part in ipairs(plot.parts) do
    error_bar(c, box, plot, from + wide / 2, part.lows[name], part.highs[name])
  end
  return middles
end

-- Draws a group of bars. Returns the end of each.
local function draw_group(c, box, plot, name, from, wide, foot)
  local ends, w = {}, wide / #plot.parts
  for k, part in ipairs(plot.parts) do
    local value = part.values[name]
    if value then
      local at, start = plot.value.at(value), from + (k - 1) * w
      piece(c, box, plot, start, math.max(1, w - 1), math.min(at, foot), math.max(at, foot), style.fill(part.fill or k),
        part_title(name, part, value))
      error_bar(c, box, plot, start + math.max(1, w - 1) / 2, part.lows[name], part.highs[name])
      ends[k] = at
    end
  end
  return ends
end

-- Draws the bars, and notes for each part's label the height of its piece of the last bar.
local function draw_bars(c, box, plot)
  local band = (plot.horizontal and box.height or box.width) / #plot.category.ticks
  local wide = math.min(0.78 * band, 90)
  local foot = plot.value.kind == "log" and 0 or plot.value.at(0)
  local draw_one = plot.mode == "stacked" and draw_stack or draw_group
  for _, tick in ipairs(plot.category.ticks) do
    local at = plot.category.at(tick.value)
    local middle = plot.horizontal and box.top + (1 - at) * box.height or box.left + at * box.width
    local places = draw_one(c, box, plot, tick.value, middle - wide / 2, wide, foot)
    for k, part in ipairs(plot.horizontal and {} or plot.parts) do
      if part.entry and places[k] then part.entry.y = box.top + (1 - places[k]) * box.height end
    end
  end
  if foot <= 0 then return end
  local axis = { class = "tp-axis", color = style.axis }
  if plot.horizontal then
    local x = box.left + foot * box.width
    return c:line({ x, box.top, x, box.top + box.height }, axis)
  end
  local y = box.top + (1 - foot) * box.height
  c:line({ box.left, y, box.left + box.width, y }, axis)
end

local function line_look(k)
  return { color = style.ink, class = "tp-line", width = 2, dash = style.dashes[(k - 1) % #style.dashes + 1] },
    style.markers[(k - 1) % #style.markers + 1]
end

local function draw_lines(c, box, plot)
  for k, line in ipairs(plot.over) do
    local look, marker = line_look(k)
    local run, dots = {}, {}
    local function flush()
      -- A pale outline separates the line from the bars that it crosses.
      c:line(run, { color = style.paper, class = "tp-gap", width = 4.5 })
      c:line(run, look)
      run = {}
    end
    for _, tick in ipairs(plot.category.ticks) do
      local value = line.values[tick.value]
      if value then
        local x = box.left + plot.category.at(tick.value) * box.width
        local y = box.top + (1 - plot.y2.at(value)) * box.height
        run[#run + 1], run[#run + 2] = x, y
        dots[#dots + 1] = { x, y, part_title(tick.value, line, value) }
        line.entry.y = y
      else
        flush()
      end
    end
    flush()
    for _, dot in ipairs(dots) do
      c:marker(dot[1], dot[2], marker, 5, { color = style.paper, class = "tp-paper" })
      c:marker(dot[1], dot[2], marker, 3.6, { color = style.ink, class = "tp-ink", title = dot[3] })
    end
  end
end

-- The legend: an entry for each part, unless there is only one, and for each line.
local function entries_of(plot)
  local list = {}
  for k, part in ipairs((#plot.parts > 1 or #plot.over > 0) and plot.parts or {}) do
    part.entry = { text = part.title or "bars", key = function(c, x, y)
      block(c, x + 7, y - 6, 13, 12, style.fill(part.fill or k), nil, plot.alpha)
    end }
    list[#list + 1] = part.entry
  end
  for k, line in ipairs(plot.over) do
    line.entry = { text = (line.title or "line") .. " (right)", key = function(c, x, y)
      local look, marker = line_look(k)
      c:line({ x, y, x + 26, y }, look)
      c:marker(x + 13, y, marker, 3.6, { color = style.ink, class = "tp-ink" })
    end }
    list[#list + 1] = line.entry
  end
  return list
end

local function draw(c, plot)
  local box = axes.layout(plot)
  axes.draw(c, plot, box)
  draw_bars(c, box, plot)
  draw_lines(c, box, plot)
  axes.side_labels(c, plot, box)
end

-- Refuses arguments that do not go together.
local function check_options(o, several)
  if o.y == nil then check.fail("%s: 'y' is missing", WHAT) end
  if o.logy and o.mode == "stacked" then
    check.fail("%s: stacked parts cannot be read on a log axis; use mode = \"grouped\"", WHAT)
  end
  if o.share and o.mode == "grouped" then check.fail("%s: share = true needs mode = \"stacked\"", WHAT) end
  if o.horizontal and o.y2 then check.fail("%s: 'y2' has no place beside horizontal bars", WHAT) end
  if (o.low == nil) ~= (o.high == nil) then check.fail("%s: 'low' and 'high' go together", WHAT) end
  if o.low and o.share then check.fail("%s: 'low' and 'high' are no shares; leave out 'share'", WHAT) end
  if o.low and several then
    check.fail("%s: 'low' and 'high' belong to one y field; parts of a stack have no interval of their own "
      .. "(mode = \"grouped\" with one y field and a series has)", WHAT)
  end
end

-- The bars' axes: the names along one, the values along the other.
local function set_axes(plot, o, names, value, title)
  local category = scale.band(names)
  category.title = title
  if o.horizontal then -- the first name at the top
    plot.x, plot.y = value, scale.flipped(category)
  else
    plot.x, plot.y = category, value
  end
  plot.category, plot.value = category, value
end

-- The lines over the bars, and their axis.
local function add_lines(plot, o, x, over)
  local values = {}
  for k, column in ipairs(over) do
    local line = { title = column.title, unit = column.unit, values = {} }
    for r = 1, #o.rows do
      local value = rows.number(WHAT, column, o.rows, r, o.logy2)
      local name = rows.name(WHAT, x, o.rows, r)
      line.values[name] = line.values[name] or value
      values[#values + 1] = value
    end
    plot.over[k] = line
  end
  if #over > 0 then
    plot.y2 = xy.scale(WHAT, values, { log = o.logy2, unit = over[1].unit, name = "y2", nice = true,
      label = o.y2label or (#over == 1 and over[1].title or "") })
  end
end

--- A bar chart: one bar for each x, made of several y fields (or of one y field, split by series), stacked
--- (mode = "stacked") or side by side (mode = "grouped"). Negative parts are stacked below zero. share: every bar is
--- scaled to 100 %. y2: fields drawn as lines on a second axis, on the right. nil and NaN are left out.
---@param options table
---  y        a field, or a list of fields: the parts of a bar
---  mode     "stacked" (default) or "grouped"
---  share    true: every bar is scaled to 100 %
---  horizontal  true: bars to the right, the first at the top; suits long names
---  low, high   fields with the ends of an error bar, such as "interval.low" and "interval.high"
---  y2       a field or a list of fields, drawn as lines on a second axis
---  y2unit, y2label, logy2   for the second axis
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  local x, ys, over = rows.column(WHAT, o.rows, o.x), list_of(o, o.y, o.yunit), list_of(o, o.y2, o.y2unit)
  check_options(o, #ys > 1 or o.series and o.mode == "stacked")
  local names, parts = table_of(o, x, ys)
  if o.share then to_shares(names, parts) end
  local label = o.ylabel or (o.share and "Share" or #parts == 1 and parts[1].title or #ys == 1 and ys[1].title or "")
  local plot = figure.start(WHAT, o)
  plot.mode, plot.horizontal, plot.names, plot.parts, plot.over = o.mode, o.horizontal, names, parts, {}
  set_axes(plot, o, names, value_scale(o, names, parts, label), o.xlabel or x.title or "")
  add_lines(plot, o, x, over)
  plot.right = 8
  plot.entries = entries_of(plot)
  axes.make_room(plot, plot.horizontal and 16 * #names or nil)
  plot.draw = function(c) draw(c, plot) end
  plot.lines = function(how) return bars_text(how, plot) end
  local titles = {}
  for k, part in ipairs(parts) do titles[k] = part.title or "y" end
  plot.description = string.format("%s bars of %s for %d values of %s.", o.mode == "stacked" and "Stacked" or "Grouped",
    table.concat(titles, ", "), #names, plot.category.title)
  return figure.new(plot)
end
