--- The base of every plot: it draws itself on a canvas and can be saved, printed and put into reports.
local check = require "tperf.base.check"
local canvas = require "tperf.plot.draw.canvas"
local neutral = require "tperf.base.entry.neutral"
local output = require "tperf.output.file"
local render = require "tperf.output.render"
local svg = require "tperf.plot.draw.svg"
local terminal = require "tperf.output.terminal"

local stdout = io.output -- scripts may be denied io, but plots still print to standard output

---@class tperf.Plot
---@field title string
local figure = {}
local metatable = { __index = figure }

local INCH <const> = 96 -- px: a px is 1/96 inch, as in CSS
local LENGTHS <const> = { px = 1, ["in"] = INCH, cm = INCH / 2.54, mm = INCH / 25.4, pt = INCH / 72 }

-- A length in px, or with a unit: 336, "3.5 in", "89 mm", "252 pt".
local function length(o)
  local example = o.example
  local function checked(value, path)
    if value == nil then return o.default end
    local number = value
    if type(value) == "string" then
      local digits, unit = value:match "^%s*([%d.]+)%s*(%a+)%s*$"
      number = tonumber(digits) and LENGTHS[unit] and tonumber(digits) * LENGTHS[unit]
    end
    if type(number) == "number" and number >= o.min and number <= o.max then return number end
    return nil, ("'%s' must be a length from %g to %g px, such as %s, got %s"):format(path, o.min, o.max, example,
      check.show(value)), path
  end
  check.describe(checked, { kind = "one_of", default = o.default, optional = true,
    choices = { check.number { min = o.min, max = o.max }, check.string {} } })
  return checked
end

figure.length = length

local SIZE <const> = 12 -- px, of labels, for which everything is laid out

--- Options common to all kinds of plots.
--  title, subtitle   above the plot
--  xlabel, ylabel    labels of the axes; default: the fields' titles
--  xunit, yunit      "bytes", "s", "FLOP/s" …: ticks get SI prefixes
--  width, height     px (1/96 inch), or "3.5 in", "89 mm", "252 pt"
--  font_size         of labels: px, or "8 pt" (12 px); all else is scaled with it
--  font              the family to prefer: "Times New Roman"
--  legend            where: "right", "top", "bottom" or "none"; default: beside the data if there is room, else above
--  legend_title      a text before its entries
--  alpha             opacity of what shows the data, 0 to 1 (1)
figure.common = {
  title = check.string { optional = true },
  subtitle = check.string { optional = true },
  xlabel = check.string { optional = true, empty = true },
  ylabel = check.string { optional = true, empty = true },
  xunit = check.string { optional = true },
  yunit = check.string { optional = true },
  width = length { min = 240, max = 4000, default = 720, example = '"3.5 in"' },
  height = length { min = 160, max = 4000, default = 430, example = '"2.5 in"' },
  font_size = length { min = 4, max = 60, default = SIZE, example = '"8 pt"' },
  font = check.string { optional = true, name = true },
  legend = check.choice { { "right", "top", "bottom", "none" }, optional = true },
  legend_title = check.string { optional = true },
  alpha = check.number { above = 0, max = 1, optional = true },
}

--- Adds the common options to a kind's own, except those that it has no use for.
---@param own table
---@param unused? string[]
function figure.schema(own, unused)
  for name, checker in pairs(figure.common) do own[name] = own[name] or checker end
  for _, name in ipairs(unused or {}) do own[name] = nil end
  return own
end

--- Starts a plot from the options common to all kinds. It is laid out for labels of 12 px: a unit of its width and
--- height is `zoom` px.
function figure.start(what, o)
  local zoom = o.font_size / SIZE
  return { what = what, title = o.title, subtitle = o.subtitle, width = o.width / zoom, height = (o.height or 0) / zoom,
    zoom = zoom, font = o.font, legend = o.legend, legend_title = o.legend_title, alpha = o.alpha }
end

--- A plot from: what (its function's name), width, height, title, description, draw(canvas), lines(options) -> text.
---@return tperf.Plot
function figure.new(plot)
  return setmetatable(plot, metatable)
end

--- Whether a value is a plot.
function figure.is(value)
  return getmetatable(value) == metatable
end

function figure:canvas()
  local zoom = self.zoom or 1
  local c = canvas.new(self.width * zoom, self.height * zoom)
  self.draw(c:moved(0, 0, zoom))
  return c
end

local function document_of(self, theme)
  return svg.document(figure.canvas(self), self.title or self.what, self.description,
    { theme = theme, font = self.font })
end

local theme = check.choice { { "light", "dark" }, default = "light" }
local svg_schema = { theme = theme }
local save_schema = { theme = theme, dpi = render.dpi }

--- The plot as an SVG document; the same rows give the same bytes.
---@param options? table
---  theme  "light" (default) or "dark"
---@return string
function figure:svg(options)
  return document_of(self, check.record(self.what .. ": svg", options or {}, svg_schema).theme)
end

local text_schema = {
  width = check.integer { min = 30, max = 500, default = 78 },
  height = check.integer { min = 6, max = 200, default = 20 },
  ascii = check.boolean { default = false },
  color = check.boolean { default = false },
}

--- The plot as text.
---@param options? { width: integer, height: integer, ascii: boolean, color: boolean }
---@return string
function figure:text(options)
  return self.lines(check.record(self.what .. ": text", options or {}, text_schema))
end

--- Prints the plot in the terminal: Unicode if the locale supports it, colours if standard output is a terminal.
---@param options? table  as for :text
function figure:print(options)
  local o = {}
  for name, value in pairs(options or {}) do o[name] = value end
  if o.ascii == nil then o.ascii = terminal.ascii() end
  if o.color == nil then o.color = terminal.color() end
  stdout():write(self:text(o))
end

local ENDINGS <const> = { svg = true, txt = true, png = true, pdf = true }

local function ending_of(path, what)
  if type(path) ~= "string" then check.fail("%s: save needs a file name, got %s", what, check.show(path)) end
  local ending = render.ending(path)
  if ENDINGS[ending] then return ending end
  check.fail("%s: cannot save '%s': the name must end in .svg, .png, .pdf or .txt", what, path)
end

--- Raises if a plot could not be saved at that path. Call it before computing what is to be drawn.
---@param path string
---@param what string  prefix of the message
function figure.check(path, what)
  ending_of(path, what)
  render.check(path)
  output.check(path)
end

--- Saves the plot in the format of the name's extension: .svg, .txt, and, if rsvg-convert is installed, .png and .pdf.
---@param path string
---@param options? table
---  theme  "light" (default) or "dark"
---  dpi    of a PNG (192)
function figure:save(path, options)
  local ending = ending_of(path, self.what)
  local o = check.record(self.what .. ": save", options or {}, save_schema)
  if ending == "txt" then return output.write(path, figure.text(self)) end
  render.write(path, document_of(self, o.theme), o.dpi)
end

neutral.methods(figure)

return figure
