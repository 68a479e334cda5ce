--- The base of every plot: it draws itself on a canvas and can be saved, printed and put into reports.
local check = require "tperf.base.check"
local canvas = require "tperf.plot.draw.canvas"
local gnuplot = require "tperf.plot.draw.gnuplot"
local neutral = require "tperf.base.entry.neutral"
local output = require "tperf.output.file"
local svg = require "tperf.plot.draw.svg"
local terminal = require "tperf.output.terminal"

local stdout = io.output -- scripts may be denied io, but plots still print to standard output

---@class tperf.Plot
---@field title string
local figure = {}
local metatable = { __index = figure }

--- Options common to all kinds of plots.
--  title, subtitle   above the plot
--  xlabel, ylabel    labels of the axes; default: the fields' titles
--  xunit, yunit      "bytes", "s", "FLOP/s" …: ticks get SI prefixes
--  width, height     px
figure.common = {
  title = check.string { optional = true },
  subtitle = check.string { optional = true },
  xlabel = check.string { optional = true, empty = true },
  ylabel = check.string { optional = true, empty = true },
  xunit = check.string { optional = true },
  yunit = check.string { optional = true },
  width = check.integer { min = 240, max = 4000, default = 720 },
  height = check.integer { min = 160, max = 4000, default = 430 },
}

--- Adds the common options to a kind's own.
function figure.schema(own)
  for name, checker in pairs(figure.common) do own[name] = own[name] or checker end
  return own
end

--- Starts a plot from the options common to all kinds.
function figure.start(what, o)
  return { what = what, title = o.title, subtitle = o.subtitle, width = o.width, height = o.height }
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
  local c = canvas.new(self.width, self.height)
  self.draw(c)
  return c
end

--- The plot as an SVG document; the same rows give the same bytes.
---@return string
function figure:svg()
  return svg.document(self:canvas(), self.title or self.what, self.description)
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

local function ending_of(path, what)
  if type(path) ~= "string" then check.fail("%s: save needs a file name, got %s", what, check.show(path)) end
  local ending = (path:match "%.(%w+)$" or ""):lower()
  if ending == "svg" or ending == "txt" or ending == "png" or ending == "pdf" then return ending end
  check.fail("%s: cannot save '%s': the name must end in .svg, .png, .pdf or .txt", what, path)
end

--- Raises if a plot could not be saved at that path. Call it before computing what is to be drawn.
---@param path string
---@param what string  prefix of the message
function figure.check(path, what)
  local ending = ending_of(path, what)
  if ending == "png" or ending == "pdf" then gnuplot.check(path) end
  output.check(path)
end

--- Saves the plot in the format of the name's extension: .svg, .txt, and, if gnuplot is installed, .png and .pdf.
---@param path string
function figure:save(path)
  local ending = ending_of(path, self.what)
  if ending == "svg" then return output.write(path, self:svg()) end
  if ending == "txt" then return output.write(path, self:text()) end
  return gnuplot.save(self:canvas(), path, ending)
end

neutral.methods(figure)

return figure
