--- Gantt charts: spans of time in lanes, such as the phases of requests.
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local format = require "tperf.output.format"
local guides = require "tperf.plot.draw.guides"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"
local terminal = require "tperf.output.terminal"
local xy = require "tperf.plot.xy"

local WHAT <const> = "plot.spans"
local MOST <const> = 20000 -- the most spans that browsers still draw smoothly
local LISTED <const> = 40 -- lanes that are written one by one; more get an axis of numbers

local schema = xy.schema({
  rows = check.any(), start = rows.field, stop = rows.field, lane = rows.field, series = rows.optional_field,
}, { "logx", "logy", "yunit" })

-- The spans of a group: { from, to, lane, title }; adds to the times and the lanes of all.
local function spans_of(columns, given, group, all)
  local spans = {}
  for _, r in ipairs(group.rows) do
    local from, to = rows.number(WHAT, columns.start, given, r), rows.number(WHAT, columns.stop, given, r)
    local lane
    if all.named then lane = columns.lane.get(given[r]) ~= nil and rows.name(WHAT, columns.lane, given, r) or nil
    else lane = rows.number(WHAT, columns.lane, given, r) end
    if from and to and lane then
      if to < from then
        check.fail("%s: row %d: '%s' is %s, before '%s', %s", WHAT, r, columns.stop.title or "stop", check.show(to),
          columns.start.title or "start", check.show(from))
      end
      all.times[#all.times + 1], all.times[#all.times + 2] = from, to
      if not all.seen[lane] then all.seen[lane], all.lanes[#all.lanes + 1] = true, lane end
      spans[#spans + 1] = { from = from, to = to, lane = lane, title = ("%s%s to %s"):format(
        group.name and group.name .. ": " or "", scale.number(from, columns.start.unit),
        scale.number(to, columns.start.unit)) }
    end
  end
  return spans
end

local function is_named(column, given)
  for _, row in ipairs(given) do
    if type(column.get(row)) == "string" and not column.quantities then return true end
  end
  return false
end

-- The smallest distance of two lanes.
local function least_gap(lanes)
  local gap = math.huge
  for i = 2, #lanes do gap = math.min(gap, lanes[i] - lanes[i - 1]) end
  return gap < math.huge and gap or 1
end

-- The lanes' axis, the first at the top: names or a few numbers one by one, else an axis of numbers, with half a lane
-- of room at both ends.
local function lane_scale(o, all, label)
  local lanes, s = all.lanes
  if not all.named then table.sort(lanes) end
  if all.named or #lanes <= LISTED and not o.ymin and not o.ymax then
    if o.ymin or o.ymax then check.fail("%s: 'ymin' and 'ymax' need lanes that are numbers", WHAT) end
    s = scale.band(lanes)
    s.title, s.sorted, s.label = label, not all.named, not all.named and scale.number or nil
    for _, tick in ipairs(s.ticks) do tick.label = s.label and s.label(tick.value) or tick.label end
  else
    all.gap = least_gap(lanes)
    s = xy.scale(WHAT, { lanes[1] - all.gap / 2, lanes[#lanes] + all.gap / 2 },
      { min = o.ymin, max = o.ymax, name = "y", label = label, zero = false })
  end
  return scale.flipped(s)
end

local BLOCKS <const>, LETTERS <const> = { "░", "▒", "█", "▓", "▚" }, { ".", "=", "#", "+", "%" }

-- The chart as text: one line per lane, evenly thinned out to fit; later spans overwrite earlier ones.
local function text(plot, lanes, how)
  local glyphs, width = how.ascii and LETTERS or BLOCKS, nil
  local low, high = plot.extent[1], plot.extent[2]
  local shown, out = math.min(#lanes, how.height), {}
  if plot.title then out[1], out[2] = terminal.bold(format.printable(plot.title), how.color), "" end
  local function cell(time) return (time - low) / math.max(high - low, 1e-300) * width end
  local gutter = 8
  for _, lane in ipairs(lanes) do
    gutter = math.max(gutter, type(lane.at) == "string" and math.min(24, format.width(format.printable(lane.at))) or 0)
  end
  width = how.width - gutter - 2
  local function label(at)
    local plain = type(at) == "string" and format.clip(format.printable(at), gutter) or format.number(at)
    return (" "):rep(gutter - format.width(plain)) .. plain
  end
  for i = 1, shown do
    local lane, cells = lanes[1 + (i - 1) * #lanes // shown], {}
    for column = 1, width do cells[column] = " " end
    for _, span in ipairs(lane) do
      local first = math.floor(cell(span.from)) + 1
      for column = first, math.min(math.max(first, math.ceil(cell(span.to))), width) do
        cells[column] = glyphs[(span.series - 1) % #glyphs + 1]
      end
    end
    out[#out + 1] = label(lane.at) .. "  " .. table.concat(cells):gsub(" +$", "")
  end
  out[#out + 1] = (" "):rep(gutter + 2) .. format.number(low, plot.unit)
    .. ("%" .. width - #format.number(low, plot.unit) .. "s"):format(format.number(high, plot.unit))
  local legend = {}
  for i, series in ipairs(plot.series) do
    legend[#legend + 1] = series.name and ("%s %s"):format(glyphs[(i - 1) % #glyphs + 1],
      format.printable(series.name)) or nil
  end
  if shown < #lanes then legend[#legend + 1] = ("(%d of %d lanes)"):format(shown, #lanes) end
  if legend[1] then out[#out + 1] = (" "):rep(gutter + 2) .. table.concat(legend, "   ") end
  return table.concat(out, "\n") .. "\n"
end

-- The spans of each lane, from the top.
local function by_lane(series, order)
  local lanes, list = {}, {}
  for i, lane in ipairs(order) do
    list[i] = { at = lane }
    lanes[lane] = list[i]
  end
  for i, one in ipairs(series) do
    for _, span in ipairs(one.spans) do
      table.insert(lanes[span.lane], { from = span.from, to = span.to, series = i })
    end
  end
  return list
end

--- A Gantt chart: durations to scale. Lanes are names, in the order of the rows, or numbers, the smallest at the top;
--- spans of one series share a colour, and later series are drawn over earlier ones. A row with nil in one of the three
--- fields is left out.
---@param options table
---  start, stop  fields: the beginning and the end of a span
---  lane         a field: the span's lane, a name or a number
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  guides.check(WHAT, o.guides)
  if #o.rows > MOST then check.fail("%s: %d spans are more than can be told apart: at most %d", WHAT, #o.rows, MOST) end
  local columns, series = {}, {}
  for _, name in ipairs { "start", "stop", "lane" } do
    columns[name] = rows.column(WHAT, o.rows, o[name], name ~= "lane" and o.xunit or nil)
  end
  local all = { times = {}, lanes = {}, seen = {}, named = is_named(columns.lane, o.rows) }
  local series_of = o.series and rows.column(WHAT, o.rows, o.series)
  for i, group in ipairs(rows.groups(WHAT, o.rows, series_of)) do
    series[i] = { name = group.name, spans = spans_of(columns, o.rows, group, all), points = {},
      look = { color = style.series(i).color } }
  end
  if #all.lanes == 0 then check.fail("%s: no row has a start, a stop and a lane", WHAT) end
  local plot = figure.start(WHAT, o)
  plot.x = xy.scale(WHAT, all.times, { unit = columns.start.unit, min = o.xmin, max = o.xmax, name = "x",
    label = o.xlabel or columns.start.title, zero = false })
  plot.y = lane_scale(o, all, o.ylabel or columns.lane.title or "")
  for _, one in ipairs(series) do one.gap = all.gap end
  plot.series, plot.guides = series, o.guides
  plot.unit, plot.extent = columns.start.unit, { rows.range(all.times) }
  plot.description = ("Gantt chart of %d spans in %d lanes."):format(#o.rows, #all.lanes)
  local made = xy.new(plot, plot.y.kind == "band" and (all.named and 15 or 10) * #all.lanes or nil)
  made.lines = function(how) return text(made, by_lane(series, all.lanes), how) end
  return made
end
