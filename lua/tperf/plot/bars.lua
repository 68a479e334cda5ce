--- Bar charts: stacked or grouped, optionally with lines on a second axis.
local axes = require "tperf.plot.draw.axes"
local bars_text = require "tperf.plot.draw.bars_text"
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local format = require "tperf.output.format"
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
  local function part_of(title, column, of_rows)
    local part = { title = title, unit = column.unit, values = {}, from = {} }
    for _, r in ipairs(of_rows) do
      local name = rows.name(WHAT, x, o.rows, r)
      if part.from[name] then
        check.fail("%s: rows %d and %d both have %s for '%s'; one plot for each of report.groups(rows, …) tells them "
          .. "apart", WHAT, part.from[name], r, title or "a value", name)
      end
      local value = rows.number(WHAT, column, o.rows, r, o.logy)
      if value and value < 0 and o.mode == "stacked" then
        check.fail("%s: row %d: %s is %s; negative parts cannot be stacked (mode = \"grouped\" shows them)", WHAT, r,
          title or "a value", check.show(value))
      end
      part.values[name], part.from[name] = value, r
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

local function y_scale(o, names, parts, label)
  local values = {}
  for _, name in ipairs(names) do
    local sum = 0
    for _, part in ipairs(parts) do
      local value = part.values[name]
      if value and o.mode == "grouped" then values[#values + 1] = value end
      sum = sum + (value or 0)
    end
    if sum == math.huge then check.fail("%s: the parts of '%s' add up to more than a number can hold", WHAT, name) end
    if o.mode == "stacked" then values[#values + 1] = sum end
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

local function block(c, x, y, w, h, fill, title)
  if h <= 0 then return end
  c:rect(x, y, w, h, { color = fill.color, title = title })
  if fill.hatch then hatch(c, x, y, w, h, fill.hatch, style.luminance(fill.color) > 0.3 and "#333333" or "#ffffff") end
end

local function part_title(name, part, value)
  return string.format("%s%s: %s", name, part.title and ", " .. part.title or "", format.number(value, part.unit))
end

-- Draws the bars. Returns the height for each part's label: the middle of its piece of the last bar.
local function draw_bars(c, box, plot)
  local band = box.width / #plot.names
  local wide = math.min(0.78 * band, 90)
  local foot = plot.y.kind == "log" and 0 or plot.y.at(0)
  local function y_of(v) return box.top + (1 - v) * box.height end
  local beside = {}
  for i, name in ipairs(plot.names) do
    local left, sum = box.left + (i - 0.5) * band - wide / 2, 0
    for k, part in ipairs(plot.parts) do
      local value, fill = part.values[name], style.fill(k)
      if value and plot.mode == "stacked" then
        local low, high = y_of(sum == 0 and foot or plot.y.at(sum)), y_of(plot.y.at(sum + value))
        block(c, left, high, wide, low - high, fill, part_title(name, part, value))
        if low - high > 2 and sum > 0 then
          c:line({ left, low, left + wide, low }, { class = "tp-gap", color = style.paper, width = 1 })
        end
        sum, beside[k] = sum + value, (low + high) / 2
      elseif value then
        local w = wide / #plot.parts
        local a, b = y_of(plot.y.at(value)), y_of(foot)
        block(c, left + (k - 1) * w, math.min(a, b), math.max(1, w - 1), math.abs(a - b), fill,
          part_title(name, part, value))
        beside[k] = a
      end
    end
  end
  local zero = y_of(foot)
  if foot > 0 then c:line({ box.left, zero, box.left + box.width, zero }, { class = "tp-axis", color = style.axis }) end
  return beside
end

local function draw_lines(c, box, plot, side)
  local band = box.width / #plot.names
  for k, line in ipairs(plot.over) do
    local look = { color = style.ink, class = "tp-line", width = 2, dash = style.dashes[(k - 1) % #style.dashes + 1] }
    local marker = style.markers[(k - 1) % #style.markers + 1]
    local run, last = {}, nil
    local function flush()
      -- A pale outline separates the line from the bars that it crosses.
      c:line(run, { color = style.paper, class = "tp-gap", width = 4.5 })
      c:line(run, look)
      run = {}
    end
    local dots = {}
    for i, name in ipairs(plot.names) do
      local value = line.values[name]
      if value then
        local x, y = box.left + (i - 0.5) * band, box.top + (1 - plot.y2.at(value)) * box.height
        run[#run + 1], run[#run + 2] = x, y
        dots[#dots + 1] = { x, y, part_title(name, line, value) }
        last = y
      else
        flush()
      end
    end
    flush()
    for _, dot in ipairs(dots) do
      c:marker(dot[1], dot[2], marker, 5, { color = style.paper, class = "tp-paper" })
      c:marker(dot[1], dot[2], marker, 3.6, { color = style.ink, class = "tp-ink", title = dot[3] })
    end
    if last then
      side[#side + 1] = { y = last, text = (line.title or "line") .. " (right)", key = function(cc, x, y)
        cc:line({ x, y, x + 26, y }, look)
        cc:marker(x + 13, y, marker, 3.6, { color = style.ink, class = "tp-ink" })
      end }
    end
  end
end

local function draw(c, plot)
  local texts, labelled = {}, #plot.parts > 1 or #plot.over > 0
  for _, part in ipairs(labelled and plot.parts or {}) do texts[#texts + 1] = part.title or "bars" end
  for _, line in ipairs(plot.over) do texts[#texts + 1] = (line.title or "line") .. " (right)" end
  local room = axes.label_room(texts, plot.width)
  plot.right = labelled and room + 46 or 8
  local box = axes.layout(plot)
  box.label_room = room + 1
  if plot.y2 then box.labels_at = box.labels_at + 10 end
  axes.draw(c, plot, box)
  local beside, side = draw_bars(c, box, plot), {}
  for k, part in ipairs(labelled and plot.parts or {}) do
    if beside[k] then
      side[#side + 1] = { y = beside[k], text = part.title or "bars", key = function(cc, x, y)
        block(cc, x + 5, y - 6, 13, 12, style.fill(k))
      end }
    end
  end
  draw_lines(c, box, plot, side)
  axes.side_labels(c, box, side)
end

--- A bar chart: one bar for each x, made of several y fields (or of one y field, split by series), stacked
--- (mode = "stacked") or side by side (mode = "grouped"). share: every bar is scaled to 100 %. y2: fields drawn as
--- lines on a second axis, on the right. nil and NaN are left out.
---@param options table
---  y        a field, or a list of fields: the parts of a bar
---  mode     "stacked" (default) or "grouped"
---  share    true: every bar is scaled to 100 %
---  y2       a field or a list of fields, drawn as lines on a second axis
---  y2unit, y2label, logy2   for the second axis
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  if o.y == nil then check.fail("%s: 'y' is missing", WHAT) end
  if o.logy and o.mode == "stacked" then
    check.fail("%s: stacked parts cannot be read on a log axis; use mode = \"grouped\"", WHAT)
  end
  if o.share and o.mode == "grouped" then check.fail("%s: share = true needs mode = \"stacked\"", WHAT) end
  local x, ys, over = rows.column(WHAT, o.rows, o.x), list_of(o, o.y, o.yunit), list_of(o, o.y2, o.y2unit)
  local names, parts = table_of(o, x, ys)
  if o.share then to_shares(names, parts) end
  local label = o.ylabel or (o.share and "Share" or #parts == 1 and parts[1].title or #ys == 1 and ys[1].title or "")
  local plot = { what = WHAT, title = o.title, subtitle = o.subtitle, width = o.width, mode = o.mode, names = names,
    parts = parts, over = {}, x = scale.band(names), y = y_scale(o, names, parts, label) }
  plot.x.title = o.xlabel or x.title or ""
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
  plot.height = math.max(o.height, 15 * (#parts + #over) + 120)
  plot.draw = function(c) draw(c, plot) end
  plot.lines = function(how) return bars_text(how, plot) end
  local titles = {}
  for k, part in ipairs(parts) do titles[k] = part.title or "y" end
  plot.description = string.format("%s bars of %s for %d values of %s.", o.mode == "stacked" and "Stacked" or "Grouped",
    table.concat(titles, ", "), #names, plot.x.title)
  return figure.new(plot)
end
