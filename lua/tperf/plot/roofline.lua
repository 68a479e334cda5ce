--- Rooflines (Williams, Waterman, Patterson: "Roofline", CACM 52(4), 2009): kernels against a machine's peaks.
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"
local rows = require "tperf.plot.draw.rows"
local scale = require "tperf.plot.draw.scale"
local style = require "tperf.plot.draw.style"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")
local guides = require "tperf.plot.draw.guides"
local xy = require "tperf.plot.xy"

local WHAT = "plot.roofline"

local title = check.string { optional = true }

local schema = xy.schema {
  rows = check.any {},
  name = check.one_of(check.string { default = "name" }, check.func {}),
  flops = check.one_of(check.string { default = "flops" }, check.func {}),
  bytes = check.one_of(check.string { default = "bytes" }, check.func {}),
  time = check.one_of(check.string { default = "time" }, check.func {}),
  series = rows.optional_field,
  system = check.any { optional = true },
  dtype = check.string { default = "bf16" },
  peaks = check.list(check.record_of { title = title, flops = check.number { above = 0, unit = "FLOP/s" } },
    { min = 1, optional = true }),
  bandwidths = check.list(check.record_of { title = title, bytes = check.number { above = 0, unit = "bytes/s" } },
    { min = 1, optional = true }),
}

local function titled(name, value, unit)
  return (name and name .. " " or "") .. scale.number(value, unit, 3)
end

-- The roofs given, or those of the system: datasheet peaks, without the model's efficiencies.
local function roofs_of(o)
  if not o.system then
    if not o.peaks or not o.bandwidths then check.fail("%s needs a system, or peaks and bandwidths", WHAT) end
    return o.peaks, o.bandwidths
  end
  local accelerator = system(o.system).accelerator
  local peaks = {}
  for _, unit in ipairs { "tensor", "vector" } do
    local flops = accelerator[unit][o.dtype]
    if flops then peaks[#peaks + 1] = { title = unit, flops = flops } end
  end
  if #peaks == 0 then check.fail("%s: the system has no peak for dtype '%s'", WHAT, o.dtype) end
  return o.peaks or peaks, o.bandwidths or { { title = "HBM", bytes = accelerator.hbm.bandwidth } }
end

-- Kernels as points. Kernels without FLOPs or memory traffic cannot be drawn on log axes and are listed in a note.
local function points_of(o, fields, group, best)
  local points, left_out = {}, 0
  for _, r in ipairs(group.rows) do
    local flops, bytes = rows.number(WHAT, fields.flops, o.rows, r), rows.number(WHAT, fields.bytes, o.rows, r)
    local time = rows.number(WHAT, fields.time, o.rows, r)
    for name, value in pairs { flops = flops or 0, bytes = bytes or 0 } do
      if value < 0 then check.fail("%s: row %d: %s is %s, below zero", WHAT, r, name, check.show(value)) end
    end
    if time and time <= 0 then
      check.fail("%s: row %d: time is %s, and must be above zero", WHAT, r, check.show(time))
    end
    if not flops or not bytes or flops == 0 or bytes == 0 then
      left_out = left_out + 1
    else
      local intensity = flops / bytes
      local speed = time and flops / time or math.min(best.flops, best.bytes * intensity)
      local name = fields.name.get(o.rows[r])
      name = name ~= nil and rows.name(WHAT, fields.name, o.rows, r) or nil
      points[#points + 1] = { x = intensity, y = speed, label = name, title = string.format("%s%s FLOP/byte, %s%s",
        name and name .. ": " or "", scale.number(intensity, nil, 3), scale.number(speed, "FLOP/s"),
        time and "" or " at most") }
    end
  end
  return points, left_out
end

--- Kernels below a machine's roofline: FLOP/s against FLOP per byte, both on log axes. Each row has flops, bytes (to
--- and from memory) and time (seconds; without it the kernel is drawn on the roof), or the fields or functions named
--- instead. The roofs are those of a system (name, path or tperf.system) for a dtype ("bf16"), or
--- peaks: { { title = "tensor", flops = 312e12 }, … } and bandwidths: { { title = "HBM", bytes = 2e12 }, … }, also as
--- "312 TFLOP/s" and "2 TB/s".
---@param options table
---  name, flops, bytes, time   fields, paths or functions of the row; default: the fields of these names
---  system      the machine: a name, a file or a table
---  dtype       the precision of its peaks ("bf16")
---  peaks       instead of a system's: { { title =, flops = } … }
---  bandwidths  { { title =, bytes = } … }, bytes/s
---@return tperf.Plot
return function(options)
  local o = check.record(WHAT, options, schema)
  rows.check(WHAT, o.rows)
  guides.check(WHAT, o.guides, true, true)
  local fields = {}
  for _, name in ipairs { "flops", "bytes" } do fields[name] = rows.column(WHAT, o.rows, o[name]) end
  -- No row needs a name or a time.
  for _, name in ipairs { "name", "time" } do
    local given = options[name] ~= nil
    fields[name] = given and rows.column(WHAT, o.rows, o[name])
      or { title = name, get = function(row) return row[name] end }
  end
  local peaks, bandwidths = roofs_of(o)
  local best = { flops = 0, bytes = 0 }
  for _, peak in ipairs(peaks) do best.flops = math.max(best.flops, peak.flops) end
  for _, band in ipairs(bandwidths) do best.bytes = math.max(best.bytes, band.bytes) end
  local series, xs, ys, left_out = {}, { best.flops / best.bytes }, { best.flops }, 0
  for i, group in ipairs(rows.groups(WHAT, o.rows, o.series and rows.column(WHAT, o.rows, o.series))) do
    local points, without = points_of(o, fields, group, best)
    left_out = left_out + without
    series[i] = { name = group.name, points = points, look = style.series(i), markers = true, radius = 4.5 }
    for _, point in ipairs(points) do xs[#xs + 1], ys[#ys + 1] = point.x, point.y end
  end
  local lines = {}
  for _, peak in ipairs(peaks) do
    lines[#lines + 1] = { solid = true, label = titled(peak.title, peak.flops, "FLOP/s"),
      path = { peak.flops / best.bytes, peak.flops, 1e300, peak.flops } }
    xs[#xs + 1] = 4 * peak.flops / best.bytes
  end
  for _, band in ipairs(bandwidths) do
    lines[#lines + 1] = { solid = true, along = true, label = titled(band.title, band.bytes, "bytes/s"),
      path = { 1e-300, 1e-300 * band.bytes, best.flops / band.bytes, best.flops } }
  end
  for _, guide in ipairs(o.guides) do lines[#lines + 1] = guide end
  local lo, hi = rows.range(xs)
  xs[#xs + 1], xs[#xs + 2] = lo / 2, 4 * hi -- room for names
  ys[#ys + 1] = math.min(best.flops, best.bytes * lo / 2)
  local subtitle = o.subtitle
  if left_out > 0 then
    local note = string.format("%d of %d without arithmetic or memory traffic not shown", left_out, #o.rows)
    subtitle = subtitle and subtitle .. "; " .. note or note
  end
  local plot = figure.start(WHAT, o)
  plot.subtitle, plot.series, plot.guides = subtitle, series, lines
  plot.x = xy.scale(WHAT, xs, { log = 10, min = o.xmin, max = o.xmax, name = "x",
    label = o.xlabel or "arithmetic intensity (FLOP/byte)" })
  plot.y = xy.scale(WHAT, ys, { log = 10, unit = "FLOP/s", min = o.ymin, max = o.ymax, name = "y",
    label = o.ylabel or "attained speed" })
  plot.description = string.format("Roofline of %d kernels; peak %s, bandwidth %s.", #o.rows - left_out,
    scale.number(best.flops, "FLOP/s"), scale.number(best.bytes, "bytes/s"))
  return xy.new(plot)
end
