--- The band around a line, such as a confidence interval: a low and a high value at each point.
local style = require "tperf.plot.draw.style"

local band = {}

local OPACITY <const> = 0.15

local function clamped(v) return math.max(0, math.min(1, v)) end

-- One ring in the unit square per run of points that have both values: along the upper edge and back.
local function rings_of(points, x, y)
  local rings, upper, lower = {}, {}, {}
  local function close()
    if #upper > 2 then
      local ring = table.move(upper, 1, #upper, 1, {})
      for i = #lower - 1, 1, -2 do
        ring[#ring + 1], ring[#ring + 2] = lower[i], lower[i + 1]
      end
      rings[#rings + 1] = ring
    end
    upper, lower = {}, {}
  end
  for _, point in ipairs(points) do
    if not (point.banded and point.low and point.high) then
      close()
    else
      local u = clamped(x.at(point.x))
      upper[#upper + 1], upper[#upper + 2] = u, clamped(y.at(point.high))
      lower[#lower + 1], lower[#lower + 2] = u, clamped(y.at(point.low))
    end
  end
  close()
  return rings
end

--- Draws the bands of all series, below their lines.
---@param c tperf.Canvas
---@param box table
---@param plot table  x, y, series
---@param into_box fun(box: table, piece: number[])  maps from the unit square to the box, in place
function band.draw(c, box, plot, into_box)
  for _, series in ipairs(plot.series) do
    for _, ring in ipairs(rings_of(series.points, plot.x, plot.y)) do
      into_box(box, ring)
      c:area(ring, { color = series.look and series.look.color or style.soft, opacity = OPACITY })
    end
  end
end

return band
