--- A picture as a list of simple shapes in pixels, y downwards; svg.lua and gnuplot.lua write it to files.
local style = require "tperf.plot.draw.style"
local format = require "tperf.output.format"

---@class tperf.Canvas
local canvas = {}
canvas.__index = canvas

--- An empty picture.
---@param width number   px
---@param height number  px
---@return tperf.Canvas
function canvas.new(width, height)
  return setmetatable({ width = width, height = height, shapes = {}, dx = 0, dy = 0 }, canvas)
end

--- The same picture with the origin moved by (dx, dy).
function canvas:moved(dx, dy)
  return setmetatable({ width = self.width, height = self.height, shapes = self.shapes, dx = self.dx + dx,
    dy = self.dy + dy }, canvas)
end

local function add(self, kind, shape)
  shape.kind = kind
  self.shapes[#self.shapes + 1] = shape
end

local function shifted(self, points)
  local out = {}
  for i = 1, #points, 2 do out[i], out[i + 1] = points[i] + self.dx, points[i + 1] + self.dy end
  return out
end

--- Adds a line through points { x1, y1, x2, y2, … }; look: { color, width, dash, class, title }.
function canvas:line(points, look)
  if #points < 4 then return end
  add(self, "line", { points = shifted(self, points), look = look })
end

--- Adds a filled area of one ring { x1, y1, … } or several; look: { color, class, title, opacity }.
function canvas:area(rings, look)
  if type(rings[1]) == "number" then rings = { rings } end
  local out = {}
  for i, ring in ipairs(rings) do out[i] = shifted(self, ring) end
  if #out > 0 then add(self, "area", { rings = out, look = look }) end
end

--- Adds a filled rectangle.
function canvas:rect(x, y, width, height, look)
  self:area({ x, y, x + width, y, x + width, y + height, x, y + height }, look)
end

--- Adds text on one line, its baseline at (x, y); look: { color, class, size, bold,
--- anchor = "start"|"middle"|"end", rotate = degrees, title }.
function canvas:text(x, y, text, look)
  if text == "" then return end
  add(self, "text", { x = x + self.dx, y = y + self.dy, text = format.printable(text), look = look or {} })
end

-- Outlines of markers around (0, 0), radius 1, scaled to about equal areas.
local outlines = {
  square = { -0.89, -0.89, 0.89, -0.89, 0.89, 0.89, -0.89, 0.89 },
  triangle = { 0, -1.3, 1.2, 0.78, -1.2, 0.78 },
  diamond = { 0, -1.3, 1.3, 0, 0, 1.3, -1.3, 0 },
  cross = { -0.4, -1.2, 0.4, -1.2, 0.4, -0.4, 1.2, -0.4, 1.2, 0.4, 0.4, 0.4, 0.4, 1.2, -0.4, 1.2, -0.4, 0.4, -1.2, 0.4,
    -1.2, -0.4, -0.4, -0.4 },
}

--- Adds a marker: "circle", "square", "triangle", "diamond", "cross" or "ring"; look: { color, title }.
function canvas:marker(x, y, shape, radius, look)
  if shape == "circle" or shape == "ring" then
    return add(self, "circle", { x = x + self.dx, y = y + self.dy, radius = radius, ring = shape == "ring",
      look = look })
  end
  local points = {}
  for i, v in ipairs(outlines[shape]) do points[i] = v * radius + (i % 2 == 1 and x or y) end
  self:area(points, look)
end

-- Widths in em of DejaVu Sans, the widest font that readers are likely to have: text that fits in it fits in others.
local narrow, wide = {}, {}
local NARROWEST <const> = 0.38
for c in ("iljtfrI.,:;'|!()[]/ "):gmatch "." do narrow[c] = NARROWEST end
for c in ("mwMW@%"):gmatch "." do wide[c] = 0.95 end

--- The approximate width of a drawn text in px, over- rather than underestimated.
---@param text string
---@param size? number  px
---@return number
function canvas.text_width(text, size)
  local width = 0
  for c in format.printable(text):gmatch(utf8.charpattern) do
    width = width + (narrow[c] or wide[c] or #c == 1 and (c:find "%u" and 0.7 or 0.62)
      or 0.65 * math.max(1, format.width(c)))
  end
  return width * (size or style.size)
end

--- Truncates a text to a width. "…" marks the cut: at the end or, with keep_end, in the middle, as names often
--- differ only at their end.
---@param text string
---@param width number  px
---@param size? number  px
---@param keep_end? boolean
---@return string
function canvas.fit(text, width, size, keep_end)
  text = format.printable(text)
  if canvas.text_width(text, size) <= width then return text end
  local length = utf8.len(text)
  local most = width // (NARROWEST * (size or style.size)) -- an upper bound; spares trying a very long text
  for kept = math.floor(math.min(length - 1, most)), 0, -1 do
    local tail = keep_end and kept // 2 or 0
    local cut = text:sub(1, utf8.offset(text, kept - tail + 1) - 1):match "^(.-)%s*$" .. "…"
      .. text:sub(utf8.offset(text, length - tail + 1)):match "^%s*(.*)$"
    if canvas.text_width(cut, size) <= width then return cut end
  end
  return "…"
end

return canvas
