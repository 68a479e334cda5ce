--- Writes a canvas as SVG: deterministic bytes, no ids (several pictures may share a page), no scripts.
local html = require "tperf.output.html"
local style = require "tperf.plot.draw.style"

local svg = {}

--- A coordinate with at most two decimals, never "-0".
---@param value number
---@return string
function svg.number(value)
  local text = string.format("%.2f", value):gsub("0+$", ""):gsub("%.$", "")
  return text == "-0" and "0" or text
end

local n = svg.number

local function path(points, close)
  local out = {}
  for i = 1, #points, 2 do out[#out + 1] = (i == 1 and "M" or "L") .. n(points[i]) .. " " .. n(points[i + 1]) end
  return table.concat(out) .. (close and "Z" or "")
end

-- Takes names and values in turn; leaves out nil and false.
local function attributes(...)
  local list, out = table.pack(...), {}
  for i = 1, list.n, 2 do
    if list[i + 1] then out[#out + 1] = string.format(' %s="%s"', list[i], html.escape(list[i + 1])) end
  end
  return table.concat(out)
end

local function element(name, look, content, ...)
  content = (look.title and "<title>" .. html.escape(look.title) .. "</title>" or "") .. (content or "")
  local head = "<" .. name .. attributes(...)
  return content == "" and head .. "/>\n" or head .. ">" .. content .. "</" .. name .. ">\n"
end

local draw = {}

function draw.line(shape)
  local look, dash = shape.look, nil
  if look.dash and #look.dash > 0 then
    local parts = {}
    for i, length in ipairs(look.dash) do parts[i] = n(length) end
    dash = table.concat(parts, " ")
  end
  return element("path", look, "", "class", look.class, "d", path(shape.points, look.close), "fill", "none", "stroke",
    look.color or style.ink, "stroke-width", n(look.width or 1), "stroke-dasharray", dash, "stroke-linejoin", "round",
    "stroke-linecap", dash and "butt" or "round")
end

function draw.area(shape)
  local look, parts = shape.look, {}
  for i, ring in ipairs(shape.rings) do parts[i] = path(ring, true) end
  return element("path", look, "", "class", look.class, "d", table.concat(parts), "fill", look.color or style.ink,
    "fill-opacity", look.opacity and n(look.opacity))
end

function draw.circle(shape)
  local look = shape.look
  local fill, stroke = look.color, nil
  if shape.ring then fill, stroke = style.paper, look.color end
  return element("circle", look, "", "class", shape.ring and "tp-paper" or look.class, "cx", n(shape.x),
    "cy", n(shape.y), "r", n(shape.radius), "fill", fill, "stroke", stroke, "stroke-width", stroke and "1.6")
end

function draw.text(shape)
  local look = shape.look
  local turn = look.rotate and string.format("rotate(%s %s %s)", n(look.rotate), n(shape.x), n(shape.y))
  return element("text", look, html.escape(shape.text), "class", look.class or not look.color and "tp-ink",
    "x", n(shape.x), "y", n(shape.y), "fill", look.color or style.ink,
    "font-size", look.size and look.size ~= style.size and n(look.size), "font-weight", look.bold and "bold",
    "text-anchor", look.anchor ~= "start" and look.anchor, "transform", turn)
end

--- The picture as an SVG document.
---@param canvas tperf.Canvas
---@param title string        the accessible name
---@param description string  the accessible description
---@return string
function svg.document(canvas, title, description)
  local w, h = n(canvas.width), n(canvas.height)
  local out = {
    string.format('<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" '
      .. 'aria-label="%s" font-family="%s" font-size="%s">\n', w, h, w, h, html.escape(title), html.escape(style.font),
      n(style.size)),
    "<title>" .. html.escape(title) .. "</title>\n<desc>" .. html.escape(description) .. "</desc>\n",
    string.format('<rect class="tp-paper" width="%s" height="%s" fill="%s"/>\n', w, h, style.paper),
  }
  for _, shape in ipairs(canvas.shapes) do out[#out + 1] = draw[shape.kind](shape) end
  out[#out + 1] = "</svg>\n"
  return table.concat(out)
end

return svg
