--- A picture as a list of simple shapes in pixels, y downwards; svg.lua writes it.
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
  return setmetatable({ width = width, height = height, shapes = {}, dx = 0, dy = 0, k = 1 }, canvas)
end

--- The same picture with the origin moved by (dx, dy), and everything drawn on it `zoom` times as large.
---@param dx number  px
---@param dy number  px
---@param zoom? number
---@return tperf.Canvas
function canvas:moved(dx, dy, zoom)
  return setmetatable({ width = self.width, height = self.height, shapes = self.shapes, dx = self.dx + self.k * dx,
    dy = self.dy + self.k * dy, k = self.k * (zoom or 1) }, canvas)
end

local function add(self, kind, shape)
  shape.kind = kind
  self.shapes[#self.shapes + 1] = shape
end

local function shifted(self, points)
  local out, k = {}, self.k
  for i = 1, #points, 2 do out[i], out[i + 1] = k * points[i] + self.dx, k * points[i + 1] + self.dy end
  return out
end

-- A look whose lengths are scaled as the canvas is.
local function scaled(self, look)
  local k = self.k
  if k == 1 then return look end
  local out = {}
  for name, value in pairs(look) do out[name] = value end
  out.width, out.size = (look.width or 1) * k, (look.size or style.size) * k
  if look.dash then
    out.dash = {}
    for i, length in ipairs(look.dash) do out.dash[i] = length * k end
  end
  return out
end

--- Adds a line through points { x1, y1, x2, y2, … }; look: { color, width, dash, class, title, opacity }.
function canvas:line(points, look)
  if #points < 4 then return end
  add(self, "line", { points = shifted(self, points), look = scaled(self, look) })
end

--- Adds a filled area of one ring { x1, y1, … } or several; look: { color, class, title, opacity }.
function canvas:area(rings, look)
  if type(rings[1]) == "number" then rings = { rings } end
  local out = {}
  for i, ring in ipairs(rings) do out[i] = shifted(self, ring) end
  if #out > 0 then add(self, "area", { rings = out, look = scaled(self, look) }) end
end

--- Adds a filled rectangle.
function canvas:rect(x, y, width, height, look)
  self:area({ x, y, x + width, y, x + width, y + height, x, y + height }, look)
end

--- Adds text on one line, its baseline at (x, y); look: { color, class, size, bold,
--- anchor = "start"|"middle"|"end", rotate = degrees, title }.
function canvas:text(x, y, text, look)
  if text == "" then return end
  add(self, "text", { x = self.k * x + self.dx, y = self.k * y + self.dy, text = format.printable(text),
    look = scaled(self, look or {}) })
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
    return add(self, "circle", { x = self.k * x + self.dx, y = self.k * y + self.dy, radius = self.k * radius,
      ring = shape == "ring", look = scaled(self, look) })
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

-- Where a word may be broken: after these characters.
local BREAKS <const> = "[-/_,;]"

-- The pieces of a text that stay whole, each with the blank that follows it.
local function pieces_of(text)
  local list = {}
  for word in text:gmatch "%S+" do
    local from = 1
    for at = 2, #word - 3 do -- not in "FLOP/s"
      if word:find("^" .. BREAKS .. "[%w\x80-\xFF]", at) and at - from >= 2 then
        list[#list + 1] = { word:sub(from, at), "" }
        from = at + 1
      end
    end
    list[#list + 1] = { word:sub(from), " " }
  end
  return list
end

-- The pieces of a full line that move to the next one: those after its last clause, if that fills most of the line.
local function carried(pieces, width, size)
  local line, cut = "", nil
  for i, piece in ipairs(pieces) do
    line = line .. piece[1] .. piece[2]
    if i < #pieces and piece[1]:find "[,;]$" and canvas.text_width(line, size) > 0.4 * width then cut = i end
  end
  return cut and table.move(pieces, cut + 1, #pieces, 1, {}) or {}, cut or #pieces
end

--- Breaks a text into lines of a width: after a clause if that fills most of a line, else between words, or after "-",
--- "/", "_" and the like.
---@param text string
---@param width number  px
---@param size? number  px
---@return string[] lines
---@return boolean fits  whether every line does
function canvas.wrap(text, width, size)
  local lines, pieces, fits = {}, {}, true
  local function joined(count)
    local line = {}
    for i = 1, count do line[2 * i - 1], line[2 * i] = pieces[i][1], pieces[i][2] end
    return table.concat(line)
  end
  local function finish(count)
    local line = joined(count):match "^(.-)%s*$"
    if line ~= "" then lines[#lines + 1], fits = line, fits and canvas.text_width(line, size) <= width end
  end
  for _, piece in ipairs(pieces_of(format.printable(text))) do
    if #pieces > 0 and canvas.text_width(joined(#pieces) .. piece[1], size) > width then
      local rest, count = carried(pieces, width, size)
      finish(count)
      pieces = rest
      if #pieces > 0 and canvas.text_width(joined(#pieces) .. piece[1], size) > width then
        finish(#pieces)
        pieces = {}
      end
    end
    pieces[#pieces + 1] = piece
  end
  finish(#pieces)
  return lines, fits
end

--- Truncates texts to a width as canvas.fit does, keeping those apart that differ.
---@param texts string[]
---@param width number  px
---@param size? number  px
---@return string[]
function canvas.fit_all(texts, width, size)
  local out, first = {}, {}
  for i, text in ipairs(texts) do
    local cut = canvas.fit(text, width, size, true)
    if first[cut] and texts[first[cut]] ~= text then -- what differs lies in the part that was cut
      local number = ("%d: "):format(i)
      cut = number .. canvas.fit(text, width - canvas.text_width(number, size), size, true)
    end
    first[cut], out[i] = first[cut] or i, cut
  end
  return out
end

return canvas
