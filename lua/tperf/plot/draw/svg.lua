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
    if list[i + 1] then out[#out + 1] = string.format(' %s="%s"', list[i], html.xml(list[i + 1])) end
  end
  return table.concat(out)
end

local function element(name, look, content, ...)
  content = (look.title and "<title>" .. html.xml(look.title) .. "</title>" or "") .. (content or "")
  local head = "<" .. name .. attributes(...)
  return content == "" and head .. "/>\n" or head .. ">" .. content .. "</" .. name .. ">\n"
end

local draw = {}

function draw.line(shape, paint)
  local look, dash = shape.look, nil
  if look.dash and #look.dash > 0 then
    local parts = {}
    for i, length in ipairs(look.dash) do parts[i] = n(length) end
    dash = table.concat(parts, " ")
  end
  return element("path", look, "", "class", look.class, "d", path(shape.points, look.close), "fill", "none", "stroke",
    paint(look, style.ink), "stroke-opacity", look.opacity and n(look.opacity), "stroke-width", n(look.width or 1),
    "stroke-dasharray", dash, "stroke-linejoin", "round", "stroke-linecap", dash and "butt" or "round")
end

function draw.area(shape, paint)
  local look, parts = shape.look, {}
  for i, ring in ipairs(shape.rings) do parts[i] = path(ring, true) end
  return element("path", look, "", "class", look.class, "d", table.concat(parts), "fill", paint(look, style.ink),
    "fill-opacity", look.opacity and n(look.opacity))
end

function draw.circle(shape, paint)
  local look = shape.look
  local fill, stroke = paint(look, style.ink), nil
  if shape.ring then fill, stroke = paint { class = "tp-paper", color = style.paper }, fill end
  return element("circle", look, "", "class", shape.ring and "tp-paper" or look.class, "cx", n(shape.x),
    "cy", n(shape.y), "r", n(shape.radius), "fill", fill, "fill-opacity", look.opacity and n(look.opacity), "stroke",
    stroke, "stroke-width", stroke and n(0.47 * shape.radius))
end

function draw.text(shape, paint)
  local look = shape.look
  local turn = look.rotate and string.format("rotate(%s %s %s)", n(look.rotate), n(shape.x), n(shape.y))
  local class = look.class or not look.color and "tp-ink" or nil
  return element("text", look, html.xml(shape.text), "class", class,
    "x", n(shape.x), "y", n(shape.y), "fill", paint({ class = class, color = look.color }, style.ink),
    "font-size", look.size and look.size ~= style.size and n(look.size), "font-weight", look.bold and "bold",
    "text-anchor", look.anchor ~= "start" and look.anchor, "transform", turn)
end

-- What chooses the colour of a look: in the dark, that of its class there.
local function painter(dark)
  return function(look, default)
    return dark and style.dark[look.class] or look.color or default
  end
end

--- The picture as an SVG document.
---@param canvas tperf.Canvas
---@param title string        the accessible name
---@param description string  the accessible description
---@param how? { theme: string?, font: string? }  theme: "light" (default) or "dark"; font: preferred to the usual ones
---@return string
function svg.document(canvas, title, description, how)
  how = how or {}
  local w, h, paint = n(canvas.width), n(canvas.height), painter(how.theme == "dark")
  local font = (how.font and "'" .. how.font:gsub("['\"\\]", "") .. "', " or "") .. style.font
  local out = {
    string.format('<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img" '
      .. 'aria-label="%s" font-family="%s" font-size="%s">\n', w, h, w, h, html.xml(title), html.xml(font),
      n(style.size)),
    "<title>" .. html.xml(title) .. "</title>\n<desc>" .. html.xml(description) .. "</desc>\n",
    string.format('<rect class="tp-paper" width="%s" height="%s" fill="%s"/>\n', w, h,
      paint { class = "tp-paper", color = style.paper }),
  }
  for _, shape in ipairs(canvas.shapes) do out[#out + 1] = draw[shape.kind](shape, paint) end
  out[#out + 1] = "</svg>\n"
  return table.concat(out)
end

return svg
