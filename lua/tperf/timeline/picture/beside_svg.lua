--- Draws a measured step below the predicted one on one time axis: one row for compute and one for communication each;
-- below them bars for the ops that differ most.
local number = require "tperf.output.number"
local palette = require "tperf.timeline.picture.palette"
local units = require "tperf.base.units"

local WIDTH <const>, LEFT <const>, ROW <const>, GAP <const>, LEGEND <const> = 1000, 190, 26, 10, 22
local LEAST <const> = 0.3 -- pixels: narrower events merge with neighbours of the same kind

local COLOURS <const> = {
  ["matrix products"] = "#5b7fa6", attention = "#1d4f91", recurrences = "#6b9ad3", norms = "#9fb8cf",
  ["passes over elements"] = "#b8c4d0", copies = "#8d99ae", optimizer = "#588157", all_reduce = "#e2711d",
  all_gather = "#f09a3e", reduce_scatter = "#9d4edd", all_to_all = "#c1121f", messages = "#7f0d17",
  broadcast = "#d4a373",
}
local COMPUTES <const> = {
  ["matrix products"] = true, attention = true, recurrences = true, norms = true, ["passes over elements"] = true,
  copies = true, optimizer = true,
}

-- Draws the events of one row as rectangles, up to the step's length.
local function row(out, events, computes, y, scale, length)
  local last, from, to
  local function flush()
    if last then
      local width = math.max((to - from) * scale, LEAST)
      out[#out + 1] = ('<rect x="%s" y="%d" width="%s" height="%d" fill="%s"/>\n'):format(
        number.text(LEFT + from * scale), y, number.text(width), ROW, COLOURS[last])
    end
  end
  for _, e in ipairs(events) do
    if (COMPUTES[e.kind] or false) == computes and e.start < length then
      if e.kind == last and (e.start - to) * scale < LEAST then
        to = math.max(to, e.stop)
      else
        flush()
        last, from, to = e.kind, e.start, e.stop
      end
    end
  end
  flush()
end

local function label(out, x, y, text) out[#out + 1] = ('<text x="%d" y="%d">%s</text>\n'):format(x, y, text) end

local MOST_BARS <const>, BAR <const> = 12, 18

-- A bar for each of the ops that differ most; to the right of the middle if it took longer than predicted.
local function bars(out, b, y)
  local most, count = 0.0, math.min(#b.ops, MOST_BARS)
  for i = 1, count do most = math.max(most, math.abs(b.ops[i].difference)) end
  if most == 0.0 then return y end
  label(out, 8, y + 14, "Measured less predicted, by op")
  local middle, widest = 640, 250
  for i = 1, count do
    local r = b.ops[i]
    local top, width = y + 8 + i * BAR, math.abs(r.difference) / most * widest
    label(out, 8, top + 12, (r.op .. " " .. r.pass):gsub("&", "&amp;"):gsub("<", "&lt;"))
    out[#out + 1] = ('<rect x="%s" y="%d" width="%s" height="%d" fill="%s"/>\n'):format(
      number.text(r.difference < 0 and middle - width or middle), top, number.text(width), BAR - 4, COLOURS[r.kind])
    label(out, math.floor(middle + (r.difference < 0 and 6 or width + 6)), top + 12,
      (r.difference > 0 and "+" or "") .. units.format(r.difference, "s"))
  end
  return y + 20 + (count + 1) * BAR
end

--- The picture of a comparison with a trace, as returned by beside.of.
---@param b table
---@return string
return function(b)
  local length = math.max(b.predicted_time, b.measured_time)
  local scale, out, used = (WIDTH - LEFT - 20) / length, {}, {}
  local lanes = {
    { "predicted, compute", b.predicted, true }, { "predicted, communication", b.predicted, false },
    { "measured, compute", b.measured, true }, { "measured, communication", b.measured, false },
  }
  for i, lane in ipairs(lanes) do
    local y = 34 + (i - 1) * (ROW + GAP) + (i > 2 and 2 * GAP or 0)
    label(out, 8, y + 17, lane[1])
    row(out, lane[2], lane[3], y, scale, i > 2 and b.measured_time or length)
  end
  for _, r in ipairs(b.rows) do used[r.kind] = true end
  local y = 34 + 4 * (ROW + GAP) + 2 * GAP
  for _, tick in ipairs(palette.ticks(0, length, 8)) do
    label(out, math.floor(LEFT + tick * scale), y + 8, units.format(tick, "s"))
  end
  local x = 8
  for _, kind in ipairs(require "tperf.import.kineto".kinds) do
    if used[kind] then
      out[#out + 1] = ('<rect x="%d" y="%d" width="12" height="12" fill="%s"/>\n'):format(x, y + 20, COLOURS[kind])
      label(out, x + 16, y + 30, kind)
      x = x + 30 + 7 * #kind
    end
  end
  y = bars(out, b, y + 20 + LEGEND)
  local whats = b.part == "step" and "One step" or b.part == "pair" and "A pair of chunks" or "A " .. b.part .. " pass"
  local title = ("%s: predicted %s, measured %s"):format(whats, units.format(b.predicted_time, "s"),
    units.format(b.measured_time, "s"))
  local head = '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
    .. 'font-family="sans-serif" font-size="12">\n'
  return head:format(math.max(WIDTH, x), y) .. '<rect width="100%" height="100%" fill="#ffffff"/>\n'
    .. ('<text x="8" y="20" font-size="14">%s</text>\n'):format(title) .. table.concat(out) .. "</svg>\n"
end
