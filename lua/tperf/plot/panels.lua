--- Several plots in one figure, one above the other.
local argument = require "tperf.base.entry.argument"
local axes = require "tperf.plot.draw.axes"
local canvas = require "tperf.plot.draw.canvas"
local check = require "tperf.base.check"
local figure = require "tperf.plot.figure"

local WHAT = "plot.panels"

--- Stacks plots vertically under one title: plot.panels { title =, plot1, plot2, … }.
---@param options table  the plots in order, and
---  title  of the figure
---@return tperf.Plot
return function(options)
  if type(options) ~= "table" then check.fail("%s needs a table of plots, got %s", WHAT, check.show(options)) end
  argument.list(WHAT, "plots", options)
  local plots, named = {}, {}
  for key, value in pairs(options) do
    if math.type(key) == "integer" then plots[key] = value else named[key] = value end
  end
  local o = check.record(WHAT, named, { title = check.string { optional = true } })
  if #plots == 0 then check.fail("%s has no plots to draw", WHAT) end
  local plot = { what = WHAT, title = o.title, width = 0, height = 0 }
  local about = {}
  plot.font = figure.is(plots[1]) and plots[1].font or nil
  for i, part in ipairs(plots) do
    if not figure.is(part) then check.fail("%s: [%d] must be a plot, got %s", WHAT, i, check.show(part)) end
    local zoom = part.zoom or 1
    plot.width, plot.height = math.max(plot.width, part.width * zoom), plot.height + part.height * zoom
    about[i] = part.description
  end
  local title = o.title and canvas.wrap(o.title, plot.width - 24, 18) or {}
  local head = o.title and 14 + 20 * math.max(1, #title) or 0
  plot.height = plot.height + head
  plot.draw = function(c)
    local y = 0
    if o.title then
      for i, line in ipairs(title) do
        c:text(12, 24 + (i - 1) * 20, line, { size = 17, bold = true, title = i == 1 and o.title or nil })
      end
      y = head
    end
    axes.align(plots)
    for _, part in ipairs(plots) do
      local zoom = part.zoom or 1
      part.draw(c:moved(0, y, zoom))
      part.margins = nil
      y = y + part.height * zoom
    end
  end
  plot.lines = function(how)
    local texts = {}
    for i, part in ipairs(plots) do texts[i] = part.lines(how) end
    return (o.title and o.title .. "\n\n" or "") .. table.concat(texts, "\n")
  end
  plot.description = table.concat(about, " ")
  return figure.new(plot)
end
