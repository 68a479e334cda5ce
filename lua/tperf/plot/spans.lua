--- Gantt charts: spans of time in lanes, such as the phases of requests.
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local format = require "tperf.output.format"
local guides = require "tperf.plot.draw.guides"
local rows = require "tperf.plot.draw.rows"
local style = require "tperf.plot.draw.style"
local terminal = require "tperf.output.terminal"
local xy = require "tperf.plot.xy"

local WHAT <const> = "plot.spans"
local MOST <const> = 20000 -- the most spans that browsers still draw smoothly
local THINNEST <const>, THICKEST <const> = 0.6, 14 -- px
local FRAME <const> = 110 -- px of the height taken by axes and titles

local schema = xy.schema {
  rows = check.any(), start = rows.field, stop = rows.field, lane = rows.field, series = rows.optional_field,
}

schema.logx, schema.logy = nil, nil

-- Each span as two points followed by a gap.
local function points_of(columns, given, group, extent)
  local points = {}
  for _, r in ipairs(group.rows) do
    local function number(name) return rows.number(WHAT, columns[name], given, r) end
    local from, to, lane = number "start", number "stop", number "lane"
    if not (from and to and lane) then goto continue end
    if to < from then
      check.fail("%s: rows[%d] stops before it starts: %s = %s, %s = %s", WHAT, r,
        columns.start.title or "start", format.number(from, columns.start.unit), columns.stop.title or "stop",
        format.number(to, columns.start.unit))
    end
    extent.x[#extent.x + 1], extent.x[#extent.x + 2], extent.y[#extent.y + 1] = from, to, lane
    local title = ("%s%s to %s"):format(group.name and group.name .. ": " or "",
      format.number(from, columns.start.unit), format.number(to, columns.start.unit))
    points[#points + 1] = { x = from, y = lane, title = title }
    points[#points + 1] = { x = to, y = lane, title = title }
    points[#points + 1] = { x = to }
    ::continue::
  end
  return points
end

local function lanes_in(values)
  local seen, n = {}, 0
  for _, lane in ipairs(values) do
    n, seen[lane] = n + (seen[lane] and 0 or 1), true
  end
  return n
end

local BLOCKS <const>, LETTERS <const> = { "░", "▒", "█", "▓", "▚" }, { ".", "=", "#", "+", "%" }

-- The chart as text: one line per lane, evenly thinned out to fit; later spans overwrite earlier ones.
local function text(plot, lanes, how)
  local glyphs, width = how.ascii and LETTERS or BLOCKS, how.width - 10
  local low, high = plot.extent[1], plot.extent[2]
  local shown, out = math.min(#lanes, how.height), {}
  if plot.title then out[1], out[2] = terminal.bold(format.printable(plot.title), how.color), "" end
  local function cell(time) return (time - low) / math.max(high - low, 1e-300) * width end
  for i = 1, shown do
    local lane, cells = lanes[1 + (i - 1) * #lanes // shown], {}
    for column = 1, width do cells[column] = " " end
    for _, span in ipairs(lane) do
      local first = math.floor(cell(span.from)) + 1
      for column = first, math.min(math.max(first, math.ceil(cell(span.to))), width) do
        cells[column] = glyphs[(span.series - 1) % #glyphs + 1]
      end
    end
    out[#out + 1] = ("%8s  %s"):format(format.number(lane.at), table.concat(cells):gsub(" +$", "") .. "")
  end
  out[#out + 1] = (" "):rep(10) .. format.number(low, plot.unit)
    .. ("%" .. width - #format.number(low, plot.unit) .. "s"):format(format.number(high, plot.unit))
  local legend = {}
  for i, series in ipairs(plot.series) do
    legend[#legend + 1] = series.name and ("%s %s"):format(glyphs[(i - 1) % #glyphs + 1],
      format.printable(series.name)) or nil
  end
  if shown < #lanes then legend[#legend + 1] = ("(%d of %d lanes)"):format(shown, #lanes) end
  if legend[1] then out[#out + 1] = (" "):rep(10) .. table.concat(legend, "   ") end
  return table.concat(out, "\n") .. "\n"
end

-- The spans of each lane, from the top.
local function by_lane(series)
  local lanes, list = {}, {}
  for i, one in ipairs(series) do
    for k = 1, #one.points, 3 do
      local p, at = one.points[k], one.points[k].y
      if not lanes[at] then
        lanes[at] = { at = at }
        list[#list + 1] = lanes[at]
      end
      table.insert(lanes[at], { from = p.x, to = one.points[k + 1].x, series = i })
    end
  end
  table.sort(list, function(a, b) return a.at < b.at end)
  return list
end

--- A Gantt chart. Lanes are numbers, the smallest at the top; spans of one series share a colour, and later series are
--- drawn over earlier ones. A row with nil in one of the three fields is left out.
---@param options table
---  start, stop  fields: the beginning and the end of a span
---  lane         a field: the span's lane, the smallest number at the top
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  guides.check(WHAT, o.guides)
  if #o.rows > MOST then check.fail("%s: %d spans are more than can be told apart: at most %d", WHAT, #o.rows, MOST) end
  local columns, extent, all = {}, { x = {}, y = {} }, {}
  for _, name in ipairs { "start", "stop", "lane" } do
    columns[name] = rows.column(WHAT, o.rows, o[name], name ~= "lane" and o.xunit or nil)
  end
  local series_of = o.series and rows.column(WHAT, o.rows, o.series)
  for i, group in ipairs(rows.groups(WHAT, o.rows, series_of)) do
    all[i] = { name = group.name, points = points_of(columns, o.rows, group, extent), connect = true, markers = false,
      look = { color = style.series(i).color, dash = {}, marker = "square" } }
  end
  local thick = (o.height - FRAME) / math.max(lanes_in(extent.y), 1) * 0.8
  for _, series in ipairs(all) do series.width = math.max(THINNEST, math.min(THICKEST, thick)) end
  local plot = figure.start(WHAT, o)
  plot.x = xy.scale(WHAT, extent.x, { unit = columns.start.unit, min = o.xmin, max = o.xmax, name = "x",
    label = o.xlabel or columns.start.title, zero = false })
  plot.y = xy.scale(WHAT, extent.y, { min = o.ymin, max = o.ymax, name = "y", label = o.ylabel or columns.lane.title })
  local from_below = plot.y.at
  plot.y.at = function(lane) return 1 - from_below(lane) end
  plot.series, plot.guides = all, o.guides
  plot.unit, plot.extent = columns.start.unit, { rows.range(extent.x) }
  plot.description = ("Gantt chart of %d spans in %d lanes."):format(#o.rows, lanes_in(extent.y))
  local made = xy.new(plot)
  made.lines = function(how) return text(made, by_lane(all), how) end
  return made
end
