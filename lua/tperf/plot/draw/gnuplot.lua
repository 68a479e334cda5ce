--- Writes a canvas as PNG or PDF with gnuplot, from the same shapes as the SVG.
-- gnuplot scripts can run programs, and a canvas may come from a sandboxed script: every part of a canvas is checked
-- before it enters the script. gnuplot runs as a child with limits (src/io/process/child.c), without a shell and files.
local check = require "tperf.base.check"
local core = require "tperf.core"
local output = require "tperf.output.file"
local style = require "tperf.plot.draw.style"

local gnuplot = {}

local function number(value) return string.format("%.3f", value) end

local function color(value)
  value = value or style.ink
  if type(value) ~= "string" or not value:find "^#%x%x%x%x%x%x$" then error("a colour must be #rrggbb") end
  return "'" .. value .. "'"
end

-- In single quotes gnuplot interprets only the quote itself (a doubled quote at the end of a string is misread) and
-- the end of the line. A typographic quote needs no escape.
local function quoted(text) return "'" .. tostring(text):gsub("%c", " "):gsub("'", "’") .. "'" end

local function points_text(points)
  local out = {}
  for i = 1, #points, 2 do out[#out + 1] = number(points[i]) .. " " .. number(points[i + 1]) end
  return table.concat(out, "\n")
end

local function circle(shape, radius)
  local points = {}
  for i = 0, 23 do
    local angle = 2 * math.pi * i / 24
    points[#points + 1] = shape.x + radius * math.cos(angle)
    points[#points + 1] = shape.y + radius * math.sin(angle)
  end
  return points
end

local function filled(put, rings, look)
  local parts = {}
  for i, ring in ipairs(rings) do parts[i] = points_text(ring) end
  put(table.concat(parts, "\n\n\n"), string.format("with filledcurves closed fs %s noborder fc rgb %s",
    look.opacity and "transparent solid " .. number(look.opacity) or "solid 1", color(look.color)))
end

local draw = {}

function draw.line(shape, put, scale)
  local look, dash = shape.look, "solid"
  if look.dash and #look.dash > 0 then
    local parts = {}
    -- gnuplot measures dashes in half line widths, and its round caps lengthen each by one line width.
    local lengths = #look.dash % 2 == 0 and look.dash or { table.unpack(look.dash), table.unpack(look.dash) }
    local width = look.width or 1
    for i, length in ipairs(lengths) do
      parts[i] = number(math.max(0.1, length + (i % 2 == 1 and -width or width)) / 0.5)
    end
    dash = "(" .. table.concat(parts, ",") .. ")"
  end
  local points = shape.points
  put(points_text(points) .. (look.close and "\n" .. points_text { points[1], points[2] } or ""),
    string.format("with lines lw %s dt %s lc rgb %s", number((look.width or 1) * scale), dash, color(look.color)))
end

function draw.area(shape, put) filled(put, shape.rings, shape.look) end

function draw.circle(shape, put, scale)
  if not shape.ring then return filled(put, { circle(shape, shape.radius) }, shape.look) end
  filled(put, { circle(shape, shape.radius) }, { color = style.paper })
  local edge = { color = shape.look.color, width = 1.6, close = true }
  draw.line({ points = circle(shape, shape.radius), look = edge }, put, scale)
end

local anchors = { start = "left", middle = "center", ["end"] = "right" }

local function label(shape, font_scale)
  local look = shape.look
  local size = look.size or style.size
  -- gnuplot centres a label vertically; the canvas gives its baseline.
  local angle = math.rad(look.rotate or 0)
  local x, y = shape.x + 0.35 * size * math.sin(angle), shape.y - 0.35 * size * math.cos(angle)
  return string.format("set label %s at %s,%s %s rotate by %s font '%s,%s' tc rgb %s noenhanced front\n",
    quoted(shape.text), number(x), number(y), anchors[look.anchor or "start"] or "left", number(-(look.rotate or 0)),
    look.bold and "Sans:Bold" or "Sans", number(size * font_scale), color(look.color))
end

-- Terminal, font scale and line scale: one px of the canvas is 2 px of the PNG and 1/72 inch of the PDF.
local terminals = {
  png = { "set terminal pngcairo rounded size %d,%d background rgb %s\n", 2, 1.5, 2 },
  pdf = { "set terminal pdfcairo rounded size %.4fin,%.4fin background rgb %s\n", 1 / 72, 1, 2 },
}

-- The gnuplot script that draws a canvas to standard output. Neighbours that look alike share a block, since gnuplot
-- looks for each block from the first on.
local function script_of(canvas, kind)
  local terminal, pixel, font, line = table.unpack(terminals[kind])
  local w, h = canvas.width, canvas.height
  if kind == "png" then w, h = math.floor(w * pixel), math.floor(h * pixel) else w, h = w * pixel, h * pixel end
  local blocks, plots, labels = {}, {}, {}
  local parts, look = {}, nil
  local function finish()
    if not look then return end
    blocks[#blocks + 1] = string.format("$d%d << EOD\n%s\nEOD\n", #blocks + 1, table.concat(parts, "\n\n\n"))
    plots[#plots + 1] = string.format("$d%d %s", #blocks, look)
    parts, look = {}, nil
  end
  local function put(data, how)
    if how ~= look then finish() end
    parts[#parts + 1], look = data, how
  end
  for _, shape in ipairs(canvas.shapes) do
    if shape.kind == "text" then labels[#labels + 1] = label(shape, font) else draw[shape.kind](shape, put, line) end
  end
  if #plots == 0 and not look then put("0 0", "with dots") end
  finish()
  return table.concat {
    "set encoding utf8\n", string.format(terminal, w, h, color(style.paper)),
    "unset border\nunset tics\nunset key\nset lmargin at screen 0\nset rmargin at screen 1\nset tmargin at screen 1\n",
    "set bmargin at screen 0\n", string.format("set xrange [0:%s]\nset yrange [%s:0]\n", number(canvas.width),
      number(canvas.height)),
    table.concat(labels), table.concat(blocks), "plot ", table.concat(plots, ", \\\n  "), "\n",
  }
end

-- Blanks the creation date in a PDF, so that the same plot gives the same bytes.
local function timeless(bytes)
  local function zeros(date) return "/CreationDate (" .. ("0"):rep(#date) .. ")" end
  return (bytes:gsub("/CreationDate %(([^)]*)%)", zeros))
end

local INSTALL <const> = "gnuplot, which draws PNG and PDF, is not installed; save as .svg, or install it "
  .. "(Debian, Ubuntu: apt-get install gnuplot-nox)"

local function fail(path, why)
  if why == "interrupted" then check.fail "interrupted" end
  check.fail("cannot write '%s': %s", path, why == "missing" and INSTALL or "gnuplot could not draw it within 60 s and "
    .. "1 GiB; save as .svg, or draw fewer points")
end

--- Raises if gnuplot is not installed.
---@param path string  the picture to be written, for the message
function gnuplot.check(path)
  local works, why = core.file.gnuplot "exit\n"
  if not works then fail(path, why) end
end

--- Draws a canvas with gnuplot.
---@param canvas tperf.Canvas
---@param path string
---@param kind "png"|"pdf"
function gnuplot.save(canvas, path, kind)
  local bytes, why = core.file.gnuplot(script_of(canvas, kind))
  if not bytes or bytes == "" then fail(path, why) end
  output.write(path, kind == "pdf" and timeless(bytes) or bytes)
end

return gnuplot
